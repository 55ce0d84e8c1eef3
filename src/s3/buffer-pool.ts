import { PART_BYTES } from './checksum';

/** Smaller buffers are not counted. */
const COUNTED_FROM_BYTES = 1024 * 1024;

/**
 * Lends at most 8 large buffers at a time, however large the objects are. They are reused, because discarded ones would
 * stay in memory until garbage collection.
 */
export class BufferPool {
  private readonly free: (Buffer | undefined)[] = Array.from({ length: 8 });
  private readonly waiting: ((buffer: Buffer) => void)[] = [];

  /** Runs `work` with a buffer of `bytes` bytes, which is reused after `work` has settled. */
  async lend<T>(bytes: number, work: (buffer: Buffer) => Promise<T>): Promise<T> {
    if (bytes < COUNTED_FROM_BYTES) return work(Buffer.allocUnsafe(bytes));
    let buffer = this.free.length > 0 ? this.free.pop() : await new Promise<Buffer>((go) => this.waiting.push(go));
    if (buffer === undefined || buffer.byteLength < bytes) buffer = Buffer.allocUnsafeSlow(Math.max(bytes, PART_BYTES));
    try {
      return await work(buffer.subarray(0, bytes));
    } finally {
      const next = this.waiting.shift();
      if (next === undefined) this.free.push(buffer);
      else next(buffer);
    }
  }
}
