import { randomBytes } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Name of the file in the agent's folder by which the agent has Triton restarted: each change of its content asks for
 * one restart. A container cannot end a process of another one, and Triton's container reads this folder only.
 */
export const RESTART_FILE = 'restart-triton';

/** Requests a restart from the start script of Triton, infra/triton/agent/start-triton.sh. */
export function requestRestart(directory: string): void {
  const path = join(directory, RESTART_FILE);
  writeFileSync(`${path}.unfinished`, `${randomBytes(8).toString('hex')}\n`);
  renameSync(`${path}.unfinished`, path);
}
