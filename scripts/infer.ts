import { existsSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import { parseInteger, parseList } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { UsageError } from '../src/core/errors';
import { shellWord } from '../src/core/format';
import { DEFAULT_TOP, inferCommand, type Connection } from '../src/commands/infer/command';
import { PIXELS, type PixelKind } from '../src/model/media/pictures';
import { SAVED_AS } from '../src/commands/infer/results';
import { STANDARD_HTTP } from '../src/local/hints';
import { findLocalStack, runningStacks } from '../src/local/state';
import { paths } from '../src/core/paths';
import { CONTROL_HEADER } from '../src/triton/control-key';

const FLAGS = {
  out: { value: 'FILE', short: 'o', help: `save the answer: ${SAVED_AS.join(' ')}` },
  json: { help: 'print the answer as JSON' },
  outputs: { value: 'A,B', help: 'request only these outputs (default: all)' },
  top: {
    value: 'N',
    help: `for outputs with labels, print the N best classes (default: ${DEFAULT_TOP}, or 0 with --out); 0 prints the values`,
  },
  pixels: {
    value: 'KIND',
    help: `format of pictures: ${Object.keys(PIXELS).join(', ')} (default: bgr for UINT8, imagenet for models with labels, otherwise signed, which is RGB from -1 to 1; the command prints the format)`,
  },
  repo: { value: 'DIR', help: 'model repository with the tokenizers (default: model-repo)' },
  local: { help: 'send to the running "npm run local", on any ports; if several run, --repo selects one' },
  version: { value: 'N', help: 'version of the model (default: the version that its policy selects)' },
  url: { value: 'URL', help: `Triton's HTTP address (default: ${STANDARD_HTTP}, the address of npm run local)` },
  header: {
    value: '"A: B"',
    multiple: true,
    default: [] as string[],
    help: 'header of each request; repeat the flag for several headers',
  },
  timeout: { value: 'SECONDS', default: '60', help: 'timeout of each request' },
} as const;

const LONGEST_S = 86_400;
const LINE = {
  name: 'npm run infer',
  about:
    'Sends a request to a model and prints the answer. Without an INPUT, prints the inputs and outputs of the model.',
  arguments: {
    '[MODEL]': 'name of the model',
    '[INPUT...]':
      'a picture, a .npy, .json or .txt file, JSON, or a text; the model determines how it is sent NAME=INPUT is the input NAME of the model: NAME=[[1, 2]]; put a text that is JSON into a .txt file',
  },
  flags: FLAGS,
  notes: `Examples:
  npm run infer -- resnet                                   # print the inputs and outputs
  npm run infer -- resnet photo.jpg --top 3
  npm run infer -- bert "How do I get home?" "Show me the way" --url http://10.0.0.5:8000

Exit codes: 0 answered, 1 failed, 2 wrong command line.`,
};

export const main = command(LINE, async (flags, [model, ...inputs]) => {
  if (model === undefined || model.trim() === '')
    throw new UsageError('no model is given', { hint: 'npm run infer -- MODEL [INPUT...]' });
  return inferCommand({
    model,
    inputs,
    ...getServer(flags),
    version:
      flags.version === undefined ? undefined : parseInteger('version', flags.version, 1, Number.MAX_SAFE_INTEGER),
    pixels: flags.pixels === undefined ? undefined : pixelKind(flags.pixels),
    outputs: parseList('outputs', flags.outputs),
    top: flags.top === undefined ? undefined : parseInteger('top', flags.top, 0, 1000),
    out: flags.out === undefined ? undefined : outFile(flags.out),
    json: flags.json,
    repeated: repeatedFlags(flags),
  });
});

interface ServerFlags {
  local: boolean;
  repo?: string;
  url?: string;
  header: string[];
  timeout: string;
}

/** Returns the server to ask, and the folder with the files that its models need on the client. */
function getServer(flags: ServerFlags): Connection & { repository: string } {
  const repo = flags.repo === undefined ? undefined : resolve(flags.repo);
  if (flags.local && flags.url !== undefined)
    throw new UsageError('--local and --url cannot be combined', { hint: 'omit one of them' });
  const local = flags.local ? findLocalStack(repo) : undefined;
  const url = local?.httpUrl ?? httpUrl(flags.url ?? STANDARD_HTTP);
  return {
    url,
    headers: { ...controlHeader(url), ...Object.fromEntries(flags.header.map(header)) },
    timeoutMs: parseInteger('timeout', flags.timeout, 1, LONGEST_S) * 1000,
    repository: repo ?? local?.repository ?? paths.modelRepository,
  };
}

/** The flags that select the server, version and repository, repeated for the next command. */
function repeatedFlags(flags: ServerFlags & { version?: string }): string {
  const values = (['url', 'header', 'version', 'repo'] as const).flatMap((name) =>
    [flags[name] ?? []].flat().map((value) => ` --${name} ${shellWord(value)}`),
  );
  return [...(flags.local ? [' --local'] : []), ...values].join('');
}

/** Sends the control key of a local stack, so that the command can list the models. */
function controlHeader(url: string): Record<string, string> {
  const key = runningStacks().find(({ httpUrl }) => httpUrl === url)?.modelControlKey;
  return key === undefined ? {} : { [CONTROL_HEADER]: key };
}

function httpUrl(text: string): string {
  if (!/^https?:\/\/[^/]/.test(text) || !URL.canParse(text)) {
    throw new UsageError(`--url ${text}: must be http://HOST:PORT or https://HOST:PORT`);
  }
  return text;
}

function header(text: string): [string, string] {
  const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):\s*(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new UsageError(`--header "${text}": must be "NAME: VALUE"`);
  return [name, value];
}

function pixelKind(text: string): PixelKind {
  if (!Object.hasOwn(PIXELS, text)) {
    throw new UsageError(`--pixels ${text}: unknown format; allowed: ${Object.keys(PIXELS).join(', ')}`);
  }
  return text as PixelKind;
}

function outFile(file: string): string {
  if (!SAVED_AS.includes(extname(file).toLowerCase())) {
    throw new UsageError(`--out ${file}: unknown file type; allowed: ${SAVED_AS.join(' ')}`);
  }
  const folder = dirname(resolve(file));
  if (!existsSync(folder)) throw new UsageError(`--out ${file}: the folder ${folder} does not exist`);
  return file;
}
