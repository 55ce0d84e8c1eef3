import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { podPrograms } from '../../infra/triton/agent/program';
import { Progress } from '../../src/cli/progress';
import { Cleanup } from '../../src/core/cleanup';
import { UserError } from '../../src/core/errors';
import { requireFreeSpace } from '../../src/install/cache';
import { ensurePython } from '../../src/install/python';
import { ensureSeaweedfs } from '../../src/install/seaweedfs';
import { ensureTriton, requireTritonPlatform } from '../../src/install/triton';
import { startPod } from '../../src/local/pod';
import { freePorts } from '../../src/local/process/ports';
import { LOCAL_CREDENTIALS, LOCAL_REGION, startS3Server } from '../../src/local/s3-server';
import { freeTritonPorts, startTriton } from '../../src/local/triton-server';
import { S3Store } from '../../src/s3/store';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { TritonHttpClient } from '../../src/triton/http';
import { startRelay, type Relay } from '../network/relay';
import { median, medianRatio, print, rounds, type BenchOptions } from './compare';
import { BUCKET, ensurePrograms, environmentOf, measure, syncModels } from './programs';
import { inScratch } from './scratch';
import { writeRepository } from './transfer';

/** A model of the `start` row. Its connection is slower than S3's, so that two cores are not the limit. */
const START_BYTES = 512e6;
const START_NETWORK = { roundTripMs: 20, bytesPerSecond: 5e6 };

const REPLICAS = [1, 3, 10];
const VERSION_BYTES = 8e6;
/** That of ten models. */
const CHANGING = 'm1';
const POLL_MS = 50;
const START_TIMEOUT_MS = 1_200_000;

interface Server {
  url: string;
  flags: string[];
  client: TritonHttpClient;
  stop: () => Promise<void>;
}

interface Bench {
  scratch: string;
  endpoint: string;
  s5cmd: string;
  relay: Relay;
  run: (argv: readonly string[]) => Promise<{ seconds: number }>;
  /** Starts a Triton with an agent, which reads `prefix`. Both run when it returns. */
  pod: (name: string, prefix: string) => Promise<Server>;
  /** Starts a Triton that reads `prefix` itself. It has loaded all models when it returns. */
  alone: (name: string, prefix: string) => Promise<Server>;
}

/**
 * Compares a replica with the release agent with a Triton that reads S3 itself: its start with an empty disk, and the time
 * until a new version of one of three models is READY on 1, 3 and 10 of them.
 */
export function benchReplicas({ repetitions, quick }: BenchOptions): Promise<void> {
  requireTritonPlatform();
  return inScratch(async (scratch, undo) => {
    const progress = new Progress();
    const bench = await open(scratch, undo, progress);
    await progress.run('start of a replica', (step) =>
      starts(bench, repetitions, quick, (round, way) => step.update(`round ${round}, ${way}`)),
    );
    await progress.run('a new version', (step) =>
      publishes(bench, repetitions, quick, (round, way) => step.update(`round ${round}, ${way}`)),
    );
  });
}

async function open(scratch: string, undo: Cleanup, progress: Progress): Promise<Bench> {
  requireFreeSpace(scratch, 6e9, 'the benchmark');
  const environment = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
  const { python } = environment;
  const { s5cmd } = await progress.run('s5cmd', () => ensurePrograms(python));
  const installation = await ensureTriton(environment);
  const [port = 0] = await freePorts(1);
  const server = await startS3Server({
    ...{ weed: await ensureSeaweedfs(), python, port, credentials: LOCAL_CREDENTIALS },
    directory: join(scratch, 's3'),
    logFile: join(scratch, 's3.log'),
  });
  undo.defer(() => server.stop());
  const relay = await startRelay(port);
  undo.defer(() => relay.stop());
  const endpoint = `http://127.0.0.1:${relay.port}`;
  const credentials = { ...LOCAL_CREDENTIALS, region: LOCAL_REGION };
  const store = new S3Store({ bucket: BUCKET, endpointUrl: server.endpoint, region: LOCAL_REGION, credentials });
  await store.ensureBucket().finally(() => store.close());
  const programs = podPrograms();
  const shared = { installation, environment, startTimeoutMs: START_TIMEOUT_MS };
  const serve = (url: string, flags: string[], key: string, directory: string, end: Cleanup): Server => {
    const client = new TritonHttpClient(url, { headers: { [CONTROL_HEADER]: key } });
    const stop = async (): Promise<void> => {
      client.close();
      await end.run();
      rmSync(directory, { recursive: true, force: true });
    };
    undo.defer(stop);
    return { url, flags, client, stop };
  };
  return {
    ...{ scratch, endpoint, s5cmd, relay },
    run: (argv) => measure(python, { argv, env: environmentOf({ home: scratch }) }, join(scratch, 'log')),
    pod: async (name, prefix) => {
      const directory = join(scratch, name);
      const end = new Cleanup();
      undo.defer(() => end.run());
      const { triton } = await startPod({
        ...{ ...shared, programs, directory, endpointUrl: endpoint, credentials: LOCAL_CREDENTIALS },
        bucket: `s3://${BUCKET}/${prefix}`,
        ports: await freeTritonPorts(),
        loadTimeoutMs: START_TIMEOUT_MS,
        isFresh: Promise.resolve(true),
        defer: (step) => end.defer(step),
      });
      const flags = ['--triton', triton.httpUrl, '--agent', triton.agentUrl];
      return serve(triton.httpUrl, flags, triton.modelControlKey, directory, end);
    },
    alone: async (name, prefix) => {
      const directory = join(scratch, name);
      const repository = `s3://${endpoint}/${BUCKET}/${prefix}`;
      const triton = await startTriton({
        ...shared,
        directory,
        credentials,
        repository,
        ports: await freeTritonPorts(),
      });
      const end = new Cleanup();
      end.defer(() => triton.stop());
      return serve(triton.httpUrl, [], triton.modelControlKey, directory, end);
    },
  };
}

const AGENT = 'with the agent';
const ALONE = 'Triton reads S3';
const S5CMD = 's5cmd, only the download';

async function starts(bench: Bench, repetitions: number, quick: boolean, onRun: (round: number, way: string) => void) {
  const { scratch, endpoint, s5cmd, run, relay } = bench;
  const source = join(scratch, 'start-source');
  writeRepository(source, 1, quick ? START_BYTES / 10 : START_BYTES);
  await run([...syncModels(source, 'start', endpoint), '--untried']);
  relay.setDistance(START_NETWORK);
  const timed = async (work: () => Promise<Server>): Promise<number> => {
    const started = performance.now();
    const server = await work();
    await until(async () => server.client.modelReady('m0', 1));
    const seconds = (performance.now() - started) / 1000;
    await server.stop();
    return seconds;
  };
  const samples = await rounds(
    new Map<string, () => Promise<number>>([
      [AGENT, () => timed(() => bench.pod('start-pod', 'start'))],
      [ALONE, () => timed(() => bench.alone('start-alone', 'start'))],
      [
        S5CMD,
        async () => {
          const target = join(scratch, 's5cmd');
          const { seconds } = await run([
            s5cmd,
            `--endpoint-url=${endpoint}`,
            'cp',
            `s3://${BUCKET}/start/*`,
            `${target}/`,
          ]);
          rmSync(target, { recursive: true });
          return seconds;
        },
      ],
    ]),
    repetitions,
    onRun,
  );
  relay.setDistance({});
  report('start of a replica with an empty disk', samples, ALONE);
}

const PUBLISH = 'sync-models, agents';
const BY_HAND = 's5cmd cp, then a load on each';

async function publishes(
  bench: Bench,
  repetitions: number,
  quick: boolean,
  onRun: (round: number, way: string) => void,
) {
  const { scratch, endpoint, s5cmd, run } = bench;
  const source = join(scratch, 'publish-source');
  writeRepository(source, 3, VERSION_BYTES);
  await run([...syncModels(source, 'agents', endpoint), '--untried']);
  await run([s5cmd, `--endpoint-url=${endpoint}`, 'cp', `${source}/`, `s3://${BUCKET}/by-hand/`]);
  const pods: Server[] = [];
  const alone: Server[] = [];
  let version = 1;
  const next = (folder: string): string => {
    version += 1;
    rmSync(join(folder, CHANGING, String(version - 1)), { recursive: true, force: true });
    cpSync(join(source, 'm0', '1'), join(folder, CHANGING, String(version)), { recursive: true });
    const file = join(folder, CHANGING, String(version), 'weights');
    writeFileSync(file, randomBytes(VERSION_BYTES));
    return join(folder, CHANGING, String(version));
  };
  for (const count of quick ? REPLICAS.slice(0, 1) : REPLICAS) {
    for (let i = pods.length; i < count; i += 1) {
      pods.push(await bench.pod(`pod-${i}`, 'agents'));
      alone.push(await bench.alone(`alone-${i}`, 'by-hand'));
    }
    await until(async () => (await Promise.all(pods.map(({ client }) => client.modelReady('m0', 1)))).every(Boolean));
    const untilReady = async (servers: readonly Server[], work: () => Promise<unknown>): Promise<number> => {
      const wanted = version;
      const started = performance.now();
      const working = work();
      working.catch(() => undefined);
      await Promise.race([
        working.then(() => sleep(START_TIMEOUT_MS)),
        until(async () =>
          (await Promise.all(servers.map(({ client }) => client.modelReady(CHANGING, wanted)))).every(Boolean),
        ),
      ]);
      const seconds = (performance.now() - started) / 1000;
      await working;
      return seconds;
    };
    const byHand = join(scratch, 'by-hand');
    mkdirSync(byHand, { recursive: true });
    const flags = pods.flatMap((pod) => pod.flags);
    const samples = await rounds(
      new Map<string, () => Promise<number>>([
        [
          PUBLISH,
          () => {
            next(source);
            return untilReady(pods, () => run([...syncModels(source, 'agents', endpoint), ...flags]));
          },
        ],
        [
          BY_HAND,
          async () => {
            // Triton loads only what is newer, in whole seconds, than what it has loaded.
            await sleep(1100);
            const folder = next(byHand);
            return untilReady(alone, async () => {
              await run([
                s5cmd,
                `--endpoint-url=${endpoint}`,
                'cp',
                `${folder}/`,
                `s3://${BUCKET}/by-hand/${CHANGING}/${version}/`,
              ]);
              await Promise.all(alone.map(({ client }) => client.loadModel(CHANGING)));
            });
          },
        ],
      ]),
      repetitions,
      onRun,
    );
    report(`a new version of one of three models until READY on ${count} replicas`, samples, BY_HAND);
  }
}

function report(title: string, samples: ReadonlyMap<string, number[]>, base: string): void {
  const rows = [...samples].map(([name, seconds]) => [
    name,
    `${median(seconds).toFixed(2)} s`,
    medianRatio(seconds, samples.get(base) ?? []).toFixed(2),
  ]);
  print(title, ['way', 'median', `times "${base}"`], rows);
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (!(await condition().catch(() => false))) {
    if (performance.now() > deadline) throw new UserError('a replica does not become ready');
    await sleep(POLL_MS);
  }
}
