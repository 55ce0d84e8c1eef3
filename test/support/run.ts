import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { paths } from '../../src/core/paths';

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A command that ended. If a signal ended it, `code` is null. */
export interface Ended extends Finished {
  signal: NodeJS.Signals | null;
}

export interface Started {
  kill(signal: NodeJS.Signals): void;
  finished: Promise<Finished>;
}

/** Runs one of our commands with the program of its npm script. */
export function runCommandLine(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Finished> {
  return startCommandLine(command, args, env).finished;
}

/** Runs one of our npm scripts from a shell whose working directory is `folder`. */
export function runByNpm(folder: string, command: string, args: readonly string[]): Promise<Finished> {
  const npm = ['--prefix', paths.root, '--silent', 'run', command, '--', ...args];
  return ended(spawn('npm', npm, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] }));
}

/** Like runCommandLine, but returns while the command runs, so that it can get a signal. */
export function startCommandLine(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Started {
  const { child, ended: finishedOrKilled } = spawnCommandLine(command, args, env);
  const finished = finishedOrKilled.then(({ code, stdout, stderr }) => ({ code, stdout, stderr }));
  return { kill: (signal) => child.kill(signal), finished };
}

/** Starts one of our commands and returns its process. */
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
  return { child, ended: ended(child) };
}

/** Collects the output of a process until it ends. */
export function ended(child: ChildProcessByStdio<null, Readable, Readable>): Promise<Ended> {
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => (output[name] += text));
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, ...output }));
  });
}
