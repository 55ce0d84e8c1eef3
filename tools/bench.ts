import { cpus, totalmem } from 'node:os';
import { benchReplicas } from './bench/replicas';
import { benchRequests } from './bench/requests';
import { benchStart } from './bench/start';
import type { BenchOptions } from './bench/compare';
import { EXIT, parseInteger } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { withInterrupts } from '../src/cli/interrupts';
import { UsageError } from '../src/core/errors';
import { exec, stopCommands } from '../src/core/exec';
import { stopAll } from '../src/local/process/managed-process';

const BENCHMARKS: Readonly<Record<string, (options: BenchOptions) => Promise<void>>> = {
  start: benchStart,
  requests: benchRequests,
  replicas: benchReplicas,
};

const FLAGS = {
  only: {
    value: 'NAME',
    help: 'start, requests or replicas (default: all)',
  },
  repetitions: { value: 'N', default: '5', help: 'rounds of each measurement' },
  quick: { help: 'a tenth of the bytes and replicas, to try the benchmark' },
} as const;

const LINE = {
  name: 'npm run bench',
  about: 'Measures this package on this machine.',
  flags: FLAGS,
  notes: `start: "npm run local" in a fresh clone with empty caches, and again
requests: images per second of gfpgan in batches and one by one, and of its ensemble and steps
replicas: start of a replica, and a new version until READY on 1, 3 and 10 replicas`,
};

export const main = command(LINE, async ({ only, quick, ...flags }) => {
  const repetitions = parseInteger('repetitions', flags.repetitions, 1, 1000);
  const chosen = Object.entries(BENCHMARKS).filter(([name]) => only === undefined || only === name);
  if (chosen.length === 0) {
    throw new UsageError(`--only ${only}: unknown benchmark`, { hint: Object.keys(BENCHMARKS).join(', ') });
  }
  return withInterrupts(async (signal) => {
    // Every measurement fails without its processes, and its clean-up then runs.
    signal.addEventListener('abort', () => {
      stopCommands();
      void stopAll();
    });
    try {
      process.stdout.write(`${await describeMachine()}\n`);
      for (const [, run] of chosen) await run({ repetitions, quick });
      return EXIT.ok;
    } catch (error) {
      if (signal.aborted) return EXIT.interrupted;
      throw error;
    }
  });
});

async function describeMachine(): Promise<string> {
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
