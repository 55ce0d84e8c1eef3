import { statSync, type Stats } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
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
    throw new UserError(`cannot read ${path}: ${(cause as Error).message}`, { cause });
  });
  try {
    const before = await handle.stat();
    checkSize(path, before, bytes);
    const known = hashed.get(path);
    const source: UploadSource = {
      bytes,
      digests: known !== undefined && isSame(known.state, before) ? known.digests : undefined,
      read: async (start, buffer) => {
        await readFully(handle, path, start, buffer);
        return buffer;
      },
      verify: async () => {
        checkSame(path, before, await handle.stat());
        checkSame(path, before, statSync(path, { throwIfNoEntry: false }));
      },
    };
    return await work(source, before);
  } finally {
    await handle.close();
  }
}

async function readFully(handle: FileHandle, path: string, start: number, buffer: Buffer): Promise<void> {
  for (let at = 0; at < buffer.byteLength;) {
    const { bytesRead } = await handle.read(buffer, at, buffer.byteLength - at, start + at);
    if (bytesRead === 0)
      throw new FileChangedError(`${path} became shorter while it was read`, { hint: WAIT_FOR_WRITER });
    at += bytesRead;
  }
}

function checkSize(path: string, stats: Stats, bytes: number): void {
  if (!stats.isFile()) throw new UserError(`${path} is not a file`);
  if (stats.size !== bytes) {
    throw new FileChangedError(`${path} has ${stats.size} bytes instead of ${bytes}: it changed in the meantime`, {
      hint: WAIT_FOR_WRITER,
    });
  }
}

function checkSame(path: string, before: Stats, after: Stats | undefined): void {
  if (after === undefined || !isSame(before, after)) {
    throw new FileChangedError(`${path} changed while it was read`, { hint: WAIT_FOR_WRITER });
  }
}

const isSame = (before: Stats, after: Stats): boolean =>
  after.size === before.size &&
  after.mtimeMs === before.mtimeMs &&
  after.ctimeMs === before.ctimeMs &&
  after.ino === before.ino &&
  after.dev === before.dev;
