import { open } from 'node:fs/promises';
import { UserError } from '../core/errors';
import { checksumOfParts, sha256, splitIntoParts } from './checksum';
import { FileChangedError } from './errors';

/** Reads `buffer.byteLength` bytes from `start` on. The result may share the memory of `buffer`. */
export type ReadBytes = (start: number, buffer: Buffer) => Promise<Uint8Array>;

/** Hint if a file changed while it was read. */
export const WAIT_FOR_WRITER = 'run the command again when no program writes to the file';

/**
 * The checksum that S3 stores for a file when S3Store uploads it.
 * @throws FileChangedError if the file has another size, or changed while it was read
 */
export async function checksumOfFile(path: string, bytes: number): Promise<string> {
  return withFile(path, bytes, async (read) => {
    const parts = splitIntoParts(bytes);
    const buffer = Buffer.allocUnsafeSlow(parts[0]?.bytes ?? 0);
    const digests: Buffer[] = [];
    for (const { start, bytes: length } of parts) digests.push(sha256(await read(start, buffer.subarray(0, length))));
    return checksumOfParts(digests);
  });
}

/**
 * Opens a file once.
 * @param work may read pieces repeatedly and in any order
 * @throws FileChangedError if its size is not `bytes`, or it changes before the last piece is read
 */
export async function withFile<T>(path: string, bytes: number, work: (read: ReadBytes) => Promise<T>): Promise<T> {
  const handle = await open(path, 'r').catch((cause: unknown) => {
    const { code, message } = cause as NodeJS.ErrnoException;
    throw new UserError(`cannot read ${path}: ${message}`, {
      hint: code === 'ENOENT' ? WAIT_FOR_WRITER : undefined,
      cause,
    });
  });
  const changed = (how: string): FileChangedError => new FileChangedError(`${path} ${how}`, { hint: WAIT_FOR_WRITER });
  try {
    const before = await handle.stat();
    if (!before.isFile()) throw new UserError(`${path} is not a file`);
    if (before.size !== bytes)
      throw changed(`has ${before.size} bytes instead of ${bytes}: it changed in the meantime`);
    return await work(async (start, buffer) => {
      for (let at = 0; at < buffer.byteLength;) {
        const { bytesRead } = await handle.read(buffer, at, buffer.byteLength - at, start + at);
        if (bytesRead === 0) throw changed('became shorter while it was read');
        at += bytesRead;
      }
      const { size, mtimeMs } = await handle.stat();
      if (size !== bytes || mtimeMs !== before.mtimeMs) throw changed('changed while it was read');
      return buffer;
    });
  } finally {
    await handle.close();
  }
}
