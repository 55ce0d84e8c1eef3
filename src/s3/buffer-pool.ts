import { PART_BYTES } from './checksum';
import { Limiter } from './limiter';

/** Buffers of at least this size are reused, because discarded ones would stay in memory until garbage collection. */
const KEEP_FROM_BYTES = 1024 * 1024;

/** Lends buffers within a fixed memory budget, however large the objects are. */
export class BufferPool {
  private readonly budget: Limiter;
  private readonly kept: Buffer[] = [];
  /** Parts of the smallest size that fit into the budget. */
  readonly parts: number;

  /** @param keptBytes size of the buffers that are reused, and of the largest that are */
  constructor(
    budgetBytes = 8 * PART_BYTES,
    private readonly keptBytes = PART_BYTES,
  ) {
    this.budget = new Limiter(budgetBytes);
    this.parts = Math.max(1, Math.floor(budgetBytes / PART_BYTES));
  }

  /** Runs `work` with a buffer of `bytes` bytes. The buffer is reused after `work` has settled. */
  async lend<T>(bytes: number, work: (buffer: Buffer) => Promise<T>): Promise<T> {
    const cost = bytes >= KEEP_FROM_BYTES ? Math.max(bytes, this.keptBytes) : bytes;
    const turn = this.budget.acquire(cost);
    if (turn !== undefined) await turn;
    const keep = bytes >= KEEP_FROM_BYTES && bytes <= this.keptBytes;
    const buffer = keep ? (this.kept.pop() ?? Buffer.allocUnsafeSlow(this.keptBytes)) : Buffer.allocUnsafe(bytes);
    try {
      return await work(keep ? buffer.subarray(0, bytes) : buffer);
    } finally {
      if (keep) this.kept.push(buffer);
      this.budget.release(cost);
    }
  }
}
