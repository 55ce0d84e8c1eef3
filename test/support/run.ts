import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { paths } from '../../scripts/lib/paths';

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs one of our commands as a user does, by its npm script's program. */
export function runCommandLine(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(paths.scripts, 'run.mjs'), command, ...args], {
      cwd: paths.root,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const finished: Finished = { code: null, stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (text: string) => (finished.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (finished.stderr += text));
    child.once('error', reject);
    child.once('close', (code) => resolve({ ...finished, code }));
  });
}
