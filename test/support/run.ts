import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { paths } from '../../scripts/lib/paths';

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A command that ended, maybe by a signal: then `code` is null. */
export interface Ended extends Finished {
  signal: NodeJS.Signals | null;
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
  const { child, ended } = spawnCommandLine(command, args, env);
  const finished = ended.then(({ code, stdout, stderr }) => ({ code, stdout, stderr }));
  return { kill: (signal) => child.kill(signal), finished };
}

/** The process itself. */
export function spawnCommandLine(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [join(paths.scripts, 'run.mjs'), command, ...args], {
    cwd: paths.root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => (output[name] += text));
  }
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, ...output }));
  });
  return { child, ended };
}
