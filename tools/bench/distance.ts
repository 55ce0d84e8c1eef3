import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { UserError } from '../../src/core/errors';
import { checksumOfFile } from '../../src/s3/store';
import type { DownloadList } from '../bench-download';
import type { Distance } from '../network/relay';
import { chooseRows, rounds } from './compare';
import { BUCKET, withSyncTools, type Context } from './sync-environment';
import { evaluate, getBest, measurementJson, measurementText, ratioTo, type Goal, type Sample } from './sync-report';
import { ANY_OTHER, cold, largeFiles, thousandFiles, timeRatio, type Measured } from './sync-scenarios';
import type { SyncTool } from './tools';

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

const GOALS: readonly Goal[] = [
  { what: 'time, of the best other tool', limit: 1, value: timeRatio(ANY_OTHER) },
  {
    what: 'processor time, of the same tool',
    limit: 0.7,
    value: (measurement) => ratioTo(measurement, 'cpuSeconds', getBest(measurement, ANY_OTHER)),
  },
];

type FarContext = Context & { distance: Distance };

interface FarScenario {
  name: string;
  title: string;
  run: (context: FarContext, name: string) => Promise<Measured>;
}

const SCENARIOS: readonly FarScenario[] = [
  {
    name: 'cold-1000',
    title: '1,000 files of 64 KiB to an empty prefix',
    run: (context, name) => cold(name, context, context.source('thousand', thousandFiles(context))),
  },
  {
    name: 'large',
    title: '4 files of 500 MB to an empty prefix',
    run: (context, name) => cold(name, context, context.source('large', largeFiles(context))),
  },
  {
    name: 'download-1000',
    title: '1,000 files of 64 KiB to this machine',
    run: (context, name) => download(name, context, context.source('thousand', thousandFiles(context))),
  },
  {
    name: 'download-large',
    title: '4 files of 500 MB to this machine',
    run: (context, name) => download(name, context, context.source('large', largeFiles(context))),
  },
];

/** Downloads a folder that was uploaded before, into an empty folder for each run. */
async function download(name: string, context: FarContext, source: string): Promise<Measured> {
  const { environment, repetitions, onRun, distance } = context;
  environment.relay?.setDistance({});
  const [, uploader] = environment.tools as [SyncTool, SyncTool];
  await environment.sync(uploader, source, name);
  environment.relay?.setDistance(distance);
  const list = join(environment.directory, `${name}.json`);
  const files = await listFiles(source, name);
  writeFileSync(list, JSON.stringify({ bucket: BUCKET, files } satisfies DownloadList));
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const entries = environment.downloadTools.map((tool): [string, () => Promise<Sample>] => [
    tool.name,
    async () => {
      const directory = join(environment.directory, 'downloaded');
      const command = tool.download({ bucket: BUCKET, prefix: name, list, directory });
      const sample = await environment.measure(command);
      const got = filesIn(directory).reduce((sum, path) => sum + statSync(path).size, 0);
      if (got !== bytes) throw new UserError(`${tool.name} downloaded ${got} of ${bytes} bytes`);
      rmSync(directory, { recursive: true });
      return sample;
    },
  ]);
  const samples = await rounds(new Map(entries), repetitions, onRun);
  environment.remove(name);
  return { samples };
}

const filesIn = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

/** The files of a folder as a manifest names them. versitygw keeps no versions, so the id is empty. */
async function listFiles(source: string, prefix: string): Promise<DownloadList['files']> {
  return Promise.all(
    filesIn(source).map(async (path) => {
      const bytes = statSync(path).size;
      const name = relative(source, path);
      return {
        path: name,
        key: `${prefix}/${name}`,
        versionId: '',
        bytes,
        checksum: await checksumOfFile(path, bytes),
      };
    }),
  );
}

/** Compares sync-models with other tools over TLS, with the round-trip times of far servers. */
export async function benchDistance({ repetitions, rows, quick }: DistanceBenchOptions): Promise<object> {
  const scenarios = chooseRows(SCENARIOS, rows);
  return withSyncTools(quick, async ({ progress, open, source, reduction }) => {
    const environment = await open('far', { far: true });
    const results: object[] = [];
    for (const { name, title: what, run } of scenarios) {
      for (const roundTripMs of ROUND_TRIPS_MS) {
        const distance = { roundTripMs, bytesPerSecond: BYTES_PER_SECOND };
        environment.relay?.setDistance(distance);
        const reduced = quick ? ` (but 1 of ${reduction})` : '';
        const title = `${what}${reduced}, ${roundTripMs} ms`;
        const measured = await progress.run(title, (step) => {
          const onRun = (round: number, tool: string): void => step.update(`round ${round}, ${tool}`);
          const context = { environment, source, repetitions, reduction, onRun, distance };
          return run(context, `${name}-${roundTripMs}`);
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
