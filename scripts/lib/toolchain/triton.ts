import { chmodSync, cpSync, existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../errors';
import { paths } from '../paths';
import { cached } from './cache';
import { unpackPackage, type PythonEnvironment } from './python';
import { MINIMUM_GLIBC, VERSIONS } from './versions';

/** The Triton server program and what it needs around it. */
export interface TritonInstallation {
  binary: string;
  /** Shared libraries of the binary. */
  libraries: string;
  /** Folder of the python backend, with the stub of the environment's Python. */
  pythonBackend: string;
}

/** Why the server binary cannot run on this machine, or undefined if it can. */
export function whyTritonCannotRun(
  platform: string = process.platform,
  architecture: string = process.arch,
  glibc: string = glibcVersion(),
): string | undefined {
  if (platform !== 'linux') return `it runs on Linux only, and this is ${platform}`;
  if (architecture !== 'x64') return `its PyPI build is for x86-64, and this is ${architecture}`;
  if (glibc === '') return `it needs glibc ${MINIMUM_GLIBC} or newer, and this system has none (musl?)`;
  if (compareVersions(glibc, MINIMUM_GLIBC) < 0)
    return `it needs glibc ${MINIMUM_GLIBC} or newer, and this is ${glibc}`;
  return undefined;
}

/** @throws UserError that points to compose.yaml where the binary cannot run. */
export function requireTritonPlatform(): void {
  const reason = whyTritonCannotRun();
  if (reason === undefined) return;
  throw new UserError(`the Triton server binary cannot run here: ${reason}`, {
    hint: 'with a container engine, compose.yaml serves the same repository: see docs/docker.md',
  });
}

/** Unpacks the server of VERSIONS.pytriton once, and the python backend for this environment's Python. */
export async function ensureTriton(environment: PythonEnvironment): Promise<TritonInstallation> {
  const directory = await cached(`pytriton-${VERSIONS.pytriton}`, (target) =>
    unpackPackage(`nvidia-pytriton==${VERSIONS.pytriton}`, target, environment.python),
  );
  const server = join(directory, 'pytriton', 'tritonserver');
  const stub = join(server, 'python_backend_stubs', environment.version, 'triton_python_backend_stub');
  if (!existsSync(stub)) {
    throw new UserError(
      `nvidia-pytriton ${VERSIONS.pytriton} has no python backend stub for Python ${environment.version}`,
    );
  }
  const backend = await cached(`pytriton-${VERSIONS.pytriton}-python${environment.version}`, (target) => {
    cpSync(join(server, 'backends', 'python'), target, { recursive: true });
    cpSync(stub, join(target, 'triton_python_backend_stub'));
    chmodSync(join(target, 'triton_python_backend_stub'), 0o755);
    return Promise.resolve();
  });
  const binary = join(server, 'bin', 'tritonserver');
  chmodSync(binary, 0o755);
  return { binary, libraries: join(directory, 'nvidia_pytriton.libs'), pythonBackend: backend };
}

/** Makes a backend directory of the python backend and our Python-based backends. */
export function assembleBackends(installation: TritonInstallation, directory: string): void {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  symlinkSync(installation.pythonBackend, join(directory, 'python'));
  for (const name of ['pytorch', 'onnxruntime']) symlinkSync(join(paths.backends, name), join(directory, name));
}

/** Empty where the C library is another one. */
function glibcVersion(): string {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return report.header?.glibcVersionRuntime ?? '';
}

/** Compares dotted version numbers: negative when `a` is older. */
export function compareVersions(a: string, b: string): number {
  const left = a.split('.').map(Number);
  const right = b.split('.').map(Number);
  for (let i = 0; i < Math.max(left.length, right.length); i += 1) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
