import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import { compare, inParallel, median, type Comparison } from './lib/bench/compare';
import { benchPreview, whyNoPreview } from './lib/bench/preview';
import { benchClient, cellJson, cellTable, type CellResult } from './lib/bench/client';
import { benchSync } from './lib/bench/sync';
import { syncChart } from './lib/bench/sync/chart';
import { rowJson } from './lib/bench/sync/report';
import { EXIT, parseFlags, parseInteger, parseList, runCommand } from './lib/cli';
import { UsageError, UserError } from './lib/errors';
import { formatDuration, formatTable } from './lib/format';
import { normalizedTensor, pixelTensor, readImage } from './lib/local/image';
import { FACE } from './lib/local/samples';
import { localDirectory, startStack } from './lib/local/stack';
import { selectModels } from './lib/local/selection';
import { Timings } from './lib/local/timings';
import { paths } from './lib/paths';
import { Progress } from './lib/progress';
import { TritonHttpClient } from './lib/triton/http';
import type { Tensor } from './lib/triton/tensor';

const HELP = `Measures this package on this machine, always against something in the same run.

  npm run bench [-- options]

  --only NAME       start: a fresh run (nothing cached, everything downloaded) and a second one of "npm run local", by step
                    ensemble: images a second of the ensemble against pre, net and post called one by one
                    batching: images a second of gfpgan in batches against one by one
                    preview: "pulumi preview" of the stack staging against an empty program on the same engine
                    client: requests a second of our client against NVIDIA's tritonclient and perf_analyzer
                    sync: sync-models against s5cmd, rclone and aws-cli on an S3 server on this machine
  --repetitions N   rounds of each comparison (default 7)
  --rows A,B        sync: only these of cold-1000, cold-10000, large, no-op, changed, ready, start; client: of http, grpc
  --quick           sync: a tenth of the files, to see whether all of it works
  --out DIR         results as JSON, one file a benchmark (default: docs/benchmarks; nowhere with --rows or --quick)
  --help
`;

const FREE_PORTS = { 'http-port': 0, 'grpc-port': 0, 'metrics-port': 0, 's3-port': 0 };

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => bench(argv));
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
  if (flags.rows !== undefined && flags.only !== 'sync' && flags.only !== 'client') {
    throw new UsageError('--rows is for --only sync and --only client');
  }
  const rows = parseList('rows', flags.rows);
  // A part of the numbers must not replace all of them.
  const out = flags.out ?? (isPartial ? undefined : join(paths.root, 'docs', 'benchmarks'));
  const all = {
    start: () => Promise.resolve(benchStart()),
    ensemble: () => benchEnsemble(repetitions),
    batching: () => benchBatching(repetitions),
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

/** What this machine lacks the means for is left out, unless it was asked for by its name. */
function isPossible(name: string): boolean {
  const reason = name === 'preview' ? whyNoPreview() : undefined;
  if (reason !== undefined) process.stderr.write(`left out: ${name}: ${reason}\n`);
  return reason === undefined;
}

function describeMachine(): string {
  return `${cpus().length} x ${cpus()[0]?.model ?? 'unknown processor'}, ${Math.round(totalmem() / 2 ** 30)} GiB, no GPU, Node ${process.versions.node}`;
}

interface LocalJson {
  steps: { name: string; milliseconds: number }[];
  milliseconds: number;
}

/** Everything from nothing, in folders of their own: the cache, the downloads and the traced models. */
function benchStart(): object {
  const scratch = mkdtempSync(join(tmpdir(), 'triton-serving-bench-'));
  try {
    const repository = join(scratch, 'model-repo');
    cpSync(paths.modelRepository, repository, {
      recursive: true,
      filter: (path) => !/^\d+$/.test(basename(path)) || path.includes('ens_'),
    });
    const run = (): LocalJson => {
      const args = [join(paths.scripts, 'run.mjs'), 'local', '--once', '--json', '--repo', repository];
      for (const flag of Object.keys(FREE_PORTS)) args.push(`--${flag}`, '0');
      const { status, stdout } = spawnSync(process.execPath, args, {
        env: { ...process.env, XDG_CACHE_HOME: join(scratch, 'cache') },
        stdio: ['ignore', 'pipe', 'inherit'],
        encoding: 'utf8',
      });
      if (status !== 0) throw new UserError(`npm run local ended with exit code ${status}`);
      return JSON.parse(stdout) as LocalJson;
    };
    const runs = { fresh: run(), second: run() };
    const steps = runs.fresh.steps.map(({ name, milliseconds }, i) => [
      name,
      formatDuration(milliseconds),
      formatDuration(runs.second.steps[i]?.milliseconds ?? NaN),
    ]);
    const total = [
      'all, with what ran side by side',
      formatDuration(runs.fresh.milliseconds),
      formatDuration(runs.second.milliseconds),
    ];
    print('npm run local, by step', ['step', 'fresh', 'second run'], [...steps, total]);
    return { fresh: pick(runs.fresh), second: pick(runs.second) };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function pick({ steps, milliseconds }: LocalJson): LocalJson {
  return { steps, milliseconds };
}

/** Pre- and postprocessing without a network between them: what of the serving is left when that takes no time. */
const WITHOUT_NETWORK = `platform: ensemble
input: [{ name: raw_image, data_type: TYPE_UINT8, dims: [-1, -1, 3] }]
output: [{ name: image_out, data_type: TYPE_UINT8, dims: [-1, -1, 3] }]
version_policy: { specific: { versions: [1] } }
ensemble_scheduling:
  step:
    - { model_name: pre_gfpgan, model_version: -1, input_map: { input__0: raw_image }, output_map: { output__0: preprocessed } }
    - { model_name: post_gfpgan, model_version: -1, input_map: { input__0: preprocessed }, output_map: { output__0: image_out } }
`;

async function benchEnsemble(repetitions: number): Promise<object> {
  const repository = mkdtempSync(join(tmpdir(), 'triton-serving-bench-'));
  try {
    const ensembles = { whole: 'ens_face_restoration_v2.1', without: 'ens_without_network' };
    for (const name of ['pre_gfpgan', 'infer_face_restoration_v2.1', 'post_gfpgan', ensembles.whole]) {
      cpSync(join(paths.modelRepository, name), join(repository, name), { recursive: true });
    }
    mkdirSync(join(repository, ensembles.without, '1'), { recursive: true });
    writeFileSync(join(repository, ensembles.without, 'model.yaml'), WITHOUT_NETWORK);
    writeFileSync(join(repository, ensembles.without, '1', '.keep'), 'An ensemble has no file.\n');
    return await withModels(repository, undefined, async (client, progress) => {
      const pixels = pixelTensor('raw_image', await readImage(FACE));
      const through = async (models: readonly string[]): Promise<void> => {
        let tensor: Tensor = pixels;
        for (const model of models) tensor = await only(client, model, { ...tensor, name: 'input__0' });
      };
      const results: Record<string, Comparison[]> = {};
      const measure = async (
        title: string,
        images: number,
        clients: number,
        steps: readonly string[],
        ensemble: string,
      ) => {
        const contender = (name: string, work: () => Promise<unknown>) => ({
          name,
          units: images,
          run: () => inParallel(images, clients, work),
        });
        const contenders = [
          contender('one by one', () => through(steps)),
          contender('ensemble', () => only(client, ensemble, pixels)),
        ];
        results[title] = await progress.run(title, (step) =>
          compare(contenders, repetitions, (round) => step.update(`round ${round}`)),
        );
        printComparison(title, results[title]);
      };
      const all = ['pre_gfpgan', 'infer_face_restoration_v2.1', 'post_gfpgan'];
      const around = ['pre_gfpgan', 'post_gfpgan'];
      await measure('images a second, 1 client', 8, 1, all, ensembles.whole);
      await measure('images a second, 4 clients', 8, 4, all, ensembles.whole);
      await measure('the same without the network, 1 client', 200, 1, around, ensembles.without);
      await measure('the same without the network, 4 clients', 200, 4, around, ensembles.without);
      return { repetitions, results };
    });
  } finally {
    rmSync(repository, { recursive: true, force: true });
  }
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

async function benchBatching(repetitions: number): Promise<object> {
  return withModels(paths.modelRepository, ['gfpgan', 'infer_face_restoration_v2.1'], async (client, progress) => {
    const face = normalizedTensor('input__0', await readImage(FACE));
    const eight = repeat(face, 8);
    const contenders = [
      {
        name: 'infer_face_restoration_v2.1: 8 requests, one after the other',
        units: 8,
        run: () => inParallel(8, 1, () => only(client, 'infer_face_restoration_v2.1', face)),
      },
      {
        name: 'infer_face_restoration_v2.1: 8 requests at once',
        units: 8,
        run: () => inParallel(8, 8, () => only(client, 'infer_face_restoration_v2.1', face)),
      },
      {
        name: 'gfpgan: 8 requests at once, batched by Triton',
        units: 8,
        run: () => inParallel(8, 8, () => only(client, 'gfpgan', face)),
      },
      {
        name: 'gfpgan: one request of 8 images',
        units: 8,
        run: async () => {
          await only(client, 'gfpgan', eight);
        },
      },
    ];
    const title = 'images a second';
    const results = await progress.run(title, (step) =>
      compare(contenders, repetitions, (round) => step.update(`round ${round}`)),
    );
    printComparison(title, results);
    return { repetitions, results };
  });
}

/** The only output of a model. */
async function only(client: TritonHttpClient, model: string, input: Tensor): Promise<Tensor> {
  const { outputs } = await client.infer(model, [input]);
  if (outputs[0] === undefined) throw new UserError(`${model} returned nothing`);
  return outputs[0];
}

/** The same FP32 image several times, along the batch axis. */
function repeat(image: Tensor, times: number): Tensor {
  const one = image.data as Float32Array;
  const data = new Float32Array(one.length * times);
  for (let i = 0; i < times; i += 1) data.set(one, i * one.length);
  return { name: image.name, datatype: 'FP32', shape: [times, ...image.shape.slice(1)], data };
}

/** Runs `work` against a local stack that serves these models of a repository, all by default. */
async function withModels(
  repository: string,
  names: readonly string[] | undefined,
  work: (client: TritonHttpClient, progress: Progress) => Promise<object>,
): Promise<object> {
  const progress = new Progress();
  const undo: (() => Promise<void> | void)[] = [];
  try {
    const { served } = await selectModels(repository, names);
    const stack = await startStack({
      repository,
      models: served.map(({ name }) => name),
      weights: [],
      ports: FREE_PORTS,
      progress,
      timings: new Timings(),
      defer: (step) => undo.push(step),
    });
    const client = new TritonHttpClient(stack.triton.httpUrl);
    undo.push(() => client.close());
    return await work(client, progress);
  } finally {
    for (const step of undo.reverse()) await step();
    if (repository !== paths.modelRepository) rmSync(localDirectory(repository), { recursive: true, force: true });
  }
}

function printComparison(title: string, results: readonly Comparison[]): void {
  print(
    title,
    ['way', 'median', 'times the first'],
    results.map(({ name, median, ratio }) => [name, median.toFixed(2), ratio.toFixed(2)]),
  );
}

function print(title: string, headings: readonly string[], rows: readonly (readonly string[])[]): void {
  process.stdout.write(`\n${title}\n\n${formatTable(headings, rows)}\n\n`);
}
