import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { paths } from '../../scripts/lib/paths';

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Started {
  kill(signal: NodeJS.Signals): void;
  finished: Promise<Finished>;
}

/** Runs one of our commands as a user does, by its npm script's program. */
export function runCommandLine(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Finished> {
  return startCommandLine(command, args, env).finished;
}

/** The same, for one that is to get a signal. */
export function startCommandLine(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Started {
  const child = spawn(process.execPath, [join(paths.scripts, 'run.mjs'), command, ...args], {
    cwd: paths.root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output: Finished = { code: null, stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const finished = new Promise<Finished>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ ...output, code }));
  });
  return { kill: (signal) => child.kill(signal), finished };
}
