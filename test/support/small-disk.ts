import { spawnSync } from 'node:child_process';

/** Mounts a file system in memory of size $1 at $2, then runs the remaining arguments. */
const SCRIPT = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && shift 2 && exec "$@"';

/**
 * The beginning of a command line that runs a program with a separate file system of `bytes` at `directory`. Only the
 * program and its children see this file system. It disappears when they end, so nothing has to be unmounted.
 */
export const onSmallDisk = (directory: string, bytes: number): string[] => [
  '/usr/bin/env',
  ...['unshare', '--mount', '--propagation', 'private', ...(process.getuid?.() === 0 ? [] : ['--map-root-user'])],
  ...['sh', '-c', SCRIPT, 'sh', String(bytes), directory],
];

/** Why this machine cannot make a small disk; undefined if it can. Needs root or user namespaces. */
export function whyNoSmallDisk(directory: string): string | undefined {
  const [command, ...args] = [...onSmallDisk(directory, 4096), 'true'] as [string];
  const { error, status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return status === 0 ? undefined : (error?.message ?? stderr).trim();
}
