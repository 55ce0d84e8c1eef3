import { existsSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import { EXIT, parseFlagsAndArguments, parseInteger, parseList, runCommand } from '../src/cli/cli';
import { givenControlKey } from '../src/commands/target';
import { UsageError } from '../src/core/errors';
import { shellWord } from '../src/core/format';
import { inferCommand, typesCommand, type Connection } from '../src/infer/command';
import { PIXELS, type PixelKind } from '../src/media/pictures';
import { SAVED_AS } from '../src/infer/results';
import { STANDARD_HTTP } from '../src/local/next-commands';
import { findLocalStack, runningStacks } from '../src/local/state';
import { paths } from '../src/core/paths';
import { CONTROL_HEADER, GRPC_CONTROL_HEADER } from '../src/triton/control-key';

const HELP = `Sends a request to a model and shows the answer. Without an INPUT it tells what the model takes.

  npm run infer -- MODEL [INPUT...] [options]
  npm run infer -- [MODEL...] --types FILE.ts

  INPUT              a picture, a .wav, .npy, .json or .txt file, JSON, or a text; what the model takes says how it is sent
                     NAME=INPUT says for which input: NAME=[[1, 2]]; a text that is JSON goes into a .txt file
                     {"inputs": [...]}, also as a .json file, is a whole request as curl sends it
  -o, --out FILE     writes the answer: ${SAVED_AS.join(' ')}
  --json             the answer as JSON on stdout
  --outputs A,B      only these outputs (default: all)
  --top N            of outputs with labels the N best classes (default 5, with --out 0; 0: the values)
  --pixels KIND      what pictures become: ${Object.keys(PIXELS).join(', ')}
                     (default: bgr for bytes, imagenet for classifiers, else signed: RGB in [-1, 1])
  --repo DIR         model repository, for tokenizers (default: model-repo)
  --version N        version of the model (default: what its policy prefers)
  --local            asks the running npm run local, wherever its ports are; of several --repo names one
  --url URL          Triton's HTTP address (default http://127.0.0.1:8000, as npm run local has it)
  --grpc HOST:PORT   Triton's gRPC address, instead of HTTP
  --header "A: B"    sent with each request; may be given again
  --timeout SECONDS  for each request (default 60)
  --bench            sends the request again and again; zeros where no INPUT is given
  --concurrency N    requests at any time, with --bench (default 1)
  --duration SECONDS with --bench (default 10)
  --types FILE.ts    writes what the models take and answer (default: all that are ready) as types for TypeScript
  --help

Exit codes: 0 answered, 1 failed (with --bench: any request), 2 wrong command line.
`;

const MOST_INPUTS = 1000;
const LONGEST_S = 86_400;
/** Flags that describe a request. */
const NOT_FOR_TYPES = [
  'out',
  'json',
  'outputs',
  'top',
  'pixels',
  'version',
  'bench',
  'concurrency',
  'duration',
] as const;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => infer(argv));
}

async function infer(argv: readonly string[]): Promise<number> {
  const { flags, positionals } = parseFlagsAndArguments(
    argv,
    {
      out: { type: 'string', short: 'o' },
      json: { type: 'boolean', default: false },
      outputs: { type: 'string' },
      top: { type: 'string' },
      pixels: { type: 'string' },
      repo: { type: 'string' },
      local: { type: 'boolean', default: false },
      version: { type: 'string' },
      url: { type: 'string' },
      grpc: { type: 'string' },
      header: { type: 'string', multiple: true, default: [] },
      timeout: { type: 'string', default: '60' },
      bench: { type: 'boolean', default: false },
      concurrency: { type: 'string' },
      duration: { type: 'string' },
      types: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
    MOST_INPUTS,
  );
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const server = serverOf(flags);
  if (flags.types !== undefined) {
    const other = NOT_FOR_TYPES.find((name) => flags[name] !== undefined && flags[name] !== false);
    if (other !== undefined) throw new UsageError(`--types and --${other} do not go together`);
    return typesCommand({ ...server, file: typesFile(flags.types), models: positionals });
  }
  const [model, ...inputs] = positionals;
  if (model === undefined || model.trim() === '')
    throw new UsageError('no model is named', { hint: 'npm run infer -- MODEL [INPUT...]' });
  if (!flags.bench && (flags.concurrency ?? flags.duration) !== undefined) {
    throw new UsageError('--concurrency and --duration are for --bench');
  }
  if (flags.bench && flags.out !== undefined) throw new UsageError('--out and --bench do not go together');
  return inferCommand({
    model,
    inputs,
    ...server,
    version:
      flags.version === undefined ? undefined : parseInteger('version', flags.version, 1, Number.MAX_SAFE_INTEGER),
    pixels: flags.pixels === undefined ? undefined : pixelKind(flags.pixels),
    outputs: parseList('outputs', flags.outputs),
    top: flags.top === undefined ? undefined : parseInteger('top', flags.top, 0, 1000),
    out: flags.out === undefined ? undefined : outFile(flags.out),
    json: flags.json,
    repeated: repeatedFlags(flags),
    load: flags.bench
      ? {
          concurrency: parseInteger('concurrency', flags.concurrency ?? '1', 1, 1024),
          seconds: parseInteger('duration', flags.duration ?? '10', 1, LONGEST_S),
        }
      : undefined,
  });
}

interface ServerFlags {
  local: boolean;
  repo?: string | undefined;
  url?: string | undefined;
  grpc?: string | undefined;
  header: string[];
  timeout: string;
}

/** Returns the server to ask, and the folder with the files that its models need on the client. */
function serverOf(flags: ServerFlags): Connection & { repository: string } {
  const repo = flags.repo === undefined ? undefined : resolve(flags.repo);
  const given = flags.url === undefined ? 'grpc' : 'url';
  if (flags.local && flags[given] !== undefined) throw new UsageError(`--local and --${given} do not go together`);
  const local = flags.local ? findLocalStack(repo) : undefined;
  const address =
    flags.grpc === undefined
      ? { url: local?.httpUrl ?? httpUrl(flags.url ?? STANDARD_HTTP) }
      : { grpc: grpcAddress(flags.grpc) };
  return {
    address,
    headers: { ...controlHeader(address), ...Object.fromEntries(flags.header.map(header)) },
    timeoutMs: parseInteger('timeout', flags.timeout, 1, LONGEST_S) * 1000,
    repository: repo ?? local?.repository ?? paths.modelRepository,
  };
}

/** The flags that select the server, version and repository, repeated for the next command. */
function repeatedFlags(flags: ServerFlags & { version?: string | undefined }): string {
  const values = (['url', 'grpc', 'header', 'version', 'repo'] as const).flatMap((name) =>
    [flags[name] ?? []].flat().map((value) => ` --${name} ${shellWord(value)}`),
  );
  return [...(flags.local ? [' --local'] : []), ...values].join('');
}

/** Sends the control key if it is given or belongs to a local stack, so that the command can list the models. */
function controlHeader(address: Connection['address']): Record<string, string> {
  const isHttp = 'url' in address;
  const local = runningStacks().find((stack) =>
    isHttp ? stack.httpUrl === address.url : stack.grpcAddress === address.grpc,
  );
  const key = givenControlKey() ?? local?.modelControlKey;
  return key === undefined ? {} : { [isHttp ? CONTROL_HEADER : GRPC_CONTROL_HEADER]: key };
}

function httpUrl(text: string): string {
  if (!/^https?:\/\/[^/]/.test(text) || !URL.canParse(text)) {
    throw new UsageError(`--url ${text}: http://HOST:PORT or https://HOST:PORT is needed`);
  }
  return text;
}

function grpcAddress(text: string): string {
  if (!/^(https?:\/\/)?[^/\s]+:\d+$/.test(text)) {
    throw new UsageError(`--grpc ${text}: HOST:PORT is needed, https://HOST:PORT for TLS`);
  }
  return text;
}

function header(text: string): [string, string] {
  const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):\s*(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new UsageError(`--header "${text}": "NAME: VALUE" is needed`);
  return [name, value];
}

function pixelKind(text: string): PixelKind {
  if (!Object.hasOwn(PIXELS, text)) {
    throw new UsageError(`--pixels ${text}: no such kind`, { hint: Object.keys(PIXELS).join(', ') });
  }
  return text as PixelKind;
}

function outFile(file: string): string {
  if (!SAVED_AS.includes(extname(file).toLowerCase())) {
    throw new UsageError(`--out ${file}: the end of its name says what is written: ${SAVED_AS.join(' ')}`);
  }
  return inFolder('out', file);
}

function typesFile(file: string): string {
  if (!file.endsWith('.ts')) throw new UsageError(`--types ${file}: the name of a .ts file is needed`);
  return inFolder('types', file);
}

function inFolder(flag: string, file: string): string {
  const folder = dirname(resolve(file));
  if (!existsSync(folder)) throw new UsageError(`--${flag} ${file}: there is no folder ${folder}`);
  return file;
}
