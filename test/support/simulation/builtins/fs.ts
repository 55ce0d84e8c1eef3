import * as real from 'fs';
import { disk, MEMORY_ROOT, type MemoryStats } from '../memory-disk';

/** `node:fs` with the folder /simulated in memory: the functions that this project calls. */
export * from 'fs';

const isInMemory = (path: unknown): path is string => typeof path === 'string' && path.startsWith(MEMORY_ROOT);

/** Calls the first function if the first argument is in memory, else the real one. */
function choose<F extends (...args: never[]) => unknown>(memory: F, actual: unknown): F {
  return ((...args: Parameters<F>) => (isInMemory(args[0]) ? memory : (actual as F))(...args)) as F;
}

interface StatOptions {
  throwIfNoEntry?: boolean;
}

const stat =
  (follow: boolean) =>
  (path: string, { throwIfNoEntry = true }: StatOptions = {}): MemoryStats | undefined => {
    const found = disk.stat(path, follow);
    if (found === undefined && throwIfNoEntry) throw new Error(`ENOENT: ${path}`);
    return found;
  };

const text = (body: Buffer, options?: string | { encoding?: string }): string | Buffer =>
  options === undefined ? body : body.toString('utf8');

export const existsSync = choose((path: string) => disk.exists(path), real.existsSync);
export const statSync = choose(stat(true), real.statSync);
export const lstatSync = choose(stat(false), real.lstatSync);
export const readdirSync = choose((path: string) => disk.list(path), real.readdirSync);
export const readlinkSync = choose((path: string) => disk.readLink(path), real.readlinkSync);
export const readFileSync = choose(
  (path: string, options?: string | { encoding?: string }) => text(disk.read(path), options),
  real.readFileSync,
);
export const mkdirSync = choose((path: string) => disk.makeFolder(path), real.mkdirSync);
export const writeFileSync = choose(
  (path: string, body: string | Uint8Array) => void disk.write(path, Buffer.from(body as string)),
  real.writeFileSync,
);
export const symlinkSync = (target: string, path: string): void => disk.link(target, path);
export const renameSync = choose((from: string, to: string) => disk.rename(from, to), real.renameSync);
export const rmSync = choose(
  (path: string, options?: { recursive?: boolean; force?: boolean }) => disk.remove(path, options ?? {}),
  real.rmSync,
);
export const utimesSync = choose(
  (path: string, _: number, seconds: number) => disk.setTime(path, seconds),
  real.utimesSync,
);
export const statfsSync = choose(() => ({ bavail: 1e9, bsize: 4096, blocks: 1e9, bfree: 1e9 }), real.statfsSync);
