import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONTROL_KEY, generateControlKey } from '../triton/control-key';

/** Name of the file with the key of Triton's model control API, in the agent's folder. */
export const KEY_FILE = 'control-key';

/**
 * The key of Triton's model control API, random for each pod. Triton's start script waits for this file, so it appears
 * with its content. Everyone in the containers of the pod can read it.
 */
export function readKey(directory: string): string {
  const path = join(directory, KEY_FILE);
  if (existsSync(path)) {
    const key = readFileSync(path, 'utf8').trim();
    if (CONTROL_KEY.test(key)) return key;
  }
  mkdirSync(directory, { recursive: true });
  const key = generateControlKey();
  writeFileSync(`${path}.unfinished`, `${key}\n`);
  chmodSync(`${path}.unfinished`, 0o444);
  renameSync(`${path}.unfinished`, path);
  return key;
}
