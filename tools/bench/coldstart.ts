import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Progress } from '../../src/cli/progress';
import type { Cleanup } from '../../src/core/cleanup';
import { formatBytes } from '../../src/core/format';
import { requireFreeSpace } from '../../src/install/cache';
import { ensurePython } from '../../src/install/python';
import { ensureSeaweedfs } from '../../src/install/seaweedfs';
import { ensureTriton, requireTritonPlatform } from '../../src/install/triton';
import { freePorts } from '../../src/local/process/ports';
import { LOCAL_CREDENTIALS, LOCAL_REGION, startS3Server } from '../../src/local/s3-server';
import { Trials } from '../../src/publish/trials';
import { S3Store } from '../../src/s3/store';
import { TritonHttpClient } from '../../src/triton/http';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { startRelay } from '../network/relay';
import { chooseRows, median, medianRatio, print, rounds } from './compare';
import { publishToReplicas } from './coldstart-publish';
import {
  BUCKET,
  bundleAgent,
  getPeak,
  newReplica,
  startServer,
  type AgentReplica,
  type Context,
  type Traffic,
} from './coldstart-replica';
import { BenchRepository, type BenchModel, type WrittenRelease } from './coldstart-repository';
import { inScratch } from './scratch';
import { baseEnvironment, ensureIdentityBackend, ensureSyncPrograms } from './tools';
import { measure } from './sync-environment';

export interface ColdStartOptions {
  repetitions: number;
  /** Names of rows. Default: all. */
  rows: readonly string[] | undefined;
  /** A tenth of the bytes and files. */
  quick: boolean;
}

/** Lower than that of S3 (85 to 90 MB/s), so that the two cores of a small machine are not the limit. */
const BYTES_PER_SECOND = 5e6;
const FIRST_BYTE_MS = 20;

/** The files, twice in S3 with its versions, and on the disks of four replicas. */
const DISK_BYTES = 6e9;

/** What a start, or a step after it, cost. */
interface Cost extends Traffic {
  seconds: number;
  tritonPeak?: number;
  agentPeak?: number;
  /** From the start of the agent until the files were on its disk. */
  downloadSeconds?: number;
}

const NO_COST: Cost = { seconds: 0, bytes: 0, requests: 0 };

interface Row {
  name: string;
  title: string;
  run: (context: Context) => Promise<object>;
}

const ROWS: readonly Row[] = [
  { name: 'one', title: '1 model of 512 MB', run: (context) => starts(context, 'one', 1, 1, 512e6) },
  { name: 'twenty', title: '20 models of 25 MB', run: (context) => starts(context, 'twenty', 20, 1, 25e6) },
  { name: 'small', title: '20 models of 50 files of 4 KB', run: (context) => starts(context, 'small', 20, 50, 4e3) },
  { name: 'changes', title: 'bytes read by changes', run: changes },
  { name: 'publish', title: 'a new version on 1, 3 and 10 replicas', run: publishToReplicas },
];

/** Compares the release agent with Triton's own S3 loader and with s5cmd. */
export async function benchColdStart({ repetitions, rows: names, quick }: ColdStartOptions): Promise<object> {
  requireTritonPlatform();
  const rows = chooseRows(ROWS, names);
  return inScratch(async (scratch, undo) => {
    const progress = new Progress();
    const context = await open(scratch, undo, progress);
    const results: Record<string, object> = {};
    for (const { name, title, run } of rows) {
      results[name] = await progress.run(title, (step) =>
        run({
          ...context,
          repetitions,
          reduction: quick ? 10 : 1,
          onRun: (round, what) => step.update(`round ${round}, ${what}`),
        }),
      );
    }
    return { repetitions, quick, bytesPerSecond: BYTES_PER_SECOND, firstByteMs: FIRST_BYTE_MS, rows: results };
  });
}

async function open(
  scratch: string,
  undo: Cleanup,
  progress: Progress,
): Promise<Omit<Context, 'repetitions' | 'reduction' | 'onRun'>> {
  requireFreeSpace(scratch, DISK_BYTES, 'the benchmark');
  const environment = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
  const { python } = environment;
  const { s5cmd } = await progress.run('s5cmd', () => ensureSyncPrograms(python));
  const programs = {
    environment,
    installation: await ensureTriton(environment),
    backend: await ensureIdentityBackend(),
    agent: await bundleAgent(join(scratch, 'agent.cjs')),
  };
  const [port = 0] = await freePorts(1);
  const server = await startS3Server({
    weed: await ensureSeaweedfs(),
    python,
    directory: join(scratch, 's3'),
    logFile: join(scratch, 's3.log'),
    port,
    credentials: LOCAL_CREDENTIALS,
  });
  undo.defer(() => server.stop());
  const traffic = { bytes: 0, requests: 0 };
  const relay = await startRelay(
    port,
    { roundTripMs: FIRST_BYTE_MS, bytesPerSecond: BYTES_PER_SECOND },
    (chunk, from) => {
      if (from === 'server') traffic.bytes += chunk.byteLength;
      // Requests without a body arrive as one chunk.
      else if (/^(GET|HEAD) /.test(chunk.toString('latin1', 0, 5))) traffic.requests += 1;
    },
  );
  undo.defer(() => relay.stop());
  const store = new S3Store({
    bucket: BUCKET,
    endpointUrl: server.endpoint,
    region: LOCAL_REGION,
    credentials: LOCAL_CREDENTIALS,
  });
  undo.defer(() => store.close());
  await store.ensureBucket();
  return {
    programs,
    s5cmd,
    python,
    directory: scratch,
    relay,
    endpoint: `http://127.0.0.1:${relay.port}`,
    takeTraffic: () => {
      const taken = { ...traffic };
      Object.assign(traffic, { bytes: 0, requests: 0 });
      return taken;
    },
    repository: (prefix) => new BenchRepository(store, { bucket: BUCKET, prefix }),
  };
}

const AGENT = 'agent';
const BESIDE = 'agent beside a running Triton';
const OWN_LOADER = "Triton's own loader";
const LOCAL = 'Triton from its disk';
const S5CMD = 's5cmd';

/** Measures starts of a replica with an empty disk, and the same download with s5cmd. */
async function starts(context: Context, prefix: string, models: number, files: number, bytes: number): Promise<object> {
  const { directory, endpoint, repetitions, onRun, reduction, takeTraffic } = context;
  const repository = context.repository(prefix);
  const content: Record<string, BenchModel> = {};
  for (let model = 0; model < models; model += 1) {
    // Of many files only a tenth, of one file a tenth of its bytes.
    const count = Math.ceil(files / reduction);
    const size = Math.ceil((bytes * files) / reduction / count);
    const sizes = Array.from({ length: count }, (_, i) => [`m${model}/1/weights-${i}`, size]);
    content[`m${model}`] = {
      served: [1],
      files: await repository.upload(Object.fromEntries(sizes) as Record<string, number>),
    };
  }
  await repository.configure(content);
  const release = await repository.release(content);
  await repository.commit(release);
  const local = join(directory, `${prefix}-disk`);
  const download = async (target: string): Promise<Cost> => {
    mkdirSync(target, { recursive: true });
    takeTraffic();
    const argv = [context.s5cmd, `--endpoint-url=${endpoint}`, 'cp', `s3://${BUCKET}/${prefix}/*`, `${target}/`];
    const command = { argv, env: baseEnvironment({ home: directory }) };
    const { seconds } = await measure(context.python, command, join(directory, 's5cmd.log'));
    return { seconds, ...takeTraffic() };
  };
  await download(local);
  const samples = await rounds<Cost>(
    new Map([
      [AGENT, () => startReplica(context, prefix, release)],
      [BESIDE, () => startReplica(context, prefix, release, true)],
      // Slow, and without a cache that a first round could fill.
      [
        OWN_LOADER,
        async (round: number) => (round === 0 ? NO_COST : startAlone(context, `s3://${endpoint}/${BUCKET}/${prefix}`)),
      ],
      [LOCAL, () => startAlone(context, local)],
      [
        S5CMD,
        async () => {
          const target = join(directory, 's5cmd');
          const cost = await download(target);
          rmSync(target, { recursive: true });
          return cost;
        },
      ],
    ]),
    repetitions,
    onRun,
  );
  rmSync(local, { recursive: true });
  report(prefix, samples, release);
  return { servedBytes: release.servedBytes, samples: Object.fromEntries(samples) };
}

/** Starts a Triton and its agent on an empty disk. @param after the agent is started when Triton answers */
async function startReplica(context: Context, prefix: string, release: WrittenRelease, after = false): Promise<Cost> {
  const { takeTraffic } = context;
  const replica = newReplica(context, prefix, 'replica');
  try {
    if (after) await replica.startTriton();
    takeTraffic();
    const started = performance.now();
    await (after ? replica.startAgent() : Promise.all([replica.start(), replica.untilServes(release.id)]));
    await replica.untilServes(release.id);
    const seconds = (performance.now() - started) / 1000;
    const { tritonPeak, agentPeak, downloadSeconds } = replica;
    return { seconds, ...takeTraffic(), tritonPeak, agentPeak, downloadSeconds };
  } finally {
    await replica.stop();
  }
}

/** Starts a Triton that loads all models of a repository. */
async function startAlone({ directory, programs, takeTraffic }: Context, repository: string): Promise<Cost> {
  takeTraffic();
  const folder = join(directory, 'alone');
  const started = performance.now();
  const triton = await startServer(programs, folder, { repository });
  const seconds = (performance.now() - started) / 1000;
  const tritonPeak = getPeak(triton.pid);
  await triton.stop();
  rmSync(folder, { recursive: true, force: true });
  return { seconds, ...takeTraffic(), tritonPeak };
}

function report(title: string, samples: Map<string, Cost[]>, release: WrittenRelease): void {
  const column = (name: string, what: keyof Cost): number[] =>
    (samples.get(name) ?? []).map((cost) => cost[what] ?? NaN);
  const text = (value: number, show: (value: number) => string): string => (Number.isNaN(value) ? '' : show(value));
  print(
    title,
    ['start', 'time', 'download', 'requests', 'read, of what is served', 'peak of Triton', 'of the agent'],
    [...samples.keys()].map((name) => [
      name,
      `${median(column(name, 'seconds')).toFixed(2)} s`,
      text(median(column(name, 'downloadSeconds')), (value) => `${value.toFixed(2)} s`),
      String(median(column(name, 'requests'))),
      (median(column(name, 'bytes')) / release.servedBytes).toFixed(3),
      text(Math.max(...column(name, 'tritonPeak')), formatBytes),
      text(Math.max(...column(name, 'agentPeak')), formatBytes),
    ]),
  );
  print(
    'ratios',
    ['what', 'ratio'],
    [
      ['own loader / agent', medianRatio(column(OWN_LOADER, 'seconds'), column(AGENT, 'seconds')).toFixed(2)],
      ['agent, download / s5cmd', medianRatio(column(BESIDE, 'downloadSeconds'), column(S5CMD, 'seconds')).toFixed(2)],
      [
        'Triton with agent / from its disk, peak',
        medianRatio(column(AGENT, 'tritonPeak'), column(LOCAL, 'tritonPeak')).toFixed(3),
      ],
      [
        'own loader / from its disk, peak',
        medianRatio(column(OWN_LOADER, 'tritonPeak'), column(LOCAL, 'tritonPeak')).toFixed(3),
      ],
    ],
  );
}

/** Bytes of a version in the rows that only count. */
const VERSION_BYTES = 16e6;

/**
 * Counts what replicas read from S3: at a start after ten releases of which the last one is served, after a restart of
 * the agent's container, for a version that is added beside a served one, and for another number of instances. Without
 * the limit of the rate, because bytes do not depend on it.
 */
async function changes(context: Context): Promise<object> {
  const { endpoint, relay, takeTraffic, programs, directory } = context;
  relay.setDistance({});
  const repository = context.repository('changes');
  const bytes = Math.ceil(VERSION_BYTES / context.reduction);
  const numbers = Array.from({ length: 10 }, (_, i) => i + 1);
  const files = await repository.upload(Object.fromEntries(numbers.map((number) => [`m/${number}/weights`, bytes])));
  const model = (change: Partial<BenchModel>): Record<string, BenchModel> => ({
    m: { served: [10], files, ...change },
  });
  await repository.configure(model({}));
  const release = await repository.release(model({}));
  await repository.commit(release);
  const counted: Record<string, Record<string, Traffic>> = {};
  const count = (who: string, what: string): void => {
    (counted[what] ??= {})[who] = takeTraffic();
  };

  const replica = newReplica(context, 'changes', 'changes');
  const loader = join(directory, 'changes-loader');
  try {
    takeTraffic();
    await replica.start();
    await replica.untilServes(release.id);
    count(AGENT, 'start after 10 releases');
    await replica.killAgent();
    takeTraffic();
    await replica.startAgent();
    await replica.untilServes(release.id);
    count(AGENT, 'restart of the container');

    const triton = await startServer(programs, loader, { repository: `s3://${endpoint}/${BUCKET}/changes` });
    count(OWN_LOADER, 'start after 10 releases');
    const client = new TritonHttpClient(triton.httpUrl, { headers: { [CONTROL_HEADER]: triton.modelControlKey } });
    const more = [...files, ...(await repository.upload({ 'm/11/weights': bytes }))];
    const steps = [
      ['a version beside the served one', model({ served: [10, 11], files: more })],
      ['another number of instances', model({ served: [10, 11], files: more, count: 2 })],
    ] as const;
    try {
      for (const [what, models] of steps) {
        await publish(repository, replica, models);
        count(AGENT, what);
        // Triton notices a change only in the next second.
        await sleep(1100);
        await repository.configure(models);
        takeTraffic();
        await client.loadModel('m');
        count(OWN_LOADER, what);
      }
    } finally {
      client.close();
      await triton.stop();
    }
  } finally {
    await replica.stop();
    rmSync(loader, { recursive: true, force: true });
    relay.setDistance({ roundTripMs: FIRST_BYTE_MS, bytesPerSecond: BYTES_PER_SECOND });
  }
  print(
    `read from S3; a version has ${bytes} bytes`,
    ['what', 'who', 'bytes', 'of a version', 'requests'],
    Object.entries(counted).flatMap(([what, by]) =>
      Object.entries(by).map(([who, cost]) => [
        what,
        who,
        String(cost.bytes),
        (cost.bytes / bytes).toFixed(3),
        String(cost.requests),
      ]),
    ),
  );
  return { versionBytes: bytes, counted };
}

/** Has a replica try a release, and makes it the current one. */
async function publish(
  repository: BenchRepository,
  replica: AgentReplica,
  models: Readonly<Record<string, BenchModel>>,
): Promise<void> {
  const release = await repository.release(models);
  const trials = new Trials(release, {
    agents: { describe: () => 'the replica', list: () => Promise.resolve([replica.address]) },
    runId: release.id,
    by: 'bench',
    ttlSeconds: 60,
    timeoutMs: 120_000,
  });
  try {
    await trials.run();
    await trials.untilAcknowledged(await repository.commit(release));
  } finally {
    trials.stop();
  }
}
