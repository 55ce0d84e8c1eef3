import { paths } from '../../src/core/paths';
import { rounds } from './compare';
import type { Context } from './sync-environment';
import { getBest, getPeak, ratioTo, type Goal, type Measurement, type Sample } from './sync-report';
import type { RepositoryShape } from './sync-repository';
import { npmScript, SYNC_MODELS } from './tools';

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
const AWS = /^aws/;
export const ANY_OTHER = /^(s5cmd|rclone|aws)/;

export const timeRatio =
  (names: RegExp): Goal['value'] =>
  (measurement) =>
    ratioTo(measurement, 'seconds', getBest(measurement, names));
const peakMegabytes: Goal['value'] = (measurement) => getPeak(measurement, SYNC_MODELS) / 1e6;
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
  { name: 'start', title: 'start and end of the program, without work', goals: [], run: start },
];

/** Converts a name for use in an object key. */
export const slug = (name: string): string => name.replaceAll(/[^\w]+/g, '-');

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

function coldThousand(context: Context): Promise<Measured> {
  return cold('cold-1000', context, context.source('thousand', thousandFiles(context)));
}

export async function cold(
  name: string,
  { environment, repetitions, onRun }: Pick<Context, 'environment' | 'repetitions' | 'onRun'>,
  source: string,
): Promise<Measured> {
  const entries = new Map(
    environment.tools.map((tool) => [
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
