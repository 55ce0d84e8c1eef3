/** Requests in flight at first. */
export const INITIAL_LIMIT = 64;

/** The limit is doubled while that raises the throughput by at least this factor. */
const WORTHWHILE_GAIN = 1.2;

/** Cost of a request without its bytes, in bytes: what a connection transfers in the meantime. */
const REQUEST_COST_BYTES = 64 * 1024;

/** Shortest time between two reductions of the limit, in ms. */
const LOWER_AGAIN_MS = 1000;

/**
 * Limits how many requests run at a time. Doubles the limit while requests wait and the throughput grows with it, so
 * until the network, the server or the processor is fully used. Lowers the limit when the server asks for fewer
 * requests, then raises it again in small steps.
 */
export class ConcurrencyLimiter {
  private readonly waiting: (() => void)[] = [];
  private running = 0;
  private limit: number;
  /** Successes since the limit changed, or since the last measurement. */
  private successes = 0;
  private lowered = -Infinity;
  /** Undefined after the limit was lowered, or when a higher one brought no gain. */
  private probe: Probe | undefined = new Probe();

  constructor(private most: number) {
    this.limit = Math.min(most, INITIAL_LIMIT);
  }

  /**
   * Waits for a slot, in the order of the calls. Returns undefined if a slot is free. Each call must be followed by one
   * release().
   */
  acquire(): Promise<void> | undefined {
    if (this.running < this.limit && this.waiting.length === 0) {
      this.running += 1;
      return undefined;
    }
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  release(): void {
    this.running -= 1;
    this.wake();
  }

  /** Halves the limit, at most once a second, because one overload makes many requests fail. */
  slowDown(): void {
    this.successes = 0;
    this.probe = undefined;
    if (performance.now() - this.lowered < LOWER_AGAIN_MS) return;
    this.lowered = performance.now();
    this.limit = Math.max(1, Math.floor(this.limit / 2));
  }

  /** @param bytes the bytes of the request and its answer */
  succeeded(bytes = 0): void {
    if (this.probe !== undefined) return this.grow(this.probe, bytes);
    if (this.limit >= this.most || this.lowered === -Infinity) return;
    this.successes += 1;
    if (this.successes < this.limit) return;
    this.successes = 0;
    this.limit += 1;
    this.wake();
  }

  private grow(probe: Probe, bytes: number): void {
    if (this.waiting.length === 0) return probe.restart(0);
    const gain = probe.add(bytes + REQUEST_COST_BYTES, this.limit);
    if (gain === undefined) return;
    if (gain < WORTHWHILE_GAIN) {
      this.limit = Math.max(1, Math.floor(this.limit / 2));
      this.most = this.limit;
    }
    if (this.limit >= this.most) {
      this.probe = undefined;
      return;
    }
    this.limit = Math.min(this.most, 2 * this.limit);
    // New connections take several round trips until their first answer.
    probe.restart(this.limit);
    this.wake();
  }

  private wake(): void {
    while (this.running < this.limit && this.waiting.length > 0) {
      this.running += 1;
      this.waiting.shift()?.();
    }
  }
}

/** Measures the throughput at one limit after the other. */
class Probe {
  private before = 0;
  private ignored = 0;
  private count = 0;
  private bytes = 0;
  private since = 0;

  /** Starts a measurement that ignores the next answers. */
  restart(ignored: number): void {
    this.ignored = ignored;
    this.count = 0;
    this.bytes = 0;
  }

  /**
   * Adds an answer.
   * @returns after `answers` answers, how many times the previous throughput they had
   */
  add(bytes: number, answers: number): number | undefined {
    if (this.ignored > 0) {
      this.ignored -= 1;
      return undefined;
    }
    if (this.count === 0) this.since = performance.now();
    else this.bytes += bytes;
    this.count += 1;
    if (this.count <= answers) return undefined;
    const rate = this.bytes / Math.max(performance.now() - this.since, 0.001);
    const gain = this.before === 0 ? Infinity : rate / this.before;
    this.before = rate;
    return gain;
  }
}
