import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Step } from '../../src/cli/progress';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { cached } from '../../src/local/install/cache';
import { getUv, type PythonEnvironment } from '../../src/local/install/python';

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
  const digest = createHash('sha256').update(readFileSync(lock)).update('\0').digest('hex').slice(0, 12);
  return cached(`${name}-python${python.version}-${digest}`, async (target) => {
    step?.update(`installing ${name}`);
    const source = options.build === true ? ['--no-build-isolation', '--require-hashes'] : ['--no-build'];
    const args = ['--quiet', ...source, '--no-deps', '--python', python.python, '--target', target, '-r', lock];
    await exec(getUv(python.python), ['pip', 'install', ...args]);
  });
}
