import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { exec } from '../../../src/core/exec';
import { paths } from '../../../src/core/paths';
import { cached } from '../../../src/install/cache';
import { unpackPackage, type PythonEnvironment } from '../../../src/install/python';
import type { TritonInstallation } from '../../../src/install/triton';

const TRITONCLIENT = '2.73.0';
/** The last version of tritonclient that includes a perf_analyzer for this version of the C library. */
const WITH_PERF_ANALYZER = '2.51.0';
/** Libraries of perf_analyzer that distributions do not install. Triton's package includes them under longer names. */
const BORROWED = ['libb64.so.0d', 'libcudart.so.12'];

const SOURCE = join(paths.tools, 'bench', 'client', 'identity.c');

/** Returns a folder with NVIDIA's Python client, for PYTHONPATH. */
export function ensureTritonclient({ python, version }: PythonEnvironment): Promise<string> {
  return cached(`tritonclient-${TRITONCLIENT}-python${version}`, (target) =>
    unpackPackage(`tritonclient[http,grpc]==${TRITONCLIENT}`, target, python, { dependencies: true }),
  );
}

/** Paths of NVIDIA's load generator and its libraries. */
export interface PerfAnalyzer {
  program: string;
  libraries: string;
}

export async function ensurePerfAnalyzer(python: string, triton: TritonInstallation): Promise<PerfAnalyzer> {
  const directory = await cached(`perf-analyzer-${WITH_PERF_ANALYZER}`, async (target) => {
    await unpackPackage(`tritonclient==${WITH_PERF_ANALYZER}`, target, python);
    mkdirSync(join(target, 'libraries'));
    const present = readdirSync(triton.libraries);
    for (const name of BORROWED) {
      // Triton's package contains libb64.so.0d as libb64-98cb6333.so.0d.
      const [stem = '', ...rest] = name.split('.');
      const held = present.find((file) => file.startsWith(`${stem}-`) && file.includes(`.${rest.join('.')}`));
      if (held === undefined) throw new UserError(`${name}, which perf_analyzer needs, is not in ${triton.libraries}`);
      symlinkSync(join(triton.libraries, held), join(target, 'libraries', name));
    }
  });
  const program = join(directory, 'bin', 'perf_analyzer');
  if (!existsSync(program)) throw new UserError(`tritonclient was installed, but ${program} is not there`);
  chmodSync(program, 0o755);
  return { program, libraries: join(directory, 'libraries') };
}

/** Returns the shared library of a backend that answers each request with its inputs. */
export async function ensureIdentityBackend(): Promise<string> {
  const digest = createHash('sha256').update(readFileSync(SOURCE)).digest('hex').slice(0, 12);
  const directory = await cached(`identity-backend-${digest}`, async (target) => {
    const library = join(target, 'libtriton_identity.so');
    await exec('cc', ['-O2', '-shared', '-fPIC', '-o', library, SOURCE]).catch((cause: unknown) => {
      throw new UserError('the model that is measured with could not be compiled', {
        hint: 'a C compiler has to be on PATH as cc (Debian, Ubuntu: apt install gcc libc6-dev)',
        cause,
      });
    });
  });
  return join(directory, 'libtriton_identity.so');
}
