import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Step } from '../../cli/progress';
import { UserError } from '../../core/errors';
import { endWithCommands } from '../../core/exec';
import { paths } from '../../core/paths';
import { cacheRoot, isCached } from './cache';

/** A Python with the packages of python/requirements installed. */
export interface PythonEnvironment {
  /** Path of the interpreter. */
  python: string;
  /** For example `3.11`. The python backend needs the stub of this version. */
  version: string;
  /** Folder of the environment's programs, including `python`. */
  bin: string;
  /** Folder of libpython; undefined if the system's linker finds the library. */
  libraries: string | undefined;
  /** Interpreter for the environments of Python-backend models, which needs builds of NumPy 1; undefined if none was found. */
  modelPython: string | undefined;
}

/**
 * Returns the Python environment that traces models and runs the local backends. Creates it if it is missing.
 * @param options.development also install the packages for tests and checks
 * @param options.embeddable accept only a Python that Triton can load as a library, and also install the programs of
 * Triton and the S3 server
 */
export async function ensurePython(
  step: Step,
  options: { development?: boolean; embeddable?: boolean } = {},
): Promise<PythonEnvironment> {
  const flags = [
    ...(options.embeddable === true ? ['--embeddable', '--programs'] : []),
    ...(options.development === true ? ['--development'] : []),
  ];
  return setUp(flags, step);
}

/** Runs a script with the first Python on PATH that can run it: the script itself then looks for a suitable one. */
const WITH_PYTHON = `
for python in python3 python3.13 python3.12 python3.11 python3.10 python; do
  "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && exec "$python" -I "$@"
done
exit 127`;

/** A line that python/environment.py prints. */
type Line = { detail: string } | { result: PythonEnvironment } | { error: string; hint: string | null };

/** Runs python/environment.py, and shows what it does. */
async function setUp(flags: readonly string[], step?: Step): Promise<PythonEnvironment> {
  const script = join(paths.python, 'environment.py');
  const child = spawn('/bin/sh', ['-c', WITH_PYTHON, 'sh', script, ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
  endWithCommands(child);
  const closed = once(child, 'close') as Promise<[code: number | null, signal: string | null]>;
  let last: Line | undefined;
  for await (const text of createInterface({ input: child.stdout })) {
    last = JSON.parse(text) as Line;
    if ('detail' in last) step?.update(last.detail);
  }
  const [code, signal] = await closed;
  if (last !== undefined && 'result' in last) return last.result;
  if (last !== undefined && 'error' in last) throw new UserError(last.error, { hint: last.hint ?? undefined });
  if (code === 127)
    throw new UserError('no Python found on PATH', { hint: 'install Python 3.10 to 3.13 and put it on PATH' });
  throw new UserError(`the set-up of the Python environment ended with ${signal ?? `exit code ${code}`}`);
}

/** The uv of an environment, given its interpreter. */
export const getUv = (python: string): string => join(dirname(python), 'uv');

/**
 * Returns the folder of a package of programs.txt, which the set-up installs.
 * @throws UserError if it has no file `program`
 */
export async function ensureProgram(name: string, program: string): Promise<string> {
  const version = new RegExp(`^${name}==(.+)$`, 'm').exec(
    readFileSync(join(paths.requirements, 'programs.txt'), 'utf8'),
  )?.[1];
  const folder = `${name}-${version}`;
  if (!isCached(folder)) await setUp(['--programs']);
  const directory = join(cacheRoot(), folder);
  if (!existsSync(join(directory, program)))
    throw new UserError(`${name} ${version} has no program at ${join(directory, program)}`);
  return directory;
}
