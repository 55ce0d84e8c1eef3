import { randomBytes } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Name of the file in the agent's folder by which the agent has Triton restarted: each change of its content asks for
 * one restart. A container cannot end a process of another one, and Triton's container reads this folder only.
 */
export const RESTART_FILE = 'restart-triton';

/** Asks the start script of Triton for a restart. */
export function requestRestart(directory: string): void {
  const path = join(directory, RESTART_FILE);
  writeFileSync(`${path}.unfinished`, `${randomBytes(8).toString('hex')}\n`);
  renameSync(`${path}.unfinished`, path);
}

/**
 * Start script of Triton's container, for `sh -c SCRIPT sh DIRECTORY PROGRAM ARGUMENT...`. It runs the program, and
 * starts it again when the agent asks for it. If the program ends by itself, the script ends with its exit status, so
 * that the kubelet restarts the container. A stop signal is passed on.
 */
export const RESTART_SCRIPT = `request() { cat "$directory/${RESTART_FILE}" 2>/dev/null; }
directory=$1
shift
trap 'stopped=1; kill -TERM "$program" 2>/dev/null' TERM INT
while :; do
  before=$(request)
  "$@" &
  program=$!
  while kill -0 "$program" 2>/dev/null && [ "$(request)" = "$before" ]; do
    sleep 1 &
    wait $!
  done
  asked=
  if [ "$(request)" != "$before" ]; then asked=1; kill -TERM "$program" 2>/dev/null; fi
  wait "$program"
  status=$?
  while kill -0 "$program" 2>/dev/null; do wait "$program"; status=$?; done
  if [ -n "$stopped" ] || [ -z "$asked" ]; then exit "$status"; fi
done
`;
