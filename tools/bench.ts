import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { benchBatching } from './bench/batching';
import { benchClient, cellJson, cellTable, type CellResult } from './bench/client';
import { median } from './bench/compare';
import { benchEnsemble } from './bench/ensemble';
import { benchPrecision } from './bench/precision';
import { benchPreview, whyNoPreview } from './bench/preview';
import { print } from './bench/print';
import { benchStart } from './bench/start';
import { benchSync } from './bench/sync';
import { syncChart } from './bench/sync/chart';
import { rowJson } from './bench/sync/report';
import { EXIT, parseFlags, parseInteger, parseList, runCommand } from '../src/cli/cli';
import { withInterrupts } from '../src/cli/interrupts';
import { UsageError } from '../src/core/errors';
import { stopCommands } from '../src/core/exec';
import { stopAll } from '../src/local/process/managed-process';
import { paths } from '../src/core/paths';
import { Progress } from '../src/cli/progress';

const HELP = `Measures this package on this machine, always against something in the same run.

  npm run bench [-- options]

  --only NAME       start: a fresh run (nothing cached, everything downloaded) and a second one of "npm run local", by step
                    ensemble: images a second of the ensemble against pre, net and post called one by one
                    batching: images a second of gfpgan in batches against one by one
                    precision: error against float64 and time of each model in FP32, BF16 and FP16, on the GPU if there is one
                    preview: "pulumi preview" of the stack staging against an empty program on the same engine
                    client: requests a second of our client against NVIDIA's tritonclient and perf_analyzer
                    sync: sync-models against s5cmd, rclone and aws-cli on an S3 server on this machine
  --repetitions N   rounds of each comparison (default 7)
  --rows A,B        sync: only these of cold-1000, cold-10000, large, no-op, changed, ready, start; client: of http, grpc;
                    precision: of the models
  --quick           sync: a tenth of the files, to see whether all of it works
  --out DIR         results as JSON, one file a benchmark (default: docs/benchmarks; nowhere with --rows or --quick)
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
  const isPartial = flags.rows !== undefined || flags.quick;
  if (flags.quick && flags.only !== 'sync') throw new UsageError('--quick is for --only sync');
  if (flags.rows !== undefined && !['sync', 'client', 'precision'].includes(flags.only ?? '')) {
    throw new UsageError('--rows is for --only sync, --only client and --only precision');
  }
  const rows = parseList('rows', flags.rows);
  // A partial run must not replace the complete results.
  const out = flags.out ?? (isPartial ? undefined : join(paths.root, 'docs', 'benchmarks'));
  const all = {
    start: benchStart,
    ensemble: () => benchEnsemble(repetitions),
    batching: () => benchBatching(repetitions),
    precision: () => benchPrecision(repetitions, rows),
    preview: () => benchPreviews(repetitions),
    client: () => benchClients(repetitions, rows),
    sync: () => benchSyncRows({ repetitions, rows, quick: flags.quick }, out),
  };
  const names = Object.keys(all) as (keyof typeof all)[];
  const wanted = names.filter((name) => (flags.only === undefined ? isPossible(name) : flags.only === name));
  if (wanted.length === 0) throw new UsageError(`--only ${flags.only}: no such benchmark`, { hint: names.join(', ') });
  if (out !== undefined) mkdirSync(out, { recursive: true });
  for (const name of wanted) {
    const result = { date: new Date().toISOString().slice(0, 10), machine: describeMachine(), ...(await all[name]()) };
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

function describeMachine(): string {
  return `${cpus().length} x ${cpus()[0]?.model ?? 'unknown processor'}, ${Math.round(totalmem() / 2 ** 30)} GiB, no GPU, Node ${process.versions.node}`;
}

async function benchSyncRows(
  options: { repetitions: number; rows: readonly string[] | undefined; quick: boolean },
  out: string | undefined,
): Promise<object> {
  const rows = await benchSync({
    ...options,
    progress: new Progress(),
    onRow: (text) => process.stdout.write(`\n${text}\n\n`),
  });
  if (out !== undefined) writeFileSync(join(out, 'sync.svg'), syncChart(rows, describeMachine()));
  return { repetitions: options.repetitions, quick: options.quick, rows: rows.map(rowJson) };
}

async function benchPreviews(repetitions: number): Promise<object> {
  const result = await benchPreview(repetitions, new Progress());
  const times = Object.entries(result.rows).map(([name, { seconds, fromProgramSeconds }]) => [
    name,
    median(seconds).toFixed(2),
    median(fromProgramSeconds).toFixed(2),
  ]);
  print('pulumi preview', ['program', 'seconds', 'from the start of the program'], times);
  const { beyondProviders: program, whole, overProviders: given } = result;
  const ratios = [
    ['start of the program to the end, less the providers', program.emptySeconds, program],
    ['pulumi preview, less the providers', whole.emptySeconds, whole],
    ['pulumi preview, against a program with the providers', given.providersSeconds, given],
  ] as const;
  print(
    'staging against an empty program',
    ['what', 'staging', 'empty', 'ratio'],
    ratios.map(([what, other, { stagingSeconds, ratio }]) => [
      what,
      stagingSeconds.toFixed(2),
      other.toFixed(2),
      ratio.toFixed(2),
    ]),
  );
  return { repetitions, ...result };
}

async function benchClients(repetitions: number, rows: readonly string[] | undefined): Promise<object> {
  const onCell = (cell: CellResult): void => void process.stdout.write(`\n${cellTable([cell])}\n\n`);
  const cells = await benchClient({ repetitions, rows, progress: new Progress(), onCell });
  process.stdout.write(`\n${cellTable(cells)}\n\n`);
  return { repetitions, cells: cells.map(cellJson) };
}
