import { roomFor } from './tensor';

/** Prefix of each message: one byte that states whether the message is compressed, which it is not, and four bytes for its length. */
const PREFIX_BYTES = 5;

/** A message as gRPC sends it. Its parts are not joined, because one may be large. */
export function frame(parts: readonly Buffer[]): Buffer[] {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(length, 1);
  return [prefix, ...parts];
}

/** Assembles messages from the chunks in which they arrive. */
export class MessageReader {
  private readonly prefix = Buffer.allocUnsafe(PREFIX_BYTES);
  private prefixLength = 0;
  private message: Buffer | undefined;
  private filled = 0;

  constructor(private readonly onMessage: (message: Buffer) => void) {}

  push(chunk: Buffer): void {
    for (let offset = 0; offset < chunk.length;) {
      if (this.message === undefined) {
        const copied = chunk.copy(this.prefix, this.prefixLength, offset);
        offset += copied;
        this.prefixLength += copied;
        if (this.prefixLength < PREFIX_BYTES) return;
        // Tensors come last in an answer. Aligning the end of the answer avoids a copy of the last tensor's elements.
        const length = this.prefix.readUInt32BE(1);
        this.message = roomFor(length, length);
        this.filled = 0;
      }
      const copied = chunk.copy(this.message, this.filled, offset);
      offset += copied;
      this.filled += copied;
      if (this.filled === this.message.length) this.finish(this.message);
    }
  }

  /** Whether a message has begun and is not complete. */
  get isInside(): boolean {
    return this.prefixLength > 0;
  }

  private finish(bytes: Buffer): void {
    this.message = undefined;
    this.prefixLength = 0;
    this.onMessage(bytes);
  }
}
