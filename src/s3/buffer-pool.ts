import { PART_BYTES } from './checksum';

/** Buffers of at least this size are reused, because discarded ones would stay in memory until garbage collection. */
const KEEP_FROM_BYTES = 1024 * 1024;

/** Lends buffers within a fixed memory budget, however large the objects are. */
export class BufferPool {
  private readonly kept: Buffer[] = [];
  private readonly waiting: { cost: number; go: () => void }[] = [];
  private left: number;

  /** @param keptBytes size of the buffers that are reused, and of the largest that are */
  constructor(
    private readonly budgetBytes = 8 * PART_BYTES,
    private readonly keptBytes = PART_BYTES,
  ) {
    this.left = budgetBytes;
  }

  /**
   * Runs `work` with a buffer of `bytes` bytes, which is reused after `work` has settled. Callers beyond the budget wait,
   * in the order of the calls.
   */
  async lend<T>(bytes: number, work: (buffer: Buffer) => Promise<T>): Promise<T> {
    const isKept = bytes >= KEEP_FROM_BYTES && bytes <= this.keptBytes;
    const cost = Math.min(isKept ? this.keptBytes : bytes, this.budgetBytes);
    await new Promise<void>((go) => {
      this.waiting.push({ cost, go });
      this.serve();
    });
    const buffer = isKept ? (this.kept.pop() ?? Buffer.allocUnsafeSlow(this.keptBytes)) : Buffer.allocUnsafe(bytes);
    try {
      return await work(buffer.subarray(0, bytes));
    } finally {
      if (isKept) this.kept.push(buffer);
      this.left += cost;
      this.serve();
    }
  }

  private serve(): void {
    for (let [next] = this.waiting; next !== undefined && next.cost <= this.left; [next] = this.waiting) {
      this.left -= next.cost;
      this.waiting.shift();
      next.go();
    }
  }
}
