/** Lends memory: who asks for more than is left waits, in the order of asking. Keeps the process small. */
export class Budget {
  private readonly waiting: { bytes: number; go: () => void }[] = [];
  private left: number;

  constructor(private readonly total: number) {
    this.left = total;
  }

  /** Takes so many bytes. Each must be followed by one release() of the same. */
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

  /** More than there is at all is lent when all else is given back. */
  private clamp(bytes: number): number {
    return Math.min(bytes, this.total);
  }
}
