import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../../src/local/s3-server';
import { Progress } from '../../../src/cli/progress';
import { ensurePython } from '../../../src/install/python';
import { ensureTriton, requireTritonPlatform } from '../../../src/install/triton';
import type { TritonHttpClient } from '../../../src/triton/http';
import { CONTROL_KEY_VARIABLE, replicaClient } from '../../../src/cluster/source';
import { freeTritonPorts, startTriton, type TritonServer } from '../../../src/local/triton-server';
import { Undo } from '../../../src/core/undo';
import { BUCKET, type Arena } from './arena';
import { OURS, syncModels } from './contestants';
import type { Course, Measured } from './course';
import type { Sample } from './measure';
import { rounds } from '../rounds';

const MODELS = ['first', 'second', 'third'] as const;
const CHANGING = 'second';

/**
 * S3 reports modification times in whole seconds, and Triton reloads only files that are newer. sync-models therefore
 * waits before it replaces a configuration that was written within the last seconds. Users do not publish the same model
 * every few seconds, so the benchmark waits first and does not measure this.
 */
const UNTIL_OLD_MS = 5000;

/**
 * Measures the time from a new version of one of three models until a real Triton reports READY. For our tool: the
 * complete publish from the start of the program, with a server that reads the bucket. For the others: one PUT of the
 * new file, then a load by a server that reads a local folder which already contains the file.
 */
export async function measureReady(course: Course): Promise<Measured> {
  requireTritonPlatform();
  const { arena, repetitions, onRun } = course;
  const source = join(arena.directory, 'ready-source');
  const local = join(arena.directory, 'ready-local');
  for (const model of MODELS) writeVersion(source, model, 1);
  cpSync(source, local, { recursive: true });
  const prefix = 'ready';
  const publish = (server?: TritonServer): Promise<Sample> =>
    arena.measure({
      argv: [
        ...syncModels(arena.server.endpoint, source, BUCKET, prefix),
        ...(server === undefined ? [] : ['--triton', server.httpUrl]),
      ],
      env: { ...arena.env, ...(server === undefined ? {} : { [CONTROL_KEY_VARIABLE]: server.modelControlKey }) },
    });
  await publish();
  const undo = new Undo();
  const start = async (name: string, repository: string): Promise<TritonServer> => {
    const server = await startServer(join(arena.directory, name), repository);
    undo.defer(() => server.stop());
    return server;
  };
  try {
    const fromBucket = await start('triton-s3', `s3://${arena.server.endpoint}/${BUCKET}/${prefix}`);
    const fromFolder = await start('triton-folder', local);
    const clients = [fromBucket, fromFolder].map(({ httpUrl, modelControlKey }) =>
      replicaClient({ url: httpUrl, modelControlKey }),
    );
    undo.defer(() => clients.forEach((client) => client.close()));
    const [bucketClient, folderClient] = clients as [TritonHttpClient, TritonHttpClient];
    let version = 1;
    const entries = new Map([
      [
        OURS,
        async () => {
          writeVersion(source, CHANGING, (version += 1));
          await sleep(UNTIL_OLD_MS);
          const sample = await publish(fromBucket);
          await requireReady(bucketClient, version);
          return sample;
        },
      ],
      ...putters(arena).map(([name, put]): [string, () => Promise<Sample>] => [
        name,
        async () => {
          const file = writeVersion(local, CHANGING, (version += 1));
          const sample = await arena.measure(put(file, `s3://${BUCKET}/ready-put/${version}/model.py`));
          const started = performance.now();
          await folderClient.loadModel(CHANGING);
          const seconds = sample.seconds + (performance.now() - started) / 1000;
          await requireReady(folderClient, version);
          return { ...sample, seconds };
        },
      ]),
    ]);
    return { samples: await rounds(entries, repetitions, onRun) };
  } finally {
    await undo.run();
  }
}

async function requireReady(client: TritonHttpClient, version: number): Promise<void> {
  if (!(await client.modelReady(CHANGING, version))) throw new Error(`version ${version} was not READY when it should`);
}

/** The smallest upload of each fast tool. */
function putters(
  arena: Arena,
): [string, (file: string, address: string) => { argv: string[]; env: NodeJS.ProcessEnv }][] {
  const { peers, python, server, env } = arena;
  const endpoint = `--endpoint-url=${server.endpoint}`;
  return [
    [
      's5cmd cp, then load from a folder',
      (file, address) => ({ argv: [peers.s5cmd, endpoint, 'cp', file, address], env }),
    ],
    [
      'aws s3 cp, then load from a folder',
      (file, address) => ({
        argv: [python, peers.aws.program, endpoint, 's3', 'cp', '--only-show-errors', file, address],
        env: { ...env, PYTHONPATH: peers.aws.packages },
      }),
    ],
  ];
}

async function startServer(directory: string, repository: string): Promise<TritonServer> {
  const environment = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
  return startTriton({
    installation: await ensureTriton(environment),
    environment,
    repository,
    directory,
    ports: await freeTritonPorts(),
    credentials: { ...LOCAL_CREDENTIALS, region: LOCAL_REGION },
    load: undefined,
    startTimeoutMs: 300_000,
  });
}

/**
 * Adds a version to a model and configures the model to serve it.
 * @returns the file of the version
 */
function writeVersion(repository: string, model: string, version: number): string {
  const folder = join(repository, model, String(version));
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'model.py');
  writeFileSync(file, MODEL.replace('VERSION', String(version)));
  writeFileSync(join(repository, model, 'config.pbtxt'), CONFIG.replace('VERSION', String(version)));
  return file;
}

const CONFIG = `backend: "python"
input { name: "INPUT" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 1 ] }
version_policy { specific { versions: [ VERSION ] } }
instance_group { kind: KIND_CPU count: 1 }
`;

const MODEL = `# Version VERSION.
class TritonPythonModel:
    def execute(self, requests):
        return []
`;
