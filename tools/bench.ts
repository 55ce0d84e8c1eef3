import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { benchColdStart } from './bench/coldstart';
import { benchDistance } from './bench/distance';
import { benchBatching, benchEnsemble } from './bench/gfpgan';
import { benchPreview, whyNoPreview } from './bench/preview';
import { benchStart } from './bench/start';
import { benchSync } from './bench/sync';
import { EXIT, parseFlags, parseInteger, parseList, runCommand } from '../src/cli/cli';
import { withInterrupts } from '../src/cli/interrupts';
import { UsageError } from '../src/core/errors';
import { exec, stopCommands } from '../src/core/exec';
import { stopAll } from '../src/local/process/managed-process';

const HELP = `Measures this package on this machine. Each benchmark also measures what its results are compared with.

  npm run bench [-- options]

  --only NAME       start: "npm run local" in a fresh clone with empty caches, and again
                    ensemble: images per second of the ensemble and of calls to its steps one by one
                    batching: images per second of gfpgan in batches and one by one
                    preview: "pulumi preview" of the stack staging and of an empty program
                    sync: sync-models, s5cmd, rclone and aws-cli with an S3 server on this machine
                    distance: sync-models, downloads of the agent, s5cmd and rclone over TLS with round-trip times of 1, 30
                    and 150 ms
                    coldstart: start of a replica with the release agent, with Triton's own S3 loader, and s5cmd
                    Default: all
  --repetitions N   rounds of each comparison (default 7)
  --rows A,B        measures only these rows. sync: cold-1000, large, start;
                    distance: cold-1000, large, download-1000, download-large;
                    coldstart: one, twenty, small, changes, publish
  --quick           sync, distance, coldstart: a tenth of the files or bytes, to test the benchmark
  --out DIR         also writes the results of each round here, one JSON file for each benchmark
  --help
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() =>
    withInterrupts(async (signal) => {
      // Every measurement fails without its processes, and its clean-up then runs.
      const stop = (): void => {
        stopCommands();
        void stopAll();
      };
      signal.addEventListener('abort', stop);
      try {
        return await bench(argv);
      } catch (error) {
        if (signal.aborted) return EXIT.interrupted;
        throw error;
      }
    }),
  );
}

async function bench(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, {
    only: { type: 'string' },
    repetitions: { type: 'string', default: '7' },
    rows: { type: 'string' },
    quick: { type: 'boolean', default: false },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const repetitions = parseInteger('repetitions', flags.repetitions, 1, 1000);
  if (flags.quick && !['sync', 'distance', 'coldstart'].includes(flags.only ?? '')) {
    throw new UsageError('--quick is for --only sync, distance and coldstart');
  }
  if (flags.rows !== undefined && !['sync', 'distance', 'coldstart'].includes(flags.only ?? '')) {
    throw new UsageError('--rows is for --only sync, distance and coldstart');
  }
  const rows = parseList('rows', flags.rows);
  const { out } = flags;
  const machine = await describeMachine();
  const all = {
    start: benchStart,
    ensemble: () => benchEnsemble(repetitions),
    batching: () => benchBatching(repetitions),
    preview: () => benchPreview(repetitions),
    coldstart: () => benchColdStart({ repetitions, rows, quick: flags.quick }),
    distance: () => benchDistance({ repetitions, rows, quick: flags.quick }),
    sync: () => benchSync({ repetitions, rows, quick: flags.quick }),
  };
  const names = Object.keys(all) as (keyof typeof all)[];
  const chosen = names.filter((name) => (flags.only === undefined ? isPossible(name) : flags.only === name));
  if (chosen.length === 0) throw new UsageError(`--only ${flags.only}: unknown benchmark`, { hint: names.join(', ') });
  if (out !== undefined) mkdirSync(out, { recursive: true });
  for (const name of chosen) {
    const result = { date: new Date().toISOString().slice(0, 10), machine, ...(await all[name]()) };
    if (out !== undefined) writeFileSync(join(out, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`);
  }
  return EXIT.ok;
}

/** Skips benchmarks that cannot run on this machine, unless they were requested by name. */
function isPossible(name: string): boolean {
  const reason = name === 'preview' ? whyNoPreview() : undefined;
  if (reason !== undefined) process.stderr.write(`left out: ${name}: ${reason}\n`);
  return reason === undefined;
}

export async function describeMachine(): Promise<string> {
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  const processors = `${cpus().length} x ${cpus()[0]?.model ?? 'unknown processor'}`;
  return `${processors}, ${memory}, ${await describeGpus()}, Node ${process.versions.node}`;
}

/** The GPUs that NVIDIA's driver reports, such as `2 x NVIDIA L4`. */
async function describeGpus(): Promise<string> {
  const query = exec('nvidia-smi', ['--query-gpu=name', '--format=csv,noheader']);
  const { stdout } = await query.catch(() => ({ stdout: '' }));
  const names = stdout.split('\n').filter((name) => name !== '');
  const models = [...new Set(names)].map((model) => `${names.filter((name) => name === model).length} x ${model}`);
  return models.length === 0 ? 'no GPU' : models.join(' + ');
}
