import type { Compression } from './client';
import { compress, uncompress } from './compression';
import { roomFor } from './tensor';

/** Prefix of each message: one byte that states whether the message is compressed, and four bytes for its length. */
const PREFIX_BYTES = 5;

/**
 * A compressed message as gRPC sends it. The prefix and the message are not joined, because the message may be large.
 */
export async function compressedFrame(parts: readonly Buffer[], compression: Compression): Promise<Buffer[]> {
  const message = await compress(compression, parts);
  return [prefix(1, message.length), message];
}

/** An uncompressed message as gRPC sends it. Its parts are not joined, because one may be large. */
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

/** A received message, which may be compressed. */
export interface ReceivedMessage {
  compressed: boolean;
  bytes: Buffer;
}

/**
 * @param encoding the answer's `grpc-encoding`
 * @throws Error if the encoding is not supported or the data is corrupt
 */
export async function uncompressedMessage(message: ReceivedMessage, encoding: string | undefined): Promise<Buffer> {
  return message.compressed ? uncompress(encoding ?? 'nothing', message.bytes) : message.bytes;
}

/** Assembles messages from the chunks in which they arrive. */
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
    const compressed = this.prefix[0] === 1;
    this.message = undefined;
    this.prefixLength = 0;
    this.onMessage({ compressed, bytes });
  }
}
