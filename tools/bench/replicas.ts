import { randomFillSync } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { podPrograms } from '../../infra/triton/agent/program';
import { Progress } from '../../src/cli/progress';
import { Cleanup } from '../../src/core/cleanup';
import { UserError } from '../../src/core/errors';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { requireFreeSpace } from '../../src/local/install/cache';
import { ensurePython } from '../../src/local/install/python';
import { ensureSeaweedfs } from '../../src/local/install/seaweedfs';
import { ensureTriton, requireTritonPlatform } from '../../src/local/install/triton';
import { startPod } from '../../src/local/pod';
import { freePorts } from '../../src/local/process/ports';
import { LOCAL_CREDENTIALS, LOCAL_REGION, startS3Server } from '../../src/local/s3-server';
import { S3Store } from '../../src/s3/store';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { TritonHttpClient } from '../../src/triton/http';
import { inScratch, median, print, type BenchOptions } from './compare';

const BUCKET = 'bench';
const START_BYTES = 512e6;
const VERSION_BYTES = 8e6;
const REPLICAS = [1, 3, 10];
/** That of three models. */
const CHANGING = 'm1';
const POLL_MS = 50;
const TIMEOUT_MS = 1_200_000;

interface Replica {
  /** Flags of sync-models. */
  flags: string[];
  isReady: (model: string, version: number) => Promise<boolean>;
  stop: () => Promise<void>;
}

interface Bench {
  /** Publishes a folder to a prefix of the bucket, with `npm run sync-models` without npm. */
  publish: (source: string, prefix: string, flags: readonly string[]) => Promise<void>;
  /** Starts a Triton with an agent, which reads `prefix`. Both run when it returns. */
  start: (name: string, prefix: string) => Promise<Replica>;
}

/** Measures the start of a replica with an empty disk, and a new version of one of three models until READY on 1, 3 and 10. */
export function benchReplicas({ repetitions, quick }: BenchOptions): Promise<void> {
  requireTritonPlatform();
  return inScratch(async (scratch, undo) => {
    const progress = new Progress();
    const bench = await open(scratch, undo, progress);
    const rows: string[][] = [];
    const measure = async (title: string, once: () => Promise<number>): Promise<void> => {
      const seconds: number[] = [];
      await progress.run(title, async (step) => {
        for (let round = 0; round <= repetitions; round += 1) {
          step.update(`round ${round}`);
          const value = await once();
          if (round > 0) seconds.push(value); // The first one has cold caches.
        }
      });
      rows.push([title, `${median(seconds).toFixed(2)} s`]);
    };
    const source = join(scratch, 'start');
    writeModels(source, 1, quick ? START_BYTES / 10 : START_BYTES);
    await bench.publish(source, 'start', ['--untried']);
    await measure('start of a replica with an empty disk', async () => {
      const started = performance.now();
      const replica = await bench.start('replica', 'start');
      await untilReady([replica], 'm0', 1);
      const seconds = (performance.now() - started) / 1000;
      await replica.stop();
      return seconds;
    });
    const folder = join(scratch, 'publish');
    writeModels(folder, 3, VERSION_BYTES);
    await bench.publish(folder, 'models', ['--untried']);
    const replicas: Replica[] = [];
    let version = 1;
    for (const count of quick ? REPLICAS.slice(0, 1) : REPLICAS) {
      while (replicas.length < count) replicas.push(await bench.start(`replica-${replicas.length}`, 'models'));
      await untilReady(replicas, CHANGING, version);
      await measure(`a new version until READY on ${count} replicas`, async () => {
        rmSync(join(folder, CHANGING, String(version)), { recursive: true });
        version += 1;
        writeVersion(join(folder, CHANGING, String(version)), VERSION_BYTES);
        const started = performance.now();
        const publishing = bench.publish(
          folder,
          'models',
          replicas.flatMap(({ flags }) => flags),
        );
        await Promise.all([publishing, untilReady(replicas, CHANGING, version)]);
        return (performance.now() - started) / 1000;
      });
    }
    print('replicas', ['what', 'median'], rows);
  });
}

async function open(scratch: string, undo: Cleanup, progress: Progress): Promise<Bench> {
  requireFreeSpace(scratch, 6e9, 'the benchmark');
  const environment = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
  const installation = await ensureTriton(environment);
  const [port = 0] = await freePorts(1);
  const server = await startS3Server({
    ...{ weed: await ensureSeaweedfs(), python: environment.python, port, credentials: LOCAL_CREDENTIALS },
    directory: join(scratch, 's3'),
    logFile: join(scratch, 's3.log'),
  });
  undo.defer(() => server.stop());
  const { endpoint } = server;
  const credentials = { ...LOCAL_CREDENTIALS, region: LOCAL_REGION };
  const store = new S3Store({ bucket: BUCKET, endpointUrl: endpoint, region: LOCAL_REGION, credentials });
  await store.ensureBucket().finally(() => store.close());
  return {
    publish: async (source, prefix, flags) => {
      const target = ['--repo', source, '--bucket', `s3://${BUCKET}/${prefix}`, '--endpoint-url', endpoint];
      await exec(process.execPath, [...commandLine(), ...target, ...flags], { env: getEnvironment(scratch) });
    },
    start: async (name, prefix) => {
      const directory = join(scratch, name);
      const end = new Cleanup();
      const [http = 0, grpc = 0, metrics = 0] = await freePorts(3);
      const { triton } = await startPod({
        ...{ installation, environment, directory, programs: podPrograms() },
        ...{ endpointUrl: endpoint, credentials: LOCAL_CREDENTIALS, bucket: `s3://${BUCKET}/${prefix}` },
        ports: { http, grpc, metrics },
        startTimeoutMs: TIMEOUT_MS,
        loadTimeoutMs: TIMEOUT_MS,
        isFresh: Promise.resolve(true),
        defer: (step) => end.defer(step),
      });
      const client = new TritonHttpClient(triton.httpUrl, { headers: { [CONTROL_HEADER]: triton.modelControlKey } });
      const stopReplica = async (): Promise<void> => {
        client.close();
        await end.run();
        rmSync(directory, { recursive: true, force: true });
      };
      undo.defer(stopReplica);
      return {
        flags: ['--triton', triton.httpUrl, '--agent', triton.agentUrl],
        isReady: (model, version) => client.modelReady(model, version).catch(() => false),
        stop: stopReplica,
      };
    },
  };
}

async function untilReady(replicas: readonly Replica[], model: string, version: number): Promise<void> {
  const deadline = performance.now() + TIMEOUT_MS;
  while (!(await Promise.all(replicas.map(({ isReady }) => isReady(model, version)))).every(Boolean)) {
    if (performance.now() > deadline) throw new UserError('a replica does not become ready');
    await sleep(POLL_MS);
  }
}

/** What package.json runs for `npm run sync-models`: "exec node --FLAG scripts/run.mjs sync-models". */
function commandLine(): string[] {
  const { scripts } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as {
    scripts: Record<'sync-models', string>;
  };
  const [, , ...words] = scripts['sync-models'].split(' ');
  return words.map((word) => (word.endsWith('.mjs') ? join(paths.root, word) : word));
}

/** Without the user's own settings. */
const getEnvironment = (home: string): NodeJS.ProcessEnv => ({
  PATH: process.env['PATH'],
  HOME: home,
  AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
  AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
  AWS_REGION: LOCAL_REGION,
  AWS_EC2_METADATA_DISABLED: 'true',
});

/** Writes models m0, m1, ... without computation, whose weights are incompressible. */
function writeModels(directory: string, count: number, bytes: number): void {
  for (let model = 0; model < count; model += 1) {
    writeVersion(join(directory, `m${model}`, '1'), bytes);
    writeFileSync(join(directory, `m${model}`, 'config.pbtxt'), CONFIG);
  }
}

function writeVersion(folder: string, bytes: number): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'model.py'), MODEL);
  writeFileSync(join(folder, 'weights'), randomFillSync(Buffer.alloc(bytes)));
}

const MODEL = `import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answer = pb_utils.Tensor("y", numpy.zeros(1, numpy.float32))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
`;
const CONFIG = `backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
`;
