import { readFileSync } from 'node:fs';
import { paths } from '../../src/core/paths';
import { rounds } from './compare';
import { countRequests, readRequests, type Context } from './sync-environment';
import { getBest, getCount, getPeak, ratioTo, type Goal, type Measurement, type Sample } from './sync-report';
import { changeLabels, labelsFile, modelName, SMALL_FILES, type RepositoryShape } from './sync-repository';
import { npmScript, SYNC_MODELS, type SyncTool } from './tools';

/** One kind of work, and its goals. */
export interface Scenario {
  name: string;
  title: string;
  goals: readonly Goal[];
  run: (context: Context) => Promise<Measured>;
}

/** What a scenario measures. */
export type Measured = Omit<Measurement, 'name' | 'title'>;

/** Patterns of the tool names by family. */
const RCLONE = /^rclone/;
const S5CMD = /^s5cmd/;
const AWS = /^aws/;
export const ANY_OTHER = /^(s5cmd|rclone|aws)/;

export const timeRatio =
  (names: RegExp): Goal['value'] =>
  (measurement) =>
    ratioTo(measurement, 'seconds', getBest(measurement, names));
const peakMegabytes: Goal['value'] = (measurement) => getPeak(measurement, SYNC_MODELS) / 1e6;
const requests =
  (operation: string): Goal['value'] =>
  (measurement) =>
    getCount(measurement.requests?.[SYNC_MODELS] ?? {}, operation);

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'cold-1000',
    title: '1,000 files of 64 KiB to an empty prefix',
    goals: [
      { what: 'time, of the best rclone', limit: 1, value: timeRatio(RCLONE) },
      { what: 'time, of aws-cli', limit: 0.3, value: timeRatio(AWS) },
    ],
    run: coldThousand,
  },
  {
    name: 'cold-10000',
    title: '10,000 files of 1 KiB to an empty prefix',
    goals: [
      { what: 'time, of the best rclone', limit: 1, value: timeRatio(RCLONE) },
      { what: 'time, of s5cmd', limit: 0.5, value: timeRatio(S5CMD) },
      { what: 'peak memory, MB', limit: 100, value: peakMegabytes },
    ],
    run: coldTenThousand,
  },
  {
    name: 'large',
    title: '4 files of 500 MB to an empty prefix',
    goals: [
      { what: 'time, of the best other tool', limit: 1.05, value: timeRatio(ANY_OTHER) },
      {
        what: 'processor time, of aws-cli',
        limit: 1,
        value: (measurement) => ratioTo(measurement, 'cpuSeconds', getBest(measurement, AWS)),
      },
      { what: 'peak memory, MB', limit: 150, value: peakMegabytes },
      {
        what: 'peak memory, of that with files of a quarter of the size',
        limit: 1.1,
        value: (measurement) =>
          getPeak(measurement, SYNC_MODELS) / (measurement.figures?.['peak bytes with quarter files'] ?? NaN),
      },
    ],
    run: large,
  },
  {
    name: 'no-op',
    title: '10,000 files that are already in the bucket',
    goals: [
      { what: 'time, of s5cmd', limit: 0.5, value: timeRatio(S5CMD) },
      { what: 'LIST requests', limit: 10, value: requests('ListObjects') },
      { what: 'HEAD requests', limit: 0, value: requests('Head') },
      { what: 'peak memory, MB', limit: 100, value: peakMegabytes },
    ],
    run: noOp,
  },
  {
    name: 'changed',
    title: '1 of 10,000 files changed: same size, older time',
    goals: [
      {
        what: 'time, of sync-models with nothing changed',
        limit: 1.05,
        value: (measurement) => ratioTo(measurement, 'seconds', NOTHING_CHANGED),
      },
      {
        what: 'PUT requests for files, not config.pbtxt',
        limit: 1,
        value: ({ figures }) => figures?.['files written'] ?? NaN,
      },
    ],
    run: changed,
  },
  { name: 'start', title: 'start and end of the program, without work', goals: [], run: start },
];

/** An entry of the scenario `changed`. */
const NOTHING_CHANGED = `${SYNC_MODELS}, nothing changed`;

/** Converts a name for use in an object key. */
export const slug = (name: string): string => name.replaceAll(/[^\w]+/g, '-');

/** 10,000 objects in total, which fill exactly 10 pages of a listing. */
export function manyFiles({ reduction }: Pick<Context, 'reduction'>): RepositoryShape {
  const models = 10;
  return { models, parts: 10_000 / reduction - models * SMALL_FILES, partBytes: 1024 };
}

export const thousandFiles = ({ reduction }: Pick<Context, 'reduction'>): RepositoryShape => ({
  models: 10,
  parts: 1000 / reduction,
  partBytes: 64 * 1024,
});

export const largeFiles = ({ reduction }: Pick<Context, 'reduction'>): RepositoryShape => ({
  models: 4,
  parts: 4,
  partBytes: Math.ceil(500e6 / reduction),
});

const byContent = ({ name }: SyncTool): boolean => name.endsWith('by content');

function coldThousand(context: Context): Promise<Measured> {
  return cold('cold-1000', context, context.source('thousand', thousandFiles(context)));
}

function coldTenThousand(context: Context): Promise<Measured> {
  return cold('cold-10000', context, context.source('many', manyFiles(context)));
}

export async function cold(
  name: string,
  { environment, repetitions, onRun }: Pick<Context, 'environment' | 'repetitions' | 'onRun'>,
  source: string,
): Promise<Measured> {
  const entries = new Map(
    // With an empty prefix there is nothing to compare, so this setting makes no difference.
    environment.tools
      .filter((tool) => !byContent(tool))
      .map((tool) => [
        tool.name,
        async (round: number): Promise<Sample> => {
          const prefix = `${name}-${slug(tool.name)}-${round}`;
          const sample = await environment.sync(tool, source, prefix);
          environment.requireComplete(tool, source, prefix);
          environment.remove(prefix);
          return sample;
        },
      ]),
  );
  return { samples: await rounds(entries, repetitions, onRun) };
}

async function large(context: Context): Promise<Measured> {
  const { environment } = context;
  const shape = largeFiles(context);
  const result = await cold('large', context, context.source('large', shape));
  const quarter = context.source('quarter', { ...shape, partBytes: Math.ceil(shape.partBytes / 4) });
  const { peakBytes } = await environment.sync(environment.syncModels, quarter, 'quarter');
  environment.remove('quarter');
  return { ...result, figures: { 'peak bytes with quarter files': peakBytes } };
}

/** Entries of tools that publish a repository again, and which of the tools detected the changes. */
export interface Repeated {
  entries: Map<string, () => Promise<Sample>>;
  detected: Record<string, boolean>;
}

/**
 * Publishes a repository with each tool, each to a prefix of its own.
 * @param changes whether one file is changed before each further run
 */
export async function publishFirst(
  { environment }: Pick<Context, 'environment'>,
  name: string,
  source: string,
  { changes }: { changes: boolean },
): Promise<Repeated> {
  const model = modelName(0);
  const repeated: Repeated = { entries: new Map(), detected: {} };
  for (const tool of environment.tools) {
    const prefix = `${name}-${slug(tool.name)}`;
    await environment.sync(tool, source, prefix);
    if (changes) repeated.detected[tool.name] = true;
    repeated.entries.set(tool.name, async () => {
      if (changes) changeLabels(source, model, (changeNumber += 1));
      const sample = await environment.sync(tool, source, prefix);
      const published = readFileSync(labelsFile(environment.objects(prefix), model), 'utf8');
      if (changes && published !== readFileSync(labelsFile(source, model), 'utf8')) {
        repeated.detected[tool.name] = false;
      }
      return sample;
    });
  }
  return repeated;
}

/** Each change has another time. */
let changeNumber = 0;

async function noOp(context: Context): Promise<Measured> {
  const { repetitions, onRun } = context;
  const source = context.source('many', manyFiles(context));
  const { entries } = await publishFirst(context, 'no-op', source, { changes: false });
  const samples = await rounds(entries, repetitions, onRun);
  const counting = await context.counting();
  const requests: Measurement['requests'] = {};
  for (const [name, run] of (await publishFirst(counting, 'no-op', source, { changes: false })).entries) {
    requests[name] = countRequests(await readRequests(counting.accessLog, run));
  }
  return { samples, requests };
}

async function changed(context: Context): Promise<Measured> {
  const { environment, repetitions, onRun } = context;
  const unchanged = context.source('many', manyFiles(context));
  const changing = context.source('many-changing', manyFiles(context));
  const { entries, detected } = await publishFirst(context, 'changed', changing, { changes: true });
  await environment.sync(environment.syncModels, unchanged, 'unchanged');
  entries.set(NOTHING_CHANGED, () => environment.sync(environment.syncModels, unchanged, 'unchanged'));
  const samples = await rounds(entries, repetitions, onRun);
  return { samples, detected, ...(await countChanged(context, changing)) };
}

/** Counts the requests for one changed file. */
async function countChanged(context: Context, source: string): Promise<Pick<Measurement, 'requests' | 'figures'>> {
  const { environment, accessLog } = await context.counting();
  await environment.sync(environment.syncModels, source, 'changed');
  changeLabels(source, modelName(0), (changeNumber += 1));
  const log = await readRequests(accessLog, () => environment.sync(environment.syncModels, source, 'changed'));
  // Counts only objects of the repository, not releases beside it. config.pbtxt is excluded, because writing it
  // activates the new files.
  const puts = log.split('\n').filter((line) => line.includes(' s3_PutObject changed/'));
  const files = puts.filter((line) => !line.includes('/config.pbtxt ')).length;
  return { requests: { [SYNC_MODELS]: countRequests(log) }, figures: { 'files written': files } };
}

/** Measures the start-up time of each tool, and the overhead of `npm run` for ours. */
async function start({ environment, source, repetitions, onRun }: Context): Promise<Measured> {
  // V8's compile cache of our program is written at the end of its first real run.
  const tiny = source('tiny', { models: 1, parts: 1, partBytes: 1024 });
  await environment.sync(environment.syncModels, tiny, 'start');

  const { programs, python } = environment;
  const run =
    (...argv: string[]) =>
    (): Promise<Sample> =>
      environment.measure({ argv, env: { ...environment.env, PYTHONPATH: programs.aws.packages } });
  const entries = new Map([
    [SYNC_MODELS, run(...npmScript(SYNC_MODELS), '--help')],
    ['npm run sync-models', run('/usr/bin/env', 'npm', '--prefix', paths.root, 'run', 'sync-models', '--', '--help')],
    ['node alone', run(process.execPath, '-e', '0')],
    ['s5cmd', run(programs.s5cmd, 'version')],
    ['rclone', run(programs.rclone, 'version')],
    ['aws', run(python, programs.aws.program, '--version')],
  ]);
  return { samples: await rounds(entries, repetitions, onRun) };
}
