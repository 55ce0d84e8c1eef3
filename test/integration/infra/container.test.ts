import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { panels } from '../../../infra/triton/monitoring/dashboard';
import { ruleGroups } from '../../../infra/triton/monitoring/monitoring';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../../src/local/s3-server';
import { ManagedProcess } from '../../../src/local/process/managed-process';
import { freePorts } from '../../../src/local/process/ports';
import { TempFileRegistry } from '../../../src/local/process/temp-file-registry';
import { Progress } from '../../../src/cli/progress';
import { ensurePlaceholder } from '../../../src/publish/apply/repository-writer';
import { formatLocation } from '../../../src/release/location';
import type { S3Store } from '../../../src/s3/store';
import { ensurePython, type PythonEnvironment } from '../../../src/install/python';
import { assembleBackends, ensureTriton, type TritonInstallation } from '../../../src/install/triton';
import { TritonHttpClient } from '../../../src/triton/http';
import { OF, settingsOf } from '../../support/series';
import { addingModel, askAfterForms, writeRepository } from '../../support/repository';
import { runCommandLine } from '../../support/run';
import { openBucket, testS3 } from '../../support/s3';
import { Scratch } from '../../support/temp-dir';
import { render } from '../../support/render';

const LOCATION = { bucket: 'container-test', prefix: 'models' };
const KEY = 'a-key-of-a-test-0123';
const HEADER = 'triton-model-control-key';
/** Prefix of the shared memory of the servers, which a killed server does not delete. */
const SHARED_MEMORY = `triton-serving-${process.pid}-container-`;

/** The fields of the container that the test uses. */
interface Container {
  command: string[];
  args: string[];
  env: { name: string; value?: string }[];
}

/** Runs the container of the Deployment as a process on this machine, with its command, arguments and environment. */
describe('the container that the Deployment describes, with a real tritonserver and S3', () => {
  const scratch = new Scratch();
  const models = join(scratch.directory, 'models');
  let python: PythonEnvironment;
  let installation: TritonInstallation;
  let container: Container;
  let store: S3Store;
  let endpoint: string;

  beforeAll(async () => {
    const tempFiles = new TempFileRegistry(join(scratch.directory, 'leftovers.json'));
    tempFiles.note('/dev/shm', SHARED_MEMORY);
    scratch.defer(() => tempFiles.remove());
    python = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
    installation = await ensureTriton(python);
    const s3 = await testS3(scratch);
    endpoint = s3.endpoint;
    store = await openBucket(scratch, s3.endpoint, LOCATION.bucket);
    await ensurePlaceholder(store, LOCATION);
    const { only } = await render({
      modelRepository: `s3://${LOCATION.bucket}/${LOCATION.prefix}`,
      region: LOCAL_REGION,
      endpointUrl: s3.endpoint,
      credentials: { kind: 'static-keys', ...LOCAL_CREDENTIALS },
      modelControl: { key: KEY },
      gpusPerPod: 0,
      shutdown: { exitTimeoutSeconds: 5 },
    });
    const spec = only('Deployment')['spec'] as { template: { spec: { containers: [Container] } } };
    container = spec.template.spec.containers[0];
    mkdirSync(models);
  });
  afterAll(() => scratch.clean());

  interface Running {
    process: ManagedProcess;
    client: TritonHttpClient;
    url: string;
    grpc: string;
    metrics: string;
  }

  /** Starts the container like a container runtime, except that folders, ports and shared memory are those of this test. */
  async function start(name: string): Promise<Running> {
    const [http, grpc, metrics] = (await freePorts(3)) as [number, number, number];
    const backends = join(scratch.directory, 'backends');
    assembleBackends(installation, backends);
    const [entryPoint, program, ...flags] = container.args as [string, string, ...string[]];
    expect([entryPoint, program]).toEqual(['/opt/nvidia/nvidia_entrypoint.sh', 'tritonserver']);
    const server = new ManagedProcess({
      name,
      command: container.command[0] as string,
      args: [
        ...container.command.slice(1),
        installation.binary,
        ...flags.map(expand),
        `--backend-directory=${backends}`,
        `--backend-config=python,shm-region-prefix-name=${SHARED_MEMORY}`,
        ...['http', 'grpc', 'metrics'].map((one) => `--${one}-address=127.0.0.1`),
        `--http-port=${http}`,
        `--grpc-port=${grpc}`,
        `--metrics-port=${metrics}`,
      ],
      env: environment(),
      logFile: join(scratch.directory, `${name}.log`),
      python: python.python,
    });
    scratch.defer(() => server.stop(0));
    const url = `http://127.0.0.1:${http}`;
    const ready = async (): Promise<boolean> =>
      fetch(`${url}/v2/health/ready`).then(
        ({ ok }) => ok,
        () => false,
      );
    await server.untilReady(ready, 120_000, () => server.stop(20_000));
    const client = new TritonHttpClient(url);
    scratch.defer(() => client.close());
    return { process: server, client, url, grpc: `127.0.0.1:${grpc}`, metrics: `http://127.0.0.1:${metrics}/metrics` };
  }

  /** Expands variables in arguments like Kubernetes. */
  const expand = (argument: string): string => argument.replaceAll('$(MODEL_CONTROL_KEY)', KEY);

  function environment(): NodeJS.ProcessEnv {
    const given = container.env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value] as const]));
    return {
      ...Object.fromEntries(given),
      AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
      TRITON_AWS_MOUNT_DIRECTORY: models,
      PATH: [python.bin, process.env['PATH'] ?? ''].join(delimiter),
      LD_LIBRARY_PATH: [installation.libraries, python.libraries].filter((path) => path !== undefined).join(delimiter),
    };
  }

  const index = (url: string, headers?: Record<string, string>): Promise<Response> =>
    fetch(`${url}/v2/repository/index`, { method: 'POST', ...(headers === undefined ? {} : { headers }) });

  async function publish(files: Record<string, string>): Promise<void> {
    for (const [path, content] of Object.entries(files)) {
      await store.putBytes(`${LOCATION.prefix}/${path}`, Buffer.from(content));
    }
  }

  test('is ready with an empty repository and stops on SIGTERM sent to the shell', async () => {
    const { process: server, url } = await start('empty');
    expect(await (await index(url, { [HEADER]: KEY })).json()).toEqual([]);
    await server.stop(30_000);
    expect(await server.ended).toMatch(/exit code 0/);
  });

  describe('with a model', () => {
    let running: Running;

    beforeAll(async () => {
      await publish(addingModel('adds', { 1: 10 }));
      running = await start('first');
    });

    test('loads the model from S3 at the start and answers requests', async () => {
      const x = { name: 'x', datatype: 'FP32', shape: [1], data: new Float32Array([1]) } as const;
      const { outputs } = await running.client.infer('adds', [x]);
      expect(outputs[0]?.data).toEqual(new Float32Array([11]));
    });

    test('answers after large bodies with the Content-Type of curl -d', async () => {
      expect(await askAfterForms(running.url, 64)).toBe(11);
    });

    test.each([
      ['POST', 'v2/repository/index'],
      ['POST', 'v2/repository/models/adds/load'],
      ['POST', 'v2/repository/models/adds/unload'],
      ['GET', 'v2/systemsharedmemory/status'],
      ['GET', 'v2/cudasharedmemory/status'],
      ['GET', 'v2/trace/setting'],
      ['GET', 'v2/models/adds/trace/setting'],
      ['GET', 'v2/logging'],
      ['GET', 'v2/models/stats'],
      ['GET', 'v2/models/adds/stats'],
    ])('rejects %s %s without the model control key', async (method, path) => {
      for (const headers of [new Headers(), new Headers({ [HEADER]: `${KEY}x` })]) {
        expect((await fetch(`${running.url}/${path}`, { method, headers })).status).toBe(403);
      }
    });

    test('unloads and loads a model with the key; inference needs no key', async () => {
      const headers = { [HEADER]: KEY };
      const control = (what: string): Promise<Response> =>
        fetch(`${running.url}/v2/repository/models/adds/${what}`, { method: 'POST', headers });
      expect((await control('unload')).status).toBe(200);
      expect((await control('load')).status).toBe(200);
      for (const path of ['v2', 'v2/health/live', 'v2/models/adds', 'v2/models/adds/config', 'v2/models/adds/ready']) {
        expect([path, (await fetch(`${running.url}/${path}`)).status]).toEqual([path, 200]);
      }
    });

    test('publish and status report a missing key and succeed with it', async () => {
      const repository = join(scratch.directory, 'repository');
      writeRepository(repository, addingModel('more', { 1: 20 }));
      const target = ['--bucket', formatLocation(LOCATION), '--endpoint-url', endpoint, '--triton', running.url];
      const run = (command: string, args: string[], key?: string): ReturnType<typeof runCommandLine> =>
        runCommandLine(command, [...args, ...target], {
          AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
          AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
          ...(key === undefined ? {} : { TRITON_MODEL_CONTROL_KEY: key }),
        });
      const publishing = ['--repo', repository];
      const refused = await run('sync-models', publishing);
      expect(refused).toMatchObject({ code: 1 });
      expect(refused.stderr).toMatch(
        /denies model control without its key: .*restricted.*\n.*TRITON_MODEL_CONTROL_KEY/,
      );
      expect((await run('sync-models', publishing, `${KEY}x`)).stderr).toMatch(/with the given key/);
      expect((await run('sync-models', publishing, `${KEY}\n`)).stderr).toMatch(
        /not shown\) has other characters than printable ASCII/,
      );
      expect(await run('sync-models', publishing, KEY)).toMatchObject({ code: 0 });
      const x = { name: 'x', datatype: 'FP32', shape: [1], data: new Float32Array([1]) } as const;
      expect((await running.client.infer('more', [x])).outputs[0]?.data).toEqual(new Float32Array([21]));
      expect((await run('status', [])).stdout).toMatch(/denies model control without its key/);
      // The server also serves a model that was not published here.
      expect((await run('status', [], KEY)).stdout).toMatch(/more +1 +READY +as released/);
    });

    test('applies the same rules over gRPC', async () => {
      const call = (key?: string): Promise<string> => callGrpc(running.grpc, key);
      expect(await call()).toMatch(/restricted/);
      expect(await call('another-key-of-a-test')).toMatch(/restricted/);
      expect(await call(KEY)).toBe('');
    });

    test('exports every metric that alerts and dashboard query, except those of GPUs', async () => {
      const queries = [
        ...ruleGroups(settingsOf()).flatMap(({ rules }) => rules.map(({ expr }) => String(expr))),
        ...panels(OF, { gpus: true, signals: [] }).flatMap(({ queries: all }) =>
          all.map(({ expression }) => expression),
        ),
      ];
      const asked = new Set(queries.flatMap((query) => query.match(/\bnv_\w+/g) ?? []));
      const text = await (await fetch(running.metrics)).text();
      const missing = [...asked].filter((metric) => !text.includes(`\n${metric}{`) && !text.includes(`\n${metric} `));
      expect(missing.sort()).toEqual(['nv_gpu_memory_total_bytes', 'nv_gpu_memory_used_bytes', 'nv_gpu_utilization']);
      expect(asked.size).toBeGreaterThan(8);
    });

    test('loads the model again after the container was killed and restarted in its pod', async () => {
      writeFileSync(join(models, 'left'), 'by something else');
      mkdirSync(join(models, 'read-only'));
      chmodSync(join(models, 'read-only'), 0o500);
      running.process.killGroup();
      await running.process.ended;
      const before = readdirSync(models);
      expect(before.length).toBeGreaterThan(2);
      const again = await start('again');
      expect(await again.client.modelReady('adds')).toBe(true);
      const left = readdirSync(models);
      expect(left.filter((name) => before.includes(name))).toEqual([]);
    });
  });
});

/** Requests the repository index. @returns the error of the server */
function callGrpc(address: string, key: string | undefined): Promise<string> {
  const client = new Client(address, credentials.createInsecure());
  const metadata = new Metadata();
  if (key !== undefined) metadata.set(`triton-grpc-protocol-${HEADER}`, key);
  const path = '/inference.GRPCInferenceService/RepositoryIndex';
  const empty = (): Buffer => Buffer.alloc(0);
  const bytes = (answer: Buffer): Buffer => answer;
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, empty, bytes, {}, metadata, (error) => {
      client.close();
      resolve(error?.details ?? '');
    });
  });
}
