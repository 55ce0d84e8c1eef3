import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';
import { ManagedProcess } from '../../src/local/process/managed-process';
import { freePorts } from '../../src/local/process/ports';
import { TempFileRegistry } from '../../src/local/process/temp-file-registry';
import { Progress } from '../../src/cli/progress';
import { panels } from '../../infra/triton/monitoring/dashboard';
import type { ConfigMapFiles } from '../../infra/triton/agent/program';
import { KEY_FILE, requestRestart } from '../../src/agent/pod-files';
import { ensurePython, type PythonEnvironment } from '../../src/local/install/python';
import { assembleBackends, ensureTriton, type TritonInstallation } from '../../src/local/install/triton';
import type { AgentState } from '../../src/release/agent-api';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { TritonHttpClient } from '../../src/triton/http';
import { ReleaseWriter, type TestModel } from '../support/agent';
import { emptyBackend } from '../support/empty-backend';
import { addingModel, askAfterForms, writeRepository } from '../support/repository';
import { callGrpc } from '../support/grpc';
import { findProcesses } from '../support/processes';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { render } from '../support/render';
import { GROUPS, OF } from '../support/stories';
import { until } from '../support/wait-for';

const BUCKET = 'agent-pod';

/** Where a container runs on this machine. */
interface Place {
  /** In place of the volume of the pod. */
  volume: string;
  http: number;
  grpc: number;
  metrics: number;
}

interface Container {
  command: string[];
  args: string[];
  env: { name: string; value?: string }[];
}

/** Runs both containers of a pod with an agent as processes on this machine, with their commands and environments. */
describe('the pod with an agent, with a real tritonserver and S3', () => {
  const scratch = new Scratch();
  /** The shared volume, the same folder in both containers. */
  const volume = join(scratch.directory, 'volume');
  /** The mounted ConfigMap. */
  const program = join(scratch.directory, 'agent');
  let python: PythonEnvironment;
  let installation: TritonInstallation;
  let triton: Container;
  let probe: string[];
  let agent: Container;
  let releases: ReleaseWriter;
  let ports: Place & { read: number; control: number };

  beforeAll(async () => {
    python = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
    installation = await ensureTriton(python);
    const { endpoint } = await testS3(scratch);
    const store = await openBucket(scratch, endpoint, BUCKET);
    releases = new ReleaseWriter(store);
    const { only } = await render({
      modelRepository: `s3://${BUCKET}/models`,
      region: LOCAL_REGION,
      endpointUrl: endpoint,
      credentials: { ...LOCAL_CREDENTIALS },
      gpusPerPod: 0,
    });
    const { spec } = (
      only('Deployment')['spec'] as {
        template: {
          spec: {
            containers: [Container & { readinessProbe: { exec: { command: string[] } } }];
            initContainers: [Container];
          };
        };
      }
    ).template;
    triton = spec.containers[0];
    probe = spec.containers[0].readinessProbe.exec.command;
    agent = spec.initContainers[0];
    mkdirSync(program);
    const { data, binaryData } = only('ConfigMap', 'triton-agent') as unknown as ConfigMapFiles;
    for (const [name, text] of Object.entries(data)) writeFileSync(join(program, name), text);
    for (const [name, text] of Object.entries(binaryData)) writeFileSync(join(program, name), text, 'base64');
    const [http = 0, grpc = 0, metrics = 0, read = 0, control = 0] = await freePorts(5);
    ports = { volume, http, grpc, metrics, read, control };
    mkdirSync(volume);
    const backends = join(scratch.directory, 'backends');
    assembleBackends(installation, backends);
    mkdirSync(join(backends, 'empty'));
    writeFileSync(join(backends, 'empty', 'libtriton_empty.so'), emptyBackend());
  }, 300_000);
  afterAll(() => scratch.clean());

  /** Runs a container, except that folders and ports are those of this machine. */
  function run(
    name: string,
    { command, args, env }: Omit<Container, 'readinessProbe'>,
    more: string[] = [],
    variables: NodeJS.ProcessEnv = { PATH: process.env['PATH'] ?? '' },
    place: Pick<Place, 'volume'> = ports,
  ): ManagedProcess {
    const here = (text: string): string =>
      text.replaceAll('/var/cache/triton', place.volume).replaceAll('/opt/agent', program);
    const [first = '', ...rest] = [...command, ...args].map(here);
    const given = env.flatMap(({ name: variable, value }) => (value === undefined ? [] : [[variable, value] as const]));
    const started = new ManagedProcess({
      name,
      command: first,
      args: [...rest, ...more],
      env: { ...Object.fromEntries(given), ...variables },
      logFile: join(scratch.directory, `${basename(name)}.log`),
      python: python.python,
    });
    scratch.defer(() => started.stop(0));
    return started;
  }

  const runAgent = (): ManagedProcess =>
    run(
      'agent',
      agent,
      [
        ...['--triton', `http://127.0.0.1:${ports.http}`, '--host', '127.0.0.1'],
        ...['--port', String(ports.read), '--control-port', String(ports.control)],
      ],
      {
        PATH: [dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter),
        AWS_ACCESS_KEY_ID: LOCAL_CREDENTIALS.accessKeyId,
        AWS_SECRET_ACCESS_KEY: LOCAL_CREDENTIALS.secretAccessKey,
      },
    );

  function runTriton(name: string, place: Place = ports, more: readonly string[] = []): ManagedProcess {
    const [entryPoint, binary, ...flags] = triton.args as [string, string, ...string[]];
    expect([entryPoint, binary]).toEqual(['/opt/nvidia/nvidia_entrypoint.sh', 'tritonserver']);
    const own = [
      `--backend-directory=${join(scratch.directory, 'backends')}`,
      ...['http', 'grpc', 'metrics'].map((one) => `--${one}-address=127.0.0.1`),
      ...(['http', 'grpc', 'metrics'] as const).map((one) => `--${one}-port=${place[one]}`),
      ...more,
    ];
    const variables = {
      PATH: [python.bin, process.env['PATH'] ?? ''].join(delimiter),
      LD_LIBRARY_PATH: [installation.libraries, python.libraries].filter((path) => path !== undefined).join(delimiter),
    };
    return run(name, { ...triton, args: [installation.binary, ...flags] }, own, variables, place);
  }

  const CLOSED = { connection: 'close' };
  const isOk = async (port: number, path: string): Promise<boolean> =>
    (await fetch(`http://127.0.0.1:${port}${path}`, { headers: CLOSED })).ok;
  /** The readiness probe of the pod. */
  const isReady = async (): Promise<boolean> => {
    const [command = '', ...args] = probe;
    const here = args.map((text) => text.replace('/var/cache/triton', volume).replace(':8000', `:${ports.http}`));
    return promisify(execFile)(command, here).then(
      () => true,
      () => false,
    );
  };

  /** Waits for a pod to be Ready. It must have its model from that moment on. */
  async function readyWithModel(): Promise<void> {
    await until('the pod is Ready', isReady);
    expect(await isServed('a')).toBe(true);
    // Fails if such bodies end the server.
    await askAfterForms(`http://127.0.0.1:${ports.http}`, 5, 'a');
  }

  const getState = async (): Promise<AgentState> =>
    (await (await fetch(`http://127.0.0.1:${ports.read}/state`)).json()) as AgentState;

  async function commit(models: Record<string, TestModel>): Promise<string> {
    const release = await releases.write(models);
    await releases.commit(release);
    return release.id;
  }

  async function isServed(model: string): Promise<boolean> {
    const client = new TritonHttpClient(`http://127.0.0.1:${ports.http}`);
    try {
      return await client.modelReady(model);
    } finally {
      client.close();
    }
  }

  /** The program of the agent, not the process that restarts it. */
  function getProgram(): number {
    const [pid = 0] = findProcesses(/(^|\/)node$/, join(program, 'agent.cjs'));
    expect(pid).toBeGreaterThan(1);
    return pid;
  }

  // The tests are concurrent, because they mostly wait.
  test.concurrent('Triton waits for the key, the pod serves head, and heals after each kill and restart', async () => {
    const id = await commit({ a: { served: [1], files: { '1/weights': 'A' } } });
    const first = runTriton('triton');
    // The shell waits, so no port is open yet.
    await expect(isOk(ports.http, '/v2/health/live')).rejects.toThrow();
    const sidecar = runAgent();
    await readyWithModel();
    expect((await getState()).release).toBe(id);

    const url = `http://127.0.0.1:${ports.http}/v2/repository/index`;
    const key = readFileSync(join(volume, KEY_FILE), 'utf8').trim();
    const index = (value: string): Promise<Response> =>
      fetch(url, { method: 'POST', headers: { ...CLOSED, 'triton-model-control-key': value } });
    expect((await index(key)).status).toBe(200);
    expect((await index('{control-key}')).status).toBe(403);

    const killed = getProgram();
    process.kill(killed, 'SIGKILL');
    await until('the program runs again', async () => (await getState().catch(() => undefined))?.release === id);
    expect(getProgram()).not.toBe(killed);
    expect(await isReady()).toBe(true);
    const metrics = await (await fetch(`http://127.0.0.1:${ports.read}/metrics`, { headers: CLOSED })).text();
    expect(metrics.split('\n')).toEqual(
      expect.arrayContaining([
        'triton_agent_serves_head 1',
        'triton_agent_head_generation 1',
        'triton_agent_trial_active 0',
        'triton_agent_disk_bytes 1',
        // The files are still there, and Triton still serves them.
        'triton_agent_download_bytes_total 0',
        'triton_agent_loads_total{result="ok"} 0',
        `triton_agent_release_info{release="${id}",home="${id}"} 1`,
        expect.stringMatching(/^triton_agent_start_seconds\{phase="total"\} /),
        expect.stringMatching(/^triton_agent_last_head_read_timestamp_seconds \d/),
      ]),
    );

    first.killGroup();
    await first.ended;
    const second = runTriton('triton-again');
    await readyWithModel();

    requestRestart(volume);
    // It would be 1 if the agent kept a connection open, for which Triton waits until the end of --exit-timeout-secs.
    expect(await second.ended).toMatch(/exit code 0/);
    // As the kubelet does. The earlier request does not end it.
    const third = runTriton('triton-on-request');
    await readyWithModel();

    await sidecar.stop(20_000);
    expect(await sidecar.ended).toMatch(/exit code 0/);
    expect(await isServed('a')).toBe(true);
    await third.stop(20_000);
    expect(await third.ended).toMatch(/exit code 0/);
  });

  test.concurrent('Triton ends on SIGTERM while it waits for the key', async () => {
    const command = [...triton.command.slice(0, -1), '/no/such/folder'];
    const waiting = run('waiting', { ...triton, command, args: ['true'] });
    // Until the shell has its handler of the signal.
    await sleep(1000);
    await waiting.stop(20_000);
    expect(await waiting.ended).toMatch(/143/);
  });

  test.concurrent.each([
    ['a program', ['sleep', '100'], 143],
    ['a program that ignores SIGTERM', ['sh', '-c', 'trap "" TERM; sleep 100', 'sh', '--exit-timeout-secs=-12'], 137],
  ])('a request of the agent ends %s, and a later start ignores it', async (name, args, code) => {
    const folder = join(scratch.directory, name.replaceAll(' ', '-'));
    mkdirSync(join(folder, 'models'), { recursive: true });
    writeFileSync(join(folder, KEY_FILE), 'key\n');
    requestRestart(folder);
    const started = run(folder, { ...triton, command: [...triton.command.slice(0, -1), folder], args });
    expect(await Promise.race([started.ended, sleep(2500, 'runs')])).toBe('runs');
    requestRestart(folder);
    expect(await started.ended).toBe(`exit code ${code}`);
  });

  test.concurrent(
    'the sidecar restarts a program that ends at once after a growing time, and ends on SIGTERM while it waits',
    async () => {
      const sidecar = run('loop', { command: agent.command, args: ['sh', '-c', 'exit 7'], env: [] });
      const log = (): string => readFileSync(sidecar.logFile, 'utf8');
      const line = (seconds: number): string => `{"event":"agent ended","code":7,"restartSeconds":${seconds}}`;
      await until('the third wait has begun', () => log().includes(line(4)));
      expect(log().trim().split('\n')).toEqual([line(1), line(2), line(4)]);
      await sidecar.stop(20_000);
      expect(await sidecar.ended).toMatch(/exit code 0/);
    },
  );

  describe('the container of Triton without the agent', () => {
    const KEY = 'a-key-of-a-test-0123';
    let place: Place;
    let url: string;

    beforeAll(async () => {
      // A killed server does not delete its shared memory.
      const sharedMemory = `triton-serving-${process.pid}-container-`;
      const tempFiles = new TempFileRegistry(join(scratch.directory, 'leftovers.json'));
      tempFiles.note('/dev/shm', sharedMemory);
      scratch.defer(() => tempFiles.remove());
      const [http, grpc, metrics] = (await freePorts(3)) as [number, number, number];
      place = { volume: join(scratch.directory, 'volume-of-container'), http, grpc, metrics };
      url = `http://127.0.0.1:${http}`;
      writeRepository(join(place.volume, 'models'), addingModel('adds', { 1: 10 }));
      writeFileSync(join(place.volume, KEY_FILE), KEY);
      const server = runTriton('container', place, [`--backend-config=python,shm-region-prefix-name=${sharedMemory}`]);
      const ready = (): Promise<boolean> => isOk(http, '/v2/health/ready').catch(() => false);
      await server.untilReady(ready, 120_000, () => server.stop(20_000));
      const load = `${url}/v2/repository/models/adds/load`;
      expect((await fetch(load, { method: 'POST', headers: { [CONTROL_HEADER]: KEY } })).status).toBe(200);
    });

    test('answers after large bodies with the Content-Type of curl -d', async () => {
      expect(await askAfterForms(url, 64)).toBe(11);
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
      for (const headers of [new Headers(), new Headers({ [CONTROL_HEADER]: `${KEY}x` })]) {
        expect((await fetch(`${url}/${path}`, { method, headers })).status).toBe(403);
      }
    });

    test('unloads and loads a model with the key; inference needs no key', async () => {
      const headers = { [CONTROL_HEADER]: KEY };
      const control = (what: string): Promise<Response> =>
        fetch(`${url}/v2/repository/models/adds/${what}`, { method: 'POST', headers });
      expect((await control('unload')).status).toBe(200);
      expect((await control('load')).status).toBe(200);
      for (const path of ['v2', 'v2/health/live', 'v2/models/adds', 'v2/models/adds/config', 'v2/models/adds/ready']) {
        expect([path, (await fetch(`${url}/${path}`)).status]).toEqual([path, 200]);
      }
    });

    test('applies the same rules over gRPC', async () => {
      const [address, path] = [`127.0.0.1:${place.grpc}`, '/inference.GRPCInferenceService/RepositoryIndex'];
      const call = async (headers: Record<string, string>): Promise<string | undefined> =>
        (await callGrpc(address, path, Buffer.alloc(0), headers))?.details;
      const header = `triton-grpc-protocol-${CONTROL_HEADER}`;
      expect(await call({})).toMatch(/restricted/);
      expect(await call({ [header]: 'another-key-of-a-test' })).toMatch(/restricted/);
      expect(await call({ [header]: KEY })).toBeUndefined();
    });

    test('exports every metric that alerts and dashboard query, except those of GPUs', async () => {
      const queries = [
        ...GROUPS.flatMap(({ rules }) => rules.map(({ expr }) => String(expr))),
        ...panels(OF, { gpus: true, signals: [] }).flatMap(({ queries: all }) =>
          all.map(({ expression }) => expression),
        ),
      ];
      const asked = new Set(queries.flatMap((query) => query.match(/\bnv_\w+/g) ?? []));
      const text = await (await fetch(`http://127.0.0.1:${place.metrics}/metrics`)).text();
      const missing = [...asked].filter((metric) => !text.includes(`\n${metric}{`) && !text.includes(`\n${metric} `));
      expect(missing.sort()).toEqual(['nv_gpu_memory_total_bytes', 'nv_gpu_memory_used_bytes', 'nv_gpu_utilization']);
      expect(asked.size).toBeGreaterThan(8);
    });
  });
});
