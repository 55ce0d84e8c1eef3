import type { Compression } from './client';
import { compress, uncompress } from './compression';
import { roomFor } from './tensor';

/** In front of each message: whether it is compressed, and its length in four bytes. */
const PREFIX_BYTES = 5;

/** A message as gRPC sends it; its parts are not joined, as one may be large. */
export async function compressedFrame(parts: readonly Buffer[], compression: Compression): Promise<Buffer[]> {
  const message = await compress(compression, parts);
  return [prefix(1, message.length), message];
}

/** The same as it is. */
export function frame(parts: readonly Buffer[]): Buffer[] {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  return [prefix(0, length), ...parts];
}

function prefix(compressed: 0 | 1, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(PREFIX_BYTES);
  bytes[0] = compressed;
  bytes.writeUInt32BE(length, 1);
  return bytes;
}

/** A message that came, maybe compressed. */
export interface ReceivedMessage {
  compressed: boolean;
  bytes: Buffer;
}

/**
 * @param encoding the answer's `grpc-encoding`
 * @throws Error where it is none of ours, or the data is broken
 */
export async function uncompressedMessage(message: ReceivedMessage, encoding: string | undefined): Promise<Buffer> {
  return message.compressed ? uncompress(encoding ?? 'nothing', message.bytes) : message.bytes;
}

/** Puts messages together of the chunks in which they come. */
export class MessageReader {
  private readonly prefix = Buffer.allocUnsafe(PREFIX_BYTES);
  private prefixLength = 0;
  private message: Buffer | undefined;
  private filled = 0;

  constructor(private readonly onMessage: (message: ReceivedMessage) => void) {}

  push(chunk: Buffer): void {
    for (let offset = 0; offset < chunk.length;) {
      if (this.message === undefined) {
        const copied = chunk.copy(this.prefix, this.prefixLength, offset);
        offset += copied;
        this.prefixLength += copied;
        if (this.prefixLength < PREFIX_BYTES) return;
        // Tensors are the last thing in an answer: the elements of the last one need no copy then.
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

  /** Whether a message has begun that is not whole. */
  get isInside(): boolean {
    return this.prefixLength > 0;
  }

  private finish(bytes: Buffer): void {
    const compressed = this.prefix[0] === 1;
    this.message = undefined;
    this.prefixLength = 0;
    this.onMessage({ compressed, bytes });
  }
}
