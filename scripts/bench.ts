import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import { compare, inParallel, type Comparison } from './lib/bench/compare';
import { EXIT, parseFlags, parseInteger, runCommand } from './lib/cli';
import { UsageError, UserError } from './lib/errors';
import { formatDuration, formatTable } from './lib/format';
import { normalizedTensor, pixelTensor, readImage } from './lib/local/image';
import { FACE } from './lib/local/samples';
import { startStack } from './lib/local/stack';
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
  --repetitions N   rounds of each comparison (default 7)
  --out DIR         results as JSON, one file a benchmark (default: docs/benchmarks)
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
    out: { type: 'string', default: join(paths.root, 'docs', 'benchmarks') },
    help: { type: 'boolean', default: false },
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const repetitions = parseInteger('repetitions', flags.repetitions, 1, 1000);
  const all = {
    start: () => Promise.resolve(benchStart()),
    ensemble: () => benchEnsemble(repetitions),
    batching: () => benchBatching(repetitions),
  };
  const names = Object.keys(all) as (keyof typeof all)[];
  const wanted = names.filter((name) => flags.only === undefined || flags.only === name);
  if (wanted.length === 0) throw new UsageError(`--only ${flags.only}: no such benchmark`, { hint: names.join(', ') });
  mkdirSync(flags.out, { recursive: true });
  for (const name of wanted) {
    const result = { date: new Date().toISOString().slice(0, 10), machine: describeMachine(), ...(await all[name]()) };
    writeFileSync(join(flags.out, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`);
  }
  return EXIT.ok;
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

async function benchEnsemble(repetitions: number): Promise<object> {
  return withModels(['ens_face_restoration_v2.1'], async (client, progress) => {
    const pixels = pixelTensor('raw_image', await readImage(FACE));
    const images = 8;
    const ensemble = (): Promise<Tensor> => only(client, 'ens_face_restoration_v2.1', pixels);
    const oneByOne = async (): Promise<Tensor> => {
      const preprocessed = await only(client, 'pre_gfpgan', { ...pixels, name: 'input__0' });
      const restored = await only(client, 'infer_face_restoration_v2.1', { ...preprocessed, name: 'input__0' });
      return only(client, 'post_gfpgan', { ...restored, name: 'input__0' });
    };
    const results: Record<string, Comparison[]> = {};
    for (const clients of [1, 4]) {
      const contender = (name: string, work: () => Promise<Tensor>) => ({
        name,
        units: images,
        run: () => inParallel(images, clients, work),
      });
      const contenders = [contender('pre, net, post one by one', oneByOne), contender('ensemble', ensemble)];
      const title = `images a second, ${clients} client(s)`;
      results[title] = await progress.run(title, (step) =>
        compare(contenders, repetitions, (round) => step.update(`round ${round}`)),
      );
      printComparison(title, results[title]);
    }
    return { repetitions, results };
  });
}

async function benchBatching(repetitions: number): Promise<object> {
  return withModels(['gfpgan', 'infer_face_restoration_v2.1'], async (client, progress) => {
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

/** Runs `work` against a local stack that serves these models. */
async function withModels(
  names: readonly string[],
  work: (client: TritonHttpClient, progress: Progress) => Promise<object>,
): Promise<object> {
  const progress = new Progress();
  const undo: (() => Promise<void> | void)[] = [];
  try {
    const { served } = await selectModels(paths.modelRepository, names);
    const stack = await startStack({
      repository: paths.modelRepository,
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
