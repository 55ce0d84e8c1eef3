import { setTimeout as sleep } from 'node:timers/promises';
import { TritonHttpClient } from '../../src/triton/http';

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
  private stopped = 0;

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
    this.stopped = performance.now();
    for (const client of this.clients) client.close();
  }

  /** Answers per second of all servers together. */
  get perSecond(): number {
    return Math.round((1000 * this.requests) / (this.stopped - this.started));
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
