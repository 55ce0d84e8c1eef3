import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../core/errors';
import { shellWord } from '../../core/format';
import { paths } from '../../core/paths';
import { ensureProgram, getUv, type PythonEnvironment } from './python';

/** glibc version that the Triton binary requires (its wheel is tagged manylinux_2_35). */
const MINIMUM_GLIBC = '2.35';

/** The Triton server program with its libraries, backends and Python environments. */
export interface TritonInstallation {
  binary: string;
  /** Shared libraries of the binary. */
  libraries: string;
  /** Folder of the python backend, without a stub. */
  pythonBackend: string;
  /** Folder with one folder per Python version. Each has the stub of that version: the program that runs a model.py. */
  stubs: string;
  /** Python environment of our own backends. */
  environment: PythonEnvironment;
}

/** Describes why the server binary cannot run on this machine; undefined if it can. */
export function whyTritonCannotRun(
  platform: string = process.platform,
  architecture: string = process.arch,
  glibc: string = glibcVersion(),
): string | undefined {
  if (platform !== 'linux') return `it runs only on Linux; this system is ${platform}`;
  if (architecture !== 'x64') return `its PyPI build needs x86-64; this processor is ${architecture}`;
  if (glibc === '') return `it needs glibc ${MINIMUM_GLIBC} or newer; this system has another C library`;
  if (glibc.localeCompare(MINIMUM_GLIBC, 'en', { numeric: true }) < 0)
    return `it needs glibc ${MINIMUM_GLIBC} or newer; this system has ${glibc}`;
  return undefined;
}

/** @throws UserError that refers to compose.yaml if the binary cannot run */
export function requireTritonPlatform(): void {
  const reason = whyTritonCannotRun();
  if (reason === undefined) return;
  throw new UserError(`the Triton server binary cannot run here: ${reason}`, {
    hint: 'with a container engine, open this folder in its development container (docs/local.md), or serve the models with compose.yaml (docs/docker.md)',
  });
}

const STUB = 'triton_python_backend_stub';

/** Variables that configure uv's package index. They may hold passwords, so model code does not receive them. */
const INSTALL_VARIABLES = /^(UV_.*|PIP_.*|SSL_CERT_\w+|(HTTPS?|ALL|NO)_PROXY|NETRC)$/i;

/** Installs the server of nvidia-pytriton in the cache, unless the environment was created with it. */
export async function ensureTriton(environment: PythonEnvironment): Promise<TritonInstallation> {
  const program = join('pytriton', 'tritonserver', 'bin', 'tritonserver');
  const directory = await ensureProgram('nvidia-pytriton', program);
  const server = join(directory, 'pytriton', 'tritonserver');
  const stubs = join(server, 'python_backend_stubs');
  const binary = join(directory, program);
  for (const path of [binary, ...readdirSync(stubs).map((version) => join(stubs, version, STUB))])
    chmodSync(path, 0o755);
  return {
    binary,
    libraries: join(directory, 'nvidia_pytriton.libs'),
    pythonBackend: join(server, 'backends', 'python'),
    stubs,
    environment,
  };
}

/**
 * Creates a backend directory with the python backend and our Python-based backends. A script replaces the stub: our
 * backends run in their environment, and a user's model.py in its own environment (python/model_packages).
 */
export function assembleBackends(installation: TritonInstallation, directory: string): void {
  const { pythonBackend, stubs, environment } = installation;
  rmSync(directory, { recursive: true, force: true });
  const python = join(directory, 'python');
  mkdirSync(python, { recursive: true });
  for (const name of readdirSync(pythonBackend)) {
    if (name === STUB) continue;
    // Copied, because for Python-based backends Triton refuses a library outside of its folder.
    if (name.endsWith('.so')) copyFileSync(join(pythonBackend, name), join(python, name));
    else symlinkSync(join(pythonBackend, name), join(python, name));
  }
  const settings = join(python, 'models.json');
  const install = Object.entries(process.env).filter(([name]) => INSTALL_VARIABLES.test(name));
  writeFileSync(
    settings,
    JSON.stringify({
      stubs,
      server_python: environment.python,
      model_python: environment.modelPython ?? null,
      uv: getUv(environment.python),
      install_variables: Object.fromEntries(install),
    }),
    { mode: 0o600 },
  );
  const launcher = ['-I', join(paths.python, 'model_packages', 'launch.py'), settings];
  writeFileSync(
    join(python, STUB),
    [
      '#!/bin/sh',
      '# The last argument is the folder of a Python-based backend, or DEFAULT for a model.py.',
      `[ "$9" = DEFAULT ] || exec ${shellWord(join(stubs, environment.version, STUB))} "$@"`,
      `exec ${[environment.python, ...launcher].map(shellWord).join(' ')} "$@"`,
      '',
    ].join('\n'),
    { mode: 0o755 },
  );
  for (const name of ['pytorch', 'torch_aoti', 'onnxruntime'])
    symlinkSync(join(paths.backends, 'framework'), join(directory, name));
}

/** Version of glibc; empty for another C library. */
function glibcVersion(): string {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return report.header?.glibcVersionRuntime ?? '';
}
