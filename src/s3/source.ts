import { statSync, type Stats } from 'node:fs';
import { open } from 'node:fs/promises';
import { UserError } from '../core/errors';
import { checksumOfParts, sha256, splitIntoParts } from './checksum';
import { FileChangedError } from './errors';

/** Bytes to upload. Pieces can be read repeatedly and in any order. */
export interface UploadSource {
  readonly bytes: number;
  /** SHA-256 of each part, if they are known. */
  readonly digests?: readonly Buffer[] | undefined;
  /** Reads `buffer.byteLength` bytes from `start` on. The result may share the memory of `buffer`. */
  read: (start: number, buffer: Buffer) => Promise<Uint8Array>;
  /** @throws FileChangedError if the file may have changed while it was read */
  verify?: () => Promise<void>;
}

/** Hint if a file changed while it was read. */
export const WAIT_FOR_WRITER = 'run the command again when no program writes to the file';

/** Path -> the digests of its parts, and the state of the file that they belong to. An upload needs them again. */
const hashed = new Map<string, { state: Stats; digests: readonly Buffer[] }>();

/**
 * The checksum that S3 stores for a file when S3Store uploads it.
 * @throws FileChangedError if the file has another size, or changed while it was read
 */
export async function checksumOfFile(path: string, bytes: number): Promise<string> {
  return withFile(path, bytes, async (source, state) => {
    if (source.digests !== undefined) return checksumOfParts(source.digests);
    const parts = splitIntoParts(bytes);
    const buffer = Buffer.allocUnsafeSlow(parts[0]?.bytes ?? 0);
    const digests: Buffer[] = [];
    for (const { start, bytes: length } of parts) {
      digests.push(sha256(await source.read(start, buffer.subarray(0, length))));
    }
    await source.verify?.();
    hashed.set(path, { state, digests });
    return checksumOfParts(digests);
  });
}

/**
 * Opens a file once.
 * @throws FileChangedError if its size is not `bytes`
 */
export async function withFile<T>(
  path: string,
  bytes: number,
  work: (source: UploadSource, state: Stats) => Promise<T>,
): Promise<T> {
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
    const known = hashed.get(path);
    const source: UploadSource = {
      bytes,
      digests: known !== undefined && isSame(known.state, before) ? known.digests : undefined,
      read: async (start, buffer) => {
        for (let at = 0; at < buffer.byteLength;) {
          const { bytesRead } = await handle.read(buffer, at, buffer.byteLength - at, start + at);
          if (bytesRead === 0) throw changed('became shorter while it was read');
          at += bytesRead;
        }
        return buffer;
      },
      verify: async () => {
        const now = statSync(path, { throwIfNoEntry: false });
        if (now === undefined || !isSame(before, now) || !isSame(before, await handle.stat()))
          throw changed('changed while it was read');
      },
    };
    return await work(source, before);
  } finally {
    await handle.close();
  }
}

const isSame = (a: Stats, b: Stats): boolean =>
  (['size', 'mtimeMs', 'ctimeMs', 'ino', 'dev'] as const).every((field) => a[field] === b[field]);
