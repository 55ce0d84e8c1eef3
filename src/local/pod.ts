import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KEY_FILE, readKey } from '../agent/pod-files';
import { paths } from '../core/paths';
import { AgentClient } from '../publish/agent-client';
import { isHealthy } from './process/health-check';
import { ManagedProcess } from './process/managed-process';
import { freePorts } from './process/ports';
import { LOCAL_REGION, type S3ServerOptions } from './s3-server';
import { startTriton, type TritonProcess, type TritonProcessOptions } from './triton-server';

/** The programs of a pod with a release agent, from infra/triton/agent, which src does not import. */
export interface PodPrograms {
  /** File name -> text. */
  files: Readonly<Record<'agent.cjs' | 'supervise.sh' | 'start-triton.sh', string>>;
  /** Flags of Node for agent.cjs. */
  nodeFlags: readonly string[];
}

export interface PodOptions extends Pick<
  TritonProcessOptions,
  'installation' | 'environment' | 'ports' | 'startTimeoutMs' | 'extraArguments'
> {
  programs: PodPrograms;
  /** Folder of the local stack. */
  directory: string;
  /** s3://BUCKET/PREFIX. */
  bucket: string;
  endpointUrl: string;
  credentials: S3ServerOptions['credentials'];
  /** For one model. */
  loadTimeoutMs: number;
  /** Time until clients notice that the pod is not Ready; default 0. */
  leaveSeconds?: number;
  /** Resolves when the bucket can be read, with whether the agent begins without the release of the earlier run. */
  isFresh: Promise<boolean>;
  defer: (undo: () => Promise<void>) => void;
}

/** A Triton and the release agent beside it. */
export interface Pod {
  triton: TritonProcess & { agentUrl: string };
  agent: { client: AgentClient; ended: Promise<string>; logFile: string; metricsUrl: string };
  /** The folder that Triton reads. */
  modelsFolder: string;
}

const AGENT_START_MS = 60_000;

/**
 * Runs what a pod of a stack runs: a Triton that reads a folder of this machine only, and beside it the
 * release agent, which has the keys of the bucket. Both are started again each time that they end. Returns when both answer.
 */
export async function startPod(options: PodOptions): Promise<Pod> {
  const { programs, directory, environment, endpointUrl, credentials } = options;
  const own = join(directory, 'programs');
  mkdirSync(own, { recursive: true });
  for (const [name, text] of Object.entries(programs.files)) writeFileSync(join(own, name), text);
  const withParent = ['sh', '-c', WITH_PARENT, environment.python, paths.withParent];
  const supervised = (program: readonly string[]): string[] => [
    ...['sh', join(own, 'supervise.sh')],
    ...[...withParent, ...program],
  ];

  const disk = join(directory, 'agent');
  // Only its user may read the key in this folder.
  mkdirSync(join(disk, 'models'), { recursive: true, mode: 0o700 });
  rmSync(join(disk, KEY_FILE), { force: true });
  const triton = await startTriton({
    ...options,
    repository: join(disk, 'models'),
    directory: join(directory, 'triton'),
    load: [],
    modelControlKey: readKey(disk),
    wrapper: supervised(['sh', '-c', programs.files['start-triton.sh'], disk, ...withParent]),
    variables: { SUPERVISED: 'tritonserver' },
  });
  options.defer(() => triton.stop());

  // The agent's notes. Its files stay, so that they need not be downloaded again.
  if (await options.isFresh) rmSync(join(disk, 'notes.json'), { force: true });
  const [control = 0, read = 0] = await freePorts(2);
  const flags = {
    bucket: options.bucket,
    directory: disk,
    triton: triton.httpUrl,
    grpc: triton.grpcAddress,
    'control-port': String(control),
    port: String(read),
    host: '127.0.0.1',
    'load-timeout': String(options.loadTimeoutMs / 1000),
    'leave-seconds': String(options.leaveSeconds ?? 0),
  };
  const [command = '', ...args] = supervised([
    ...[process.execPath, ...programs.nodeFlags, join(own, 'agent.cjs')],
    ...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]),
  ]);
  const agent = new ManagedProcess({
    name: 'the release agent',
    command,
    args,
    env: {
      PATH: process.env['PATH'],
      HOME: disk,
      AWS_ENDPOINT_URL_S3: endpointUrl,
      AWS_REGION: LOCAL_REGION,
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    },
    logFile: join(directory, 'agent.log'),
    python: environment.python,
    deathSignal: 'SIGKILL',
  });
  const stop = (): Promise<void> => agent.stop(STOP_GRACE_MS);
  options.defer(stop);
  const readUrl = `http://127.0.0.1:${read}`;
  await agent.untilReady(() => isHealthy(`${readUrl}/state`), AGENT_START_MS, stop);
  const { ended, logFile } = agent;
  const agentUrl = `http://127.0.0.1:${control}`;
  const { httpUrl: name } = triton;
  return {
    triton: { ...triton, agentUrl },
    agent: {
      client: new AgentClient({ name, url: agentUrl }),
      ended,
      logFile,
      metricsUrl: `${readUrl}/metrics`,
    },
    modelsFolder: join(disk, 'models'),
  };
}

/** Time for the agent to end before it is killed. Triton goes on serving meanwhile. */
const STOP_GRACE_MS = 5000;

/**
 * Has the system kill a program when the shell that started it ends: that of supervise.sh, which the system kills when this
 * process ends, or that of start-triton.sh.
 */
const WITH_PARENT = 'python=$0; script=$1; shift; exec "$python" "$script" "$PPID" SIGKILL "$@"';
