/** Shares a limited amount: request slots, or bytes of memory. Callers beyond the limit wait, in the order of the calls. */
export class Limiter {
  private readonly waiting: { amount: number; go: () => void }[] = [];
  private left: number;

  constructor(private readonly total: number) {
    this.left = total;
  }

  /** Each call must be followed by one release() of the same amount. Returns undefined if the amount is available. */
  acquire(amount: number): Promise<void> | undefined {
    const taken = Math.min(amount, this.total);
    if (this.waiting.length === 0 && taken <= this.left) {
      this.left -= taken;
      return undefined;
    }
    return new Promise((go) => this.waiting.push({ amount: taken, go }));
  }

  release(amount: number): void {
    this.left += Math.min(amount, this.total);
    for (let next = this.waiting[0]; next !== undefined && next.amount <= this.left; next = this.waiting[0]) {
      this.left -= next.amount;
      this.waiting.shift();
      next.go();
    }
  }
}
