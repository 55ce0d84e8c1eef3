import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { podPrograms } from '../../infra/triton/agent/program';
import { Progress } from '../../src/cli/progress';
import type { Replica } from '../../src/publish/cluster/source';
import { ensurePython } from '../../src/local/install/python';
import { ensureTriton } from '../../src/local/install/triton';
import { startPod, type Pod } from '../../src/local/pod';
import { LOCAL_CREDENTIALS } from '../../src/local/s3-server';
import { freeTritonPorts } from './triton';
import type { AgentEvent } from '../../src/agent/events';
import type { AgentState } from '../../src/release/agent-api';
import { formatLocation, type RepositoryLocation } from '../../src/release/location';
import type { S3Store } from '../../src/s3/store';
import { TritonHttpClient } from '../../src/triton/http';
import { findProcesses } from './processes';
import { publisher, sourceOf } from './publish';
import type { Scratch } from './temp-dir';
import { ONE_BY_ONE } from './triton';
import { until } from './wait-for';
import { setTimeout as sleep } from 'node:timers/promises';

/** Period in which an answer is correct, by performance.now(). */
interface Period {
  amount: number;
  from: number;
  to: number;
}

/** Pause of each client between two requests. */
const PAUSE_MS = 20;
/** Number of connections to each server, which are kept open. */
const CLIENTS = 3;

/** A server as a Service has it. */
export interface Target {
  name: string;
  url: string;
  /** Whether it gets requests now. */
  isInService: () => boolean;
  /** Whether its requests may fail, because a test has killed it. */
  mayFail: () => boolean;
}

/**
 * Continuously sends requests to adding models on several servers, while they are in the Service. Each answer must be that of
 * a version that was served at some time between the request and the answer.
 */
export class Traffic {
  /** Failed requests and wrong answers. */
  readonly faults: string[] = [];
  requests = 0;
  private readonly clients: TritonHttpClient[] = [];
  private readonly periods: Period[] = [];
  private stopping = false;
  private running: Promise<unknown> = Promise.resolve();
  private started = 0;

  constructor(
    private readonly targets: readonly Target[],
    private readonly models: readonly string[],
  ) {}

  /** From now on answers with this amount are correct, until `retire` is called. */
  admit(amount: number): void {
    this.periods.push({ amount, from: performance.now(), to: Infinity });
  }

  /** From now on answers with this amount are wrong. */
  retire(amount: number): void {
    for (const period of this.periods) {
      if (period.amount === amount && period.to === Infinity) period.to = performance.now();
    }
  }

  start(): void {
    this.started = performance.now();
    const asking = this.targets.flatMap((target) => Array.from({ length: CLIENTS }, (_, i) => this.ask(target, i)));
    this.running = Promise.all(asking);
  }

  async stop(): Promise<void> {
    this.stopping = true;
    await this.running;
    for (const client of this.clients) client.close();
  }

  private async ask(target: Target, seed: number): Promise<void> {
    const { name } = target;
    const client = new TritonHttpClient(target.url);
    this.clients.push(client);
    for (let i = seed; !this.stopping; i += 1) {
      await sleep(PAUSE_MS);
      if (!target.isInService()) continue;
      const model = this.models[i % this.models.length] as string;
      const value = i % 1000;
      const from = performance.now();
      try {
        const input = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(value) } as const;
        const { outputs } = await client.infer(model, [input]);
        const amount = Number(outputs[0]?.data[0]) - value;
        if (!this.isRight(amount, from)) this.fault(`${name}: ${model} added ${amount}`);
      } catch (error) {
        if (!target.mayFail()) this.fault(`${name}: ${model}: ${(error as Error).message}`);
      }
      this.requests += 1;
    }
  }

  private isRight(amount: number, from: number): boolean {
    const to = performance.now();
    return this.periods.some((period) => period.amount === amount && period.from < to && from < period.to);
  }

  private fault(text: string): void {
    if (this.faults.length < 20) this.faults.push(`${text} (after ${Math.round(performance.now() - this.started)} ms)`);
  }
}

/** Time between the file that takes a pod out of the Service, and the first load. The clients of tests notice at once. */
const LEAVE_SECONDS = 1;

/** The real programs of a pod: Triton and the release agent, which are started again when they end. */
export class TestPod {
  readonly client: TritonHttpClient;
  readonly replica: Replica;
  private isKilled = false;
  private seen = 0;

  private constructor(
    scratch: Scratch,
    readonly name: string,
    readonly directory: string,
    private readonly pod: Pod,
  ) {
    const { httpUrl, agentUrl } = pod.triton;
    this.client = new TritonHttpClient(httpUrl);
    scratch.defer(() => this.client.close());
    this.replica = { name, uid: name, url: agentUrl, tritonUrl: httpUrl, ready: true };
  }

  static async start(
    scratch: Scratch,
    name: string,
    endpointUrl: string,
    location: RepositoryLocation,
    loadTimeoutMs = 60_000,
  ): Promise<TestPod> {
    const environment = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
    const directory = join(scratch.directory, name);
    const pod = await startPod({
      ...{ environment, directory, endpointUrl, credentials: LOCAL_CREDENTIALS },
      installation: await ensureTriton(environment),
      ports: await freeTritonPorts(),
      startTimeoutMs: 300_000,
      programs: podPrograms(),
      bucket: formatLocation(location),
      loadTimeoutMs,
      leaveSeconds: LEAVE_SECONDS,
      isFresh: Promise.resolve(true),
      defer: (undo) => scratch.defer(undo),
      // With parallel loads this release of Triton may crash when one fails (docs/operations.md).
      extraArguments: [ONE_BY_ONE],
    });
    return new TestPod(scratch, name, directory, pod);
  }

  get flags(): string[] {
    return ['--triton', this.replica.tritonUrl, '--agent', this.replica.url];
  }

  getState(): Promise<AgentState> {
    return this.pod.agent.client.getState();
  }

  /** As the readiness probe sees it. A Triton that the test killed is out of the Service until it serves again. */
  get target(): Target {
    const serving = join(this.directory, 'agent', 'serving');
    return {
      name: this.name,
      url: this.replica.tritonUrl,
      isInService: () => !this.isKilled && existsSync(serving),
      mayFail: () => this.isKilled,
    };
  }

  /** Events of the agent's log since the last call. */
  events(): AgentEvent[] {
    const lines = readFileSync(this.pod.agent.logFile, 'utf8').split('\n').slice(0, -1);
    const fresh = lines.slice(this.seen);
    this.seen = lines.length;
    return fresh.map((line) => JSON.parse(line) as AgentEvent);
  }

  /** Models that the agent had Triton load since the last call of `events` or of this. */
  loads(): unknown[] {
    return this.events().flatMap(({ event, model }) => (event === 'load' ? [model] : []));
  }

  /**
   * Kills a program.
   * @param model one that is served before and after. Returns when it answers again
   */
  async kill(program: 'agent' | 'Triton', model: string): Promise<void> {
    const name = program === 'agent' ? /\/node$/ : /\/tritonserver$/;
    const pidsNow = (): number[] => findProcesses(name, `${this.directory}/`);
    const pids = pidsNow();
    if (pids.length === 0) throw new Error(`${this.name} has no ${program}`);
    this.isKilled = program === 'Triton';
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await until(`another ${program}`, () => pidsNow().some((pid) => !pids.includes(pid)));
    const answers = async (): Promise<boolean> =>
      typeof (await this.answer(model)) === 'number' && (await this.getState()).ready;
    await until('it serves again', answers, 180_000);
    this.isKilled = false;
  }

  async untilServes(release: string): Promise<void> {
    await until(`${this.name} serves ${release}`, async () => {
      const state = await this.getState();
      return state.ready && state.release === release && state.trial === null;
    });
  }

  /** The answer of an adding model to 1, or the error. */
  async answer(model: string, version?: number): Promise<number | string> {
    const input = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(1) } as const;
    try {
      const { outputs } = await this.client.infer(model, [input], version === undefined ? {} : { version });
      return Number(outputs[0]?.data[0]);
    } catch (error) {
      return (error as Error).message;
    }
  }
}

/** Publishes to these pods. */
export const podPublisher = (
  store: S3Store,
  location: RepositoryLocation,
  repository: string,
  pods: readonly TestPod[],
): ReturnType<typeof publisher> => publisher(store, location, repository, sourceOf(pods));
