import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Bytes that a file or a folder takes on the disk; a file with several names counts once, a missing one as 0. */
export function diskUsage(path: string, seen = new Set<number>()): number {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined || seen.has(stat.ino)) return 0;
  seen.add(stat.ino);
  const parts = stat.isDirectory() ? readdirSync(path) : [];
  return parts.reduce((sum, name) => sum + diskUsage(join(path, name), seen), stat.blocks * 512);
}
