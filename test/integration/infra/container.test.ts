import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { panels } from '../../../infra/triton/monitoring/dashboard';
import { ManagedProcess } from '../../../src/local/process/managed-process';
import { freePorts } from '../../../src/local/process/ports';
import { TempFileRegistry } from '../../../src/local/process/temp-file-registry';
import { Progress } from '../../../src/cli/progress';
import { ensurePython, type PythonEnvironment } from '../../../src/install/python';
import { assembleBackends, ensureTriton, type TritonInstallation } from '../../../src/install/triton';
import { TritonHttpClient } from '../../../src/triton/http';
import { GROUPS, OF } from '../../support/stories';
import { addingModel, askAfterForms, writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';
import { render } from '../../support/render';

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

/**
 * Runs Triton's container of the Deployment as a process on this machine, with its command, arguments and environment.
 * agent-pod.test.ts runs it beside the agent.
 */
describe('the container that the Deployment describes, with a real tritonserver', () => {
  const scratch = new Scratch();
  /** The volume that the agent writes. */
  const volume = join(scratch.directory, 'volume');
  let python: PythonEnvironment;
  let installation: TritonInstallation;
  let container: Container;

  beforeAll(async () => {
    const tempFiles = new TempFileRegistry(join(scratch.directory, 'leftovers.json'));
    tempFiles.note('/dev/shm', SHARED_MEMORY);
    scratch.defer(() => tempFiles.remove());
    python = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
    installation = await ensureTriton(python);
    const { only } = await render({ gpusPerPod: 0 });
    const spec = only('Deployment')['spec'] as { template: { spec: { containers: [Container] } } };
    container = spec.template.spec.containers[0];
    writeRepository(join(volume, 'models'), addingModel('adds', { 1: 10 }));
    writeFileSync(join(volume, 'control-key'), KEY);
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
        ...container.command.slice(1).map(expand),
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

  const expand = (argument: string): string => argument.replaceAll('/var/cache/triton', volume);

  function environment(): NodeJS.ProcessEnv {
    const given = container.env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value] as const]));
    return {
      ...Object.fromEntries(given),
      PATH: [python.bin, process.env['PATH'] ?? ''].join(delimiter),
      LD_LIBRARY_PATH: [installation.libraries, python.libraries].filter((path) => path !== undefined).join(delimiter),
    };
  }

  describe('with a model', () => {
    let running: Running;

    beforeAll(async () => {
      running = await start('first');
      const headers = { [HEADER]: KEY };
      const load = `${running.url}/v2/repository/models/adds/load`;
      expect((await fetch(load, { method: 'POST', headers })).status).toBe(200);
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

    test('applies the same rules over gRPC', async () => {
      const call = (key?: string): Promise<string> => callGrpc(running.grpc, key);
      expect(await call()).toMatch(/restricted/);
      expect(await call('another-key-of-a-test')).toMatch(/restricted/);
      expect(await call(KEY)).toBe('');
    });

    test('exports every metric that alerts and dashboard query, except those of GPUs', async () => {
      const queries = [
        ...GROUPS.flatMap(({ rules }) => rules.map(({ expr }) => String(expr))),
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
