import { spawnSync } from 'node:child_process';

/** Mounts a file system in memory of the size $1 at $2, then runs what follows there. */
const SCRIPT = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && shift 2 && exec "$@"';

/**
 * The beginning of a command line that runs a program with a file system of its own at `directory`, of `bytes`. Nobody
 * but the program and its children sees it, and it ends with them, however they end: nothing has to be unmounted.
 */
export const onSmallDisk = (directory: string, bytes: number): string[] => [
  '/usr/bin/env',
  ...['unshare', '--mount', '--propagation', 'private'],
  ...['sh', '-c', SCRIPT, 'sh', String(bytes), directory],
];

/** Why there can be no small disk here; undefined where there can: it takes root, and a container that may mount. */
export function whyNoSmallDisk(directory: string): string | undefined {
  const [command, ...args] = [...onSmallDisk(directory, 4096), 'true'] as [string];
  const { error, status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return status === 0 ? undefined : (error?.message ?? stderr).trim();
}
