/** Limits the memory in use. Requests beyond the limit wait, in the order of the calls. */
export class MemoryLimiter {
  private readonly waiting: { bytes: number; go: () => void }[] = [];
  private left: number;

  constructor(private readonly total: number) {
    this.left = total;
  }

  /**
   * Reserves `bytes`. Returns undefined if they are available at once. Each call must be followed by one release() of
   * the same number.
   */
  acquire(bytes: number): Promise<void> | undefined {
    const wanted = this.clamp(bytes);
    if (this.waiting.length === 0 && wanted <= this.left) {
      this.left -= wanted;
      return undefined;
    }
    return new Promise((go) => this.waiting.push({ bytes: wanted, go }));
  }

  release(bytes: number): void {
    this.left += this.clamp(bytes);
    for (let next = this.waiting[0]; next !== undefined && next.bytes <= this.left; next = this.waiting[0]) {
      this.left -= next.bytes;
      this.waiting.shift();
      next.go();
    }
  }

  /** A request for more than the total waits until all other memory is released. */
  private clamp(bytes: number): number {
    return Math.min(bytes, this.total);
  }
}
