import type { ChildProcess } from 'node:child_process';

/** A run of python/environment.py, which ends with this process. */
export interface PythonSetup {
  /** The flags of the run, joined with spaces. */
  readonly flags: string;
  readonly child: ChildProcess;
  /** What it does now. */
  readonly detail: string;
  onDetail: (detail: string) => void;
  /** The result that the script prints. An error has a message for users, and perhaps a hint. */
  readonly finished: Promise<unknown>;
}
/** Returns the launcher's run, once, or else starts a run with `flags` of environment.py in `directory`. */
export function takeSetup(directory: string, flags: readonly string[]): PythonSetup;
