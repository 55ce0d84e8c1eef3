import { existsSync, mkdirSync, rmSync, statfsSync, utimesSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../core/errors';
import { formatBytes } from '../../core/format';
import { tryLock } from '../../core/lock.cjs';

const COMPLETE = '.complete';

/** Folder for downloads and builds, shared by all checkouts: `${XDG_CACHE_HOME:-~/.cache}/triton-serving`. */
export function cacheRoot(): string {
  const base = process.env['XDG_CACHE_HOME'];
  return join(base !== undefined && base !== '' ? base : join(homedir(), '.cache'), 'triton-serving');
}

/** Whether `name` was built completely. */
export function isCached(name: string): boolean {
  const mark = join(cacheRoot(), name, COMPLETE);
  if (!existsSync(mark)) return false;
  utimesSync(mark, new Date(), new Date()); // "npm run clean" deletes what was not used.
  return true;
}

/**
 * Returns the folder `name` of the cache; `build` creates the folder if it is missing. An interrupted build leaves no
 * completion mark, so the next caller builds again. Two processes never build the same folder concurrently.
 */
export async function cached(name: string, build: (directory: string) => Promise<void>): Promise<string> {
  const directory = join(cacheRoot(), name);
  if (isCached(name)) return directory;
  const release = await acquireLock(`${directory}.lock`, name);
  try {
    if (isCached(name)) return directory;
    rmSync(directory, { recursive: true, force: true });
    makeDirectory(directory);
    await build(directory);
    writeFileSync(join(directory, COMPLETE), '');
    return directory;
  } finally {
    release();
  }
}

/**
 * Acquires the lock file `path`; waits while the process named in the file is alive.
 * @returns the function that releases the lock
 */
export async function acquireLock(
  path: string,
  what: string,
  options: { wait?: boolean; signal?: AbortSignal | undefined } = {},
): Promise<() => void> {
  for (let announced = false; ; announced = true) {
    const lock = tryToLock(path);
    if ('release' in lock) {
      const { release } = lock;
      process.once('exit', release);
      return () => {
        process.off('exit', release);
        release();
      };
    }
    const { owner } = lock;
    if (options.wait === false) {
      throw new UserError(`${what} is in use by process ${owner}`, { hint: `stop that process first: kill ${owner}` });
    }
    if (!announced) process.stderr.write(`Waiting for process ${owner}, which prepares ${what} ...\n`);
    await sleep(500, undefined, { signal: options.signal });
  }
}

function tryToLock(path: string): ReturnType<typeof tryLock> {
  makeDirectory(dirname(path));
  try {
    return tryLock(path);
  } catch (error) {
    throw cannotWrite(path, error);
  }
}

/** Creates a folder of the cache, with its parents. */
export function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    throw cannotWrite(path, error);
  }
}

function cannotWrite(path: string, cause: unknown): UserError {
  return new UserError(`cannot write ${path}: ${(cause as Error).message}`, {
    hint: 'check the permissions and free space of the cache folder, or choose another with XDG_CACHE_HOME',
    cause,
  });
}

/** Fails early if `directory`'s file system has less than `bytes` free. */
export function requireFreeSpace(directory: string, bytes: number, what: string): void {
  makeDirectory(directory);
  const { bavail, bsize } = statfsSync(directory);
  const free = bavail * bsize;
  if (free < bytes) {
    throw new UserError(`${what} needs ${formatBytes(bytes)} in ${directory}, but only ${formatBytes(free)} are free`, {
      hint: 'free disk space, or choose another disk with XDG_CACHE_HOME',
    });
  }
}
