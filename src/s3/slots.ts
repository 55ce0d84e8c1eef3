/** After S3 asked to slow down, it is asked again only after this long before the limit is lowered further. */
const LOWER_AGAIN_MS = 1000;

/** Lets so many requests run at a time, fewer for a while after the server asked for that. */
export class Slots {
  private readonly waiting: (() => void)[] = [];
  private running = 0;
  private limit: number;
  private successes = 0;
  private lowered = -Infinity;

  constructor(private readonly most: number) {
    this.limit = most;
  }

  /** Waits for its turn, in the order of asking. Each must be followed by one release(). */
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

  /** Halves the limit, at most once a second: one overload answers many requests. */
  slowDown(): void {
    this.successes = 0;
    if (performance.now() - this.lowered < LOWER_AGAIN_MS) return;
    this.lowered = performance.now();
    this.limit = Math.max(1, Math.floor(this.limit / 2));
  }

  /** As many successes as the limit is high raise it by one. */
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
