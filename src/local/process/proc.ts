import { readdirSync, readFileSync } from 'node:fs';

/** Ids of all running processes (Linux). */
export const processIds = (): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);

/** Content of a file in /proc/PID; undefined if the process has ended or belongs to another user. */
export function readProcess(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined;
  }
}

/**
 * Parent of a process; NaN if the process has ended. In `stat`, state and parent follow the name, which is in
 * parentheses and may contain any character.
 */
export const getParent = (pid: number): number => Number(/^.*\) \S (\d+)/s.exec(readProcess(pid, 'stat') ?? '')?.[1]);
