import { delimiter, join } from 'node:path';
import { UserError } from '../core/errors';
import { isHealthy } from './process/health-check';
import { TempFileRegistry, removeEnvironmentFolders } from './process/temp-file-registry';
import { ManagedProcess } from './process/managed-process';
import { getParent, processIds, readProcess } from './process/proc';
import type { PythonEnvironment } from './install/python';
import { assembleBackends, type TritonInstallation } from './install/triton';
import type { ControlAddress } from '../triton/control-client';
import { generateControlKey, guardFlags } from '../triton/control-key';
import { CPU_VARIABLES, LOAD_ALL_FLAG, RAISE_STACK_LIMIT, SERVING_FLAGS } from '../triton/serving';

/** Time for requests in flight when the server is stopped. */
const EXIT_TIMEOUT_S = 5;
const SHARED_MEMORY = '/dev/shm';

/** Before it is ready, a model's process may install the packages of its requirements.txt. */
const STUB_TIMEOUT_S = 280;

export interface TritonProcessOptions {
  installation: TritonInstallation;
  environment: PythonEnvironment;
  repository: string;
  /** Folder for the backend directory and the log; replaced at start. */
  directory: string;
  ports: { http: number; grpc: number; metrics: number };
  /** Models to load at start, possibly none; undefined for all models of the repository, as pods in the cluster do. */
  load?: readonly string[] | undefined;
  /** More arguments of tritonserver. */
  extraArguments?: readonly string[] | undefined;
  /** From the start of the program until its HTTP port answers with all models loaded. */
  startTimeoutMs: number;
  /** Key of the model control API; default: a new random key. */
  modelControlKey?: string | undefined;
  /** Program with its arguments that runs tritonserver. Default: none. */
  wrapper?: readonly string[] | undefined;
  /** More environment variables. */
  variables?: NodeJS.ProcessEnv | undefined;
}

export interface TritonProcess {
  httpUrl: string;
  grpcAddress: string;
  metricsUrl: string;
  /** Key of the model control API, sent in the header CONTROL_HEADER. */
  modelControlKey: string;
  control: ControlAddress;
  pid: number | undefined;
  logFile: string;
  /** The last output lines. */
  lastLines(count: number): string;
  /** Resolves with the reason when the program has ended. */
  ended: Promise<string>;
  /** @param graceMs time before it is killed (default: longer than its requests in flight may take) */
  stop(graceMs?: number): Promise<void>;
}

/** Starts a real tritonserver on loopback in EXPLICIT model control mode. Resolves when the server answers. */
export async function startTriton(options: TritonProcessOptions): Promise<TritonProcess> {
  const { ports, directory, installation, modelControlKey = generateControlKey() } = options;
  const backends = join(directory, 'backends');
  assembleBackends(installation, backends);
  const tempFiles = new TempFileRegistry(join(directory, 'leftovers.json'));
  // The shared memory of the python backend, which is not deleted if the backend is killed.
  const sharedMemory = `triton-serving-${process.pid}-${ports.http}-`;
  tempFiles.note(SHARED_MEMORY, sharedMemory);
  const [command = '', ...args] = [
    ...(options.wrapper ?? []),
    ...['sh', '-c', `${RAISE_STACK_LIMIT}exec "$@"`, 'start'],
    installation.binary,
    ...serverArguments(options, backends, sharedMemory),
    ...guardFlags(modelControlKey),
  ];
  const server = new ManagedProcess({
    name: 'tritonserver',
    command,
    args,
    env: serverEnvironment(options),
    logFile: join(directory, 'triton.log'),
    python: options.environment.python,
    // While models load, tritonserver ignores SIGTERM. Its model processes end after it.
    deathSignal: 'SIGKILL',
  });
  const isServer = (pid: number): boolean => {
    const [program, ...given] = readProcess(pid, 'cmdline')?.split('\0') ?? [];
    return program === installation.binary && given.includes(`--http-port=${ports.http}`);
  };
  const stop = async (graceMs = (EXIT_TIMEOUT_S + 10) * 1000): Promise<void> => {
    // Each model runs in a process of its own. tritonserver looks only once a second whether all have ended.
    const hasStopped = (): boolean => {
      const pids = processIds();
      const pid = pids.find(isServer);
      return !pids.some((one) => getParent(one) === pid && /backend_stub\0/.test(readProcess(one, 'cmdline') ?? ''));
    };
    await server.stop(graceMs, hasStopped);
    tempFiles.remove();
    removeEnvironmentFolders();
  };
  const httpUrl = `http://127.0.0.1:${ports.http}`;
  const metricsUrl = `http://127.0.0.1:${ports.metrics}/metrics`;
  // The metrics port opens last. A server that cannot open one of its ports reports ready before it ends.
  const isReady = async (): Promise<boolean> => {
    // Its supervisor would start it again and again.
    if (options.wrapper !== undefined && ENDED.test(server.lastLines())) {
      const lines = server.lastLines();
      await stop();
      throw new UserError(`tritonserver ended:\n${lines}`, { hint: `read the log: ${server.logFile}` });
    }
    return (await isHealthy(`${httpUrl}/v2/health/ready`)) && (await isHealthy(metricsUrl, isTriton));
  };
  await server.untilReady(isReady, options.startTimeoutMs, stop);
  const grpcAddress = `127.0.0.1:${ports.grpc}`;
  return {
    httpUrl,
    grpcAddress,
    metricsUrl,
    modelControlKey,
    control: { url: httpUrl, grpcAddress, modelControlKey },
    pid: server.pid,
    logFile: server.logFile,
    lastLines: (count) => server.lastLines(count),
    ended: server.ended,
    stop,
  };
}

/** A line of supervise.sh. */
const ENDED = /"event":"tritonserver ended"/;

const isTriton = async (metrics: Response): Promise<boolean> => (await metrics.text()).includes('nv_');

function serverArguments(options: TritonProcessOptions, backends: string, sharedMemory: string): string[] {
  const { ports } = options;
  return [
    `--model-repository=${options.repository}`,
    ...SERVING_FLAGS,
    ...(options.load?.map((name) => `--load-model=${name}`) ?? [LOAD_ALL_FLAG]),
    `--exit-timeout-secs=${EXIT_TIMEOUT_S}`,
    `--backend-directory=${backends}`,
    `--backend-config=python,shm-region-prefix-name=${sharedMemory}`,
    `--backend-config=python,stub-timeout-seconds=${STUB_TIMEOUT_S}`,
    '--http-address=127.0.0.1',
    `--http-port=${ports.http}`,
    '--grpc-address=127.0.0.1',
    `--grpc-port=${ports.grpc}`,
    '--metrics-address=127.0.0.1',
    `--metrics-port=${ports.metrics}`,
    ...(options.extraArguments ?? []),
  ];
}

function serverEnvironment(options: TritonProcessOptions): NodeJS.ProcessEnv {
  const { environment, installation } = options;
  return {
    ...modelEnvironment(process.env),
    LD_LIBRARY_PATH: [installation.libraries, environment.libraries]
      .filter((path) => path !== undefined)
      .join(delimiter),
    // The interpreter inside the python backend uses the environment of the first python on PATH.
    PATH: [environment.bin, process.env['PATH'] ?? ''].join(delimiter),
    PYTHONHOME: '',
    ...CPU_VARIABLES,
    // Prevents requests to the metadata service of a cloud machine.
    AWS_EC2_METADATA_DISABLED: 'true',
    ...options.variables,
  };
}

/** Variables that model code receives. All others may be secrets of the user: tokens, keys, addresses of proxies. */
const PASSED_ON =
  /^(HOME|USER|LOGNAME|SHELL|TERM|TZ|TMPDIR|LANG|LANGUAGE|LC_.*|XDG_CACHE_HOME|CUDA_.*|NVIDIA_.*|OMP_.*|MKL_.*)$/;

function modelEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => PASSED_ON.test(name)));
}
