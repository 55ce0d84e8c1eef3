import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { paths } from '../../src/core/paths';
import type { Scratch } from './temp-dir';

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A command that ended. If a signal ended it, `code` is null. */
export interface Ended extends Finished {
  signal: NodeJS.Signals | null;
}

/** A command that runs. */
export interface Running {
  child: ChildProcess;
  ended: Promise<Ended>;
}

/** Runs one of our commands with the program of its npm script. */
export async function runCommandLine(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Finished> {
  const { code, stdout, stderr } = await startCommandLine(command, args, env).ended;
  return { code, stdout, stderr };
}

/** Runs one of our npm scripts from a shell whose working directory is `folder`. */
export function runByNpm(folder: string, command: string, args: readonly string[]): Promise<Finished> {
  const npm = ['--prefix', paths.root, '--silent', 'run', command, '--', ...args];
  return ended(spawn('npm', npm, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] }));
}

/** Like runCommandLine, but returns while the command runs. Cleaning `scratch` kills it. */
export function startCommandLine(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  scratch?: Scratch,
): Running {
  const child = spawn(process.execPath, [join(paths.scripts, 'run.mjs'), command, ...args], {
    cwd: paths.root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  scratch?.defer(() => void child.kill('SIGKILL'));
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
