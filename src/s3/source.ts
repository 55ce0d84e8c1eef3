import { closeSync, fstatSync, openSync, readSync, statSync, type Stats } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { UserError } from '../core/errors';
import { FileChangedError } from './errors';

/** Bytes to upload. Pieces can be read repeatedly and in any order. */
export interface UploadSource {
  readonly bytes: number;
  /** SHA-256 of each part, if they are known. */
  readonly digests?: readonly Buffer[] | undefined;
  /** Reads `buffer.byteLength` bytes from `start` on. The result may share the memory of `buffer`. */
  read(start: number, buffer: Buffer): Promise<Uint8Array>;
  /** @throws FileChangedError if the file may have changed while it was read */
  verify(): Promise<void>;
  close(): Promise<void>;
}

/** Hint if a file changed while it was read. */
export const WAIT_FOR_WRITER = 'run the command again when no program writes to the file';

/** Bytes in memory. */
export function memorySource(body: Uint8Array): UploadSource {
  return {
    bytes: body.byteLength,
    read: (start, buffer) => Promise.resolve(body.subarray(start, start + buffer.byteLength)),
    verify: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

/** A file to upload. */
export interface FileSource extends UploadSource {
  /** Keeps the digests of all parts, so that later uploads of the unchanged file need not compute them again. */
  keepDigests(digests: readonly Buffer[]): void;
}

/** Path -> the digests of its parts, and the state of the file that they belong to. */
const hashed = new Map<string, { state: Stats; digests: readonly Buffer[] }>();

/**
 * A file, opened once.
 * @throws FileChangedError if its size is not `bytes`
 */
export async function fileSource(path: string, bytes: number): Promise<FileSource> {
  const handle = await open(path, 'r').catch((error: unknown) => cannotRead(path, error));
  try {
    const before = await handle.stat();
    checkSize(path, before, bytes);
    const known = hashed.get(path);
    return {
      bytes,
      digests: known !== undefined && isSame(known.state, before) ? known.digests : undefined,
      keepDigests: (digests) => hashed.set(path, { state: before, digests }),
      read: async (start, buffer) => {
        await readFully(handle, path, start, buffer);
        return buffer;
      },
      verify: async () => {
        checkSame(path, before, await handle.stat());
        checkSame(path, before, statSync(path, { throwIfNoEntry: false }));
      },
      close: () => handle.close(),
    };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * Reads a small file synchronously, because that takes a fifth of the time for files of a few KiB.
 * @throws FileChangedError
 */
export function readSmallFile(path: string, buffer: Buffer): void {
  withDescriptor(path, (descriptor) => {
    const before = fstatSync(descriptor);
    checkSize(path, before, buffer.byteLength);
    for (let at = 0; at < buffer.byteLength;) {
      const count = readSync(descriptor, buffer, at, buffer.byteLength - at, at);
      if (count === 0) shorter(path);
      at += count;
    }
    checkSame(path, before, fstatSync(descriptor));
  });
}

/**
 * Reads a small file with as few system calls as possible, because thousands of files are read for comparison. Files to
 * upload are read by readSmallFile. The result is valid until the next call.
 * @throws FileChangedError if its size is not `bytes`
 */
export function readWholeFile(path: string, bytes: number): Uint8Array {
  // Reading one byte more detects a file that has grown.
  if (whole.byteLength <= bytes) whole = Buffer.allocUnsafeSlow(2 * bytes + 1);
  return withDescriptor(path, (descriptor) => {
    const count = readSync(descriptor, whole, 0, bytes + 1, 0);
    if (count !== bytes) {
      throw new FileChangedError(`${path} no longer has ${bytes} bytes: it changed in the meantime`, {
        hint: WAIT_FOR_WRITER,
      });
    }
    return whole.subarray(0, bytes);
  });
}

/** Buffer shared by all calls of readWholeFile. */
let whole = Buffer.alloc(0);

function withDescriptor<T>(path: string, work: (descriptor: number) => T): T {
  let descriptor: number;
  try {
    descriptor = openSync(path, 'r');
  } catch (error) {
    cannotRead(path, error);
  }
  try {
    return work(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

async function readFully(handle: FileHandle, path: string, start: number, buffer: Buffer): Promise<void> {
  for (let at = 0; at < buffer.byteLength;) {
    const { bytesRead } = await handle.read(buffer, at, buffer.byteLength - at, start + at);
    if (bytesRead === 0) shorter(path);
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

function shorter(path: string): never {
  throw new FileChangedError(`${path} became shorter while it was read`, { hint: WAIT_FOR_WRITER });
}

function cannotRead(path: string, error: unknown): never {
  throw new UserError(`cannot read ${path}: ${(error as Error).message}`, { cause: error });
}
