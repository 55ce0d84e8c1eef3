import { mkdirSync } from 'node:fs';
import { Agent, type AgentOptions } from '../../../src/agent/agent';
import type { AgentEvent } from '../../../src/agent/events';
import { startControlApi } from '../../../src/agent/control-api';
import type { AgentState } from '../../../src/release/agent-api';
import { RuleTriton } from '../rule-triton';
import { Program, type Clock } from './clock';
import { MEMORY_ROOT } from './memory-disk';
import { TritonClient, type Network } from './network';
import type { SimulatedStore } from './simulated-store';

/** How a pod changed its mind, for the checks. */
export interface PodHooks {
  onEvent: (pod: Pod, event: AgentEvent) => void;
  onDeath: (pod: Pod) => void;
  onLoad: (pod: Pod, model: string, before: ReturnType<RuleTriton['models']['get']>) => void;
  onCrash: (error: unknown) => void;
}

/** A pod: a Triton, and an agent that may restart. The disk outlives both. */
export class Pod {
  readonly directory: string;
  readonly triton: RuleTriton;
  program: Program;
  agent: Agent | undefined;
  agentSince = 0;
  tritonSince = 0;
  isGone = false;
  /** Time until an agent that died starts again. */
  downMs = 1000;
  private isStarting = false;
  private incarnation = 0;
  private readonly tritonProgram: Program;

  constructor(
    readonly name: string,
    readonly uid: string,
    readonly since: number,
    private readonly seed: number,
    private readonly clock: Clock,
    private readonly network: Network,
    readonly store: SimulatedStore,
    private readonly options: Partial<AgentOptions> & Pick<AgentOptions, 'location'>,
    private readonly hooks: PodHooks,
  ) {
    this.directory = `${MEMORY_ROOT}/${uid}`;
    this.tritonProgram = new Program(`${name} triton`, seed);
    this.program = new Program(name, seed);
    mkdirSync(`${this.directory}/models`, { recursive: true });
    this.triton = new RuleTriton(`${this.directory}/models`);
    const load = this.triton.loadModel.bind(this.triton);
    this.triton.loadModel = async (model): Promise<void> => {
      const before = this.triton.models.get(model);
      await load(model).finally(() => hooks.onLoad(this, model, before));
    };
  }

  get state(): AgentState | undefined {
    return this.agent?.getState();
  }

  /** Whether the pod has been up, without interruption, for this time. */
  isUpFor(ms: number): boolean {
    const now = this.clock.now;
    const since = Math.max(this.agentSince, this.tritonSince, this.program.frozenUntil);
    return this.agent !== undefined && now - since >= ms;
  }

  /** Starts the agent, as a kubelet does: a new process on the same disk. */
  start(): void {
    if (this.isGone || this.isStarting || this.agent !== undefined) return;
    this.isStarting = true;
    const { wallOffset, frozenUntil } = this.program;
    this.incarnation += 1;
    const program = new Program(this.name, this.seed + this.incarnation);
    Object.assign(program, { wallOffset, frozenUntil });
    program.onDeath = (): void => {
      this.agent = undefined;
      this.isStarting = false;
      this.hooks.onDeath(this);
      this.clock.deliver(this.clock.outside, this.downMs, () => this.start());
      this.downMs = 1000;
    };
    this.program = program;
    this.clock.deliver(program, 0, () => {
      const agent = new Agent({
        loadTimeoutMs: 60_000,
        ...this.options,
        store: this.store.store,
        directory: this.directory,
        triton: new TritonClient(this.network, this.tritonProgram, this.triton),
        onEvent: (event) => {
          if (!program.isDead) this.hooks.onEvent(this, event);
        },
      });
      this.agent = agent;
      this.isStarting = false;
      this.agentSince = this.clock.now;
      agent.run(new AbortController().signal).catch((error: unknown) => {
        if (!program.isDead) this.hooks.onCrash(error);
      });
      void startControlApi(agent, 0);
    });
  }

  restartTriton(ms: number): void {
    this.tritonSince = this.clock.now + ms;
    this.clock.deliver(this.tritonProgram, 0, () => void this.triton.restart(ms));
  }

  freeze(ms: number, isSuspended: boolean): void {
    for (const program of [this.program, this.tritonProgram]) freeze(program, this.clock.now, ms, isSuspended);
  }

  delete(): void {
    this.isGone = true;
    this.program.die();
    this.tritonProgram.die();
  }
}

/** Stops a program for a time. If its machine is suspended, the monotonic clock and the timers stand still too. */
export function freeze(program: Program, now: number, ms: number, isSuspended: boolean): void {
  if (program.frozenUntil > now) return;
  program.frozenUntil = now + ms;
  if (isSuspended) program.slept += ms;
}
