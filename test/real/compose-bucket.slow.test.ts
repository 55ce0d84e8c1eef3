import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Progress } from '../../src/cli/progress';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { ensurePython, type PythonEnvironment } from '../../src/local/install/python';
import { assembleBackends, ensureTriton, type TritonInstallation } from '../../src/local/install/triton';
import { LOCAL_CREDENTIALS } from '../../src/local/s3-server';
import { ManagedProcess } from '../../src/local/process/managed-process';
import { freePorts } from '../../src/local/process/ports';
import type { AgentState } from '../../src/release/agent-api';
import { findProcesses } from '../support/processes';
import { addingModel, askOne, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';
import { readCompose, readStage } from '../support/docker-files';

jest.setTimeout(300_000);

const BUCKET = 'composed';
const AGENT_FOLDER = join(paths.root, 'infra', 'triton', 'agent');
const { services } = readCompose();
const scratch = new Scratch();
const repository = join(scratch.directory, 'repository');
/** The volume `releases`. */
const volume = join(scratch.directory, 'releases');
const backends = join(scratch.directory, 'backends');
/** /opt/agent in the image of the agent. */
const image = join(scratch.directory, 'image');

let python: PythonEnvironment;
let installation: TritonInstallation;
let endpoint: string;
let ports: Record<'http' | 'grpc' | 'metrics' | 'control' | 'read', number>;
let agent: ManagedProcess;
let triton: ManagedProcess;
let tritonIsStopped = false;

/**
 * Runs a service of compose.yaml as a process on this machine, which has no Docker. Its folders are those that the file
 * mounts, and its environment has only the variables that the file gives to the container.
 */
function run(
  name: string,
  program: readonly string[],
  more: readonly string[],
  variables: NodeJS.ProcessEnv,
): ManagedProcess {
  const service = services[name];
  if (service === undefined) throw new Error(`compose.yaml has no service ${name}`);
  const here = (text: string): string =>
    text
      .replaceAll('${AGENT_GPUS:-0}', '0')
      .replaceAll('${MODEL_REPOSITORY:-}', `s3://${BUCKET}/models`)
      .replaceAll('$$', '$')
      .replaceAll('/opt/agent', name === 'agent' ? image : AGENT_FOLDER)
      .replace(/^(\/var\/cache\/triton|\/home\/node)/, volume)
      .replace('=/var/cache/triton', `=${volume}`);
  const [command = '', ...args] = [...(service.entrypoint ?? []), ...program, ...more].map(here);
  const shell: NodeJS.ProcessEnv = {
    ...S3_ENVIRONMENT,
    AWS_DEFAULT_REGION: 'us-east-1',
    AWS_ENDPOINT_URL_S3: endpoint,
  };
  const given = Object.keys(service.environment).map((variable) => [variable, shell[variable]] as const);
  const started = new ManagedProcess({
    name,
    command,
    args,
    env: { ...Object.fromEntries(given), ...variables },
    logFile: join(scratch.directory, `${name}.log`),
    python: python.python,
    deathSignal: 'SIGKILL',
  });
  scratch.defer(() => started.stop(0));
  return started;
}

/** Runs the instructions of the Dockerfile for this image. Its node modules are those of this machine. */
async function buildAgentImage(): Promise<void> {
  const source = join(scratch.directory, 'source');
  for (const directory of [source, image]) mkdirSync(directory);
  symlinkSync(join(paths.root, 'node_modules'), join(source, 'node_modules'));
  for (const { name, value } of [...readStage('agent-program'), ...readStage('agent')]) {
    const words = value.split(' ').filter((word) => !word.startsWith('--'));
    if (name === 'COPY') {
      const from = value.startsWith('--from=agent-program') ? source : paths.root;
      for (const path of words.slice(0, -1))
        cpSync(join(from, path.replace('/package/', '')), join(from === source ? image : source, basename(path)), {
          recursive: true,
        });
    } else if (name === 'RUN') {
      await exec('sh', ['-c', value.replace(/^--mount=\S+ /, '')], { cwd: source });
    }
  }
}

const runAgent = (): ManagedProcess =>
  run(
    'agent',
    services['agent']?.command ?? [],
    [
      ...['--triton', `http://127.0.0.1:${ports.http}`, '--grpc', `127.0.0.1:${ports.grpc}`],
      ...['--port', String(ports.read), '--control-port', String(ports.control)],
    ],
    { PATH: [dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter) },
  );

/** Starts Triton, and again each time that it ends by itself: also a load that fails can end it (docs/operations.md). */
function runTriton(): ManagedProcess {
  const service = services['triton-bucket-cpu'];
  const [entryPoint, , ...flags] = service?.command ?? [];
  expect(service?.restart).toBe('unless-stopped');
  expect(entryPoint).toBe('/opt/nvidia/nvidia_entrypoint.sh');
  const own = [
    `--backend-directory=${backends}`,
    ...(['http', 'grpc', 'metrics'] as const).flatMap((one) => [
      `--${one}-address=127.0.0.1`,
      `--${one}-port=${ports[one]}`,
    ]),
  ];
  const started = run('triton-bucket-cpu', [installation.binary, ...flags], own, {
    PATH: [python.bin, process.env['PATH'] ?? ''].join(delimiter),
    PYTHONHOME: '',
    LD_LIBRARY_PATH: [installation.libraries, python.libraries].filter((path) => path !== undefined).join(delimiter),
  });
  void started.ended.then(() => {
    if (!tritonIsStopped) triton = runTriton();
  });
  return started;
}

beforeAll(async () => {
  python = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
  installation = await ensureTriton(python);
  ({ endpoint } = await testS3(scratch));
  await openBucket(scratch, endpoint, BUCKET);
  const [http = 0, grpc = 0, metrics = 0, control = 0, read = 0] = await freePorts(5);
  ports = { http, grpc, metrics, control, read };
  mkdirSync(volume);
  assembleBackends(installation, backends);
  await buildAgentImage();
  writeRepository(repository, addingModel('adds', { 1: 10 }));
  triton = runTriton();
  agent = runAgent();
  await until('the agent answers', async () => (await getState().catch(() => undefined)) !== undefined);
}, 600_000);
afterAll(() => {
  tritonIsStopped = true;
  return scratch.clean();
});

/** The health check of Triton. */
const isReady = async (): Promise<boolean> => {
  const [, command = '', script = ''] = services['triton-bucket-cpu']?.healthcheck?.test ?? [];
  const probe = [script.replace('/opt/agent', AGENT_FOLDER), volume, `http://127.0.0.1:${ports.http}`];
  return promisify(execFile)(command, probe).then(
    () => true,
    () => false,
  );
};

const getState = async (): Promise<AgentState> =>
  (await (await fetch(`http://127.0.0.1:${ports.read}/state`)).json()) as AgentState;

/** Runs a command for the bucket and the replica. */
const command = (name: string, ...flags: string[]): Promise<Finished> =>
  runCommandLine(
    name,
    [
      ...['--bucket', `s3://${BUCKET}/models`, '--endpoint-url', endpoint],
      ...['--triton', `http://127.0.0.1:${ports.http}`, '--agent', `http://127.0.0.1:${ports.control}`],
      ...flags,
    ],
    S3_ENVIRONMENT,
  );

const sync = (): Promise<Finished> => command('sync-models', '--repo', repository, '--json');

/** The answer of the model `adds` to 1. */
const ask = (): Promise<unknown> => askOne(`http://127.0.0.1:${ports.http}`);

let release: string;

test('a Triton whose bucket was empty serves a release once it is published', async () => {
  expect(await sync()).toMatchObject({ code: 0 });
  await until('the agent serves the release', isReady);
  expect(await ask()).toBe(11);
});

test('sync-models publishes through the agent, and status names the release', async () => {
  writeRepository(repository, addingModel('adds', { 1: 10, 2: 20 }));
  const { code, stdout } = await sync();
  expect(code).toBe(0);
  const result = JSON.parse(stdout) as { release: string; replicas: string[] };
  ({ release } = result);
  expect(result.replicas).toEqual([`http://127.0.0.1:${ports.http}`]);
  expect(await ask()).toBe(21);
  const status = await command('status', '--ask');
  expect(status).toMatchObject({ code: 0, stdout: expect.stringContaining(release) as string });
  expect(status.stdout).toMatch(/as released, READY +adds 1 2 /);
  expect(status.stdout).toMatch(/adds +ok +answered zeros/);
});

test('a Triton that hangs is reported by status and by a publish without changes', async () => {
  const [server = 0, ...others] = findProcesses(/tritonserver$/, volume);
  expect(others).toEqual([]);
  process.kill(server, 'SIGSTOP');
  await until('the agent noticed', async () => !(await getState()).ready);
  const status = await command('status');
  expect(status).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/Triton has not answered for \d+ s/) as string,
  });
  writeRepository(repository, addingModel('adds', { 1: 10, 2: 20 }));
  const unchanged = await command('sync-models', '--repo', repository, '--load-timeout', '2');
  expect(unchanged.stderr).toMatch(/the current release is not served by .* \(Triton has not answered for \d+ s\)/);
  expect(unchanged.code).toBe(3);
  process.kill(server, 'SIGCONT');
  await until('it is ready', async () => (await getState()).ready);
  expect(await command('status')).toMatchObject({ code: 0 });
});

test('no request and no health check fails while the agent is killed, hangs and cannot start', async () => {
  const [pid = 0, ...others] = findProcesses(/(^|\/)node$/, volume);
  expect(others).toEqual([]);
  const answers = new Set<unknown>();
  const stop = new AbortController();
  const load = (async (): Promise<void> => {
    while (!stop.signal.aborted) answers.add(await ask().catch(String)).add(await isReady());
  })();
  const hung = async (): Promise<boolean> => (await getState().catch(() => undefined)) === undefined;
  process.kill(pid, 'SIGSTOP');
  await sleep(20_000); // Longer than the failures of a probe that take a pod out of the Service.
  process.kill(pid, 'SIGKILL');
  const program = join(image, 'agent.cjs');
  renameSync(program, `${program}.away`);
  await until('it cannot start', hung);
  await until('it was started again', () => readFileSync(agent.logFile, 'utf8').includes('"restartSeconds":4'));
  renameSync(`${program}.away`, program);
  await until('the agent serves again', async () => (await getState().catch(() => undefined))?.release === release);
  stop.abort();
  await load;
  expect([...answers]).toEqual([21, true]);
  expect(await getState()).toMatchObject({ release, home: release });
  const metrics = await (await fetch(`http://127.0.0.1:${ports.read}/metrics`)).text();
  expect(metrics).toContain('triton_agent_loads_total{result="ok"} 0\n');
  // And it publishes on.
  writeRepository(repository, addingModel('adds', { 1: 10, 2: 20, 3: 30 }));
  expect(await sync()).toMatchObject({ code: 0 });
  expect(await ask()).toBe(31);
});

test('containers that start again without S3 serve the release of their volume', async () => {
  await agent.stop(20_000);
  expect(await agent.ended).toMatch(/exit code 0/);
  expect(await ask()).toBe(31);
  tritonIsStopped = true;
  await triton.stop(20_000);
  tritonIsStopped = false;
  endpoint = 'http://127.0.0.1:9';
  triton = runTriton();
  agent = runAgent();
  await until('it serves again', isReady);
  expect(await ask()).toBe(31);
});

test('the container of Triton has no credentials', () => {
  const environment = readFileSync(`/proc/${triton.pid}/environ`, 'utf8');
  expect(environment).not.toContain(LOCAL_CREDENTIALS.secretAccessKey);
});
