/** Shortest time between two reductions of the limit, in ms. */
const LOWER_AGAIN_MS = 1000;

/**
 * Limits how many requests run at a time. Lowers the limit when the server asks for fewer requests, then raises it
 * again.
 */
export class ConcurrencyLimiter {
  private readonly waiting: (() => void)[] = [];
  private running = 0;
  private limit: number;
  private successes = 0;
  private lowered = -Infinity;

  constructor(private readonly most: number) {
    this.limit = most;
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
    if (performance.now() - this.lowered < LOWER_AGAIN_MS) return;
    this.lowered = performance.now();
    this.limit = Math.max(1, Math.floor(this.limit / 2));
  }

  /** Raises the limit by one when the number of successes reaches the limit. */
  succeeded(): void {
    if (this.limit === this.most) return;
    this.successes += 1;
    if (this.successes < this.limit) return;
    this.successes = 0;
    this.limit += 1;
    this.wake();
  }

  private wake(): void {
    while (this.running < this.limit && this.waiting.length > 0) {
      this.running += 1;
      this.waiting.shift()?.();
    }
  }
}
