import type { SeededRandom } from '../soak';

// Jest's sandbox makes access to globals slow.
const { log, max, min } = Math;
const NEVER = Infinity;

/** A model and its requests, which are spread evenly over the pods. */
export interface Model {
  name: string;
  version?: string;
  /** Requests per second in the whole fleet. */
  rate: (now: number) => number;
  /** Time to compute a batch. */
  seconds: (batch: number, now: number) => number;
  instances?: number;
  /** Largest batch. Default: 1. */
  maxBatch?: number;
  /** `max_queue_delay_microseconds`, in seconds. */
  delaySeconds?: number;
  /** Clients cancel a request that waited so long. Default: 10. */
  patienceSeconds?: number;
  /** `default_timeout_microseconds` with REJECT, in seconds. */
  rejectSeconds?: number;
}

/** A request that waited longer was not served in time. */
const LATE_SECONDS = 0.1;

/** What happened to the requests of one or several queues. */
export interface Outcome {
  requests: number;
  /** Requests that waited over 100 ms, or were never computed. */
  late: number;
}

const ZERO = {
  success: 0,
  rejected: 0,
  canceled: 0,
  queueMicroseconds: 0,
  requestMicroseconds: 0,
  executions: 0,
  pending: 0,
};

/** What Triton reports of a model. All but `pending` only grow. */
export type Counters = typeof ZERO;

/** One model in one pod: its queue, its instances and its counters. */
export class Queue {
  readonly counters = { ...ZERO };
  private waiting: number[] = [];
  private first = 0;
  private readonly running: { end: number; starts: number[]; began: number }[];

  constructor(
    readonly model: Model,
    private readonly random: SeededRandom,
    private readonly outcome: Outcome,
  ) {
    this.running = Array.from({ length: model.instances ?? 1 }, () => ({ end: NEVER, starts: [], began: 0 }));
  }

  /** Runs from `from` until `until` with `rate` requests per second. */
  advance(from: number, until: number, rate: number): void {
    const gap = (): number => (rate > 0 ? -log(1 - this.random.fraction()) / rate : NEVER);
    let arrival = from + gap();
    let clock = from;
    for (;;) {
      let next = this.running[0] as (typeof this.running)[number];
      let idle: typeof next | undefined;
      for (const instance of this.running) {
        if (instance.end < next.end) next = instance;
        if (instance.end === NEVER) idle = instance;
      }
      const due = idle === undefined || this.counters.pending === 0 ? NEVER : max(clock, this.dueAt());
      const now = min(next.end, arrival, due);
      if (now > until) return;
      clock = now;
      if (now === next.end) this.complete(next);
      else if (now === arrival) {
        this.waiting.push(now);
        this.counters.pending += 1;
        arrival += gap();
      } else if (idle !== undefined) this.start(idle, now);
    }
  }

  /** When an idle instance takes the requests that wait. */
  private dueAt(): number {
    const { maxBatch = 1, delaySeconds = 0 } = this.model;
    return this.counters.pending >= maxBatch ? 0 : (this.waiting[this.first] ?? NEVER) + delaySeconds;
  }

  private complete(instance: (typeof this.running)[number]): void {
    for (const arrival of instance.starts) {
      this.counters.queueMicroseconds += (instance.began - arrival) * 1e6;
      this.counters.requestMicroseconds += (instance.end - arrival) * 1e6;
    }
    this.counters.success += instance.starts.length;
    this.counters.executions += 1;
    instance.end = NEVER;
  }

  private start(instance: (typeof this.running)[number], now: number): void {
    const { maxBatch = 1, patienceSeconds = 10, rejectSeconds = NEVER } = this.model;
    instance.starts = [];
    while (this.counters.pending > 0 && instance.starts.length < maxBatch) {
      const arrival = this.waiting[this.first++] ?? 0;
      const waited = now - arrival;
      this.counters.pending -= 1;
      this.outcome.requests += 1;
      if (waited > LATE_SECONDS) this.outcome.late += 1;
      if (waited > rejectSeconds) this.counters.rejected += 1;
      else if (waited > patienceSeconds) this.counters.canceled += 1;
      else instance.starts.push(arrival);
    }
    if (this.first > 1000) {
      this.waiting = this.waiting.slice(this.first);
      this.first = 0;
    }
    if (instance.starts.length === 0) return;
    instance.began = now;
    instance.end = now + this.model.seconds(instance.starts.length, now);
  }
}
