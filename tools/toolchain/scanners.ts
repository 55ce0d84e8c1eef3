import type { Step } from '../../src/cli/progress';
import type { PythonEnvironment } from '../../src/local/install/python';
import { ensureLockedPackages } from './locked-packages';

/** Command line and environment of checkov. */
export interface Checkov {
  command: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Folder of its packages. */
  packages: string;
}

/**
 * checkov checks plans and manifests against security recommendations of AWS, CIS and others. Its packages are in a
 * folder separate from ours.
 */
export async function ensureCheckov(python: PythonEnvironment, step?: Step): Promise<Checkov> {
  const packages = await ensureLockedPackages('checkov', python, step);
  return {
    command: python.python,
    args: ['-m', 'checkov.main'],
    // Prevents checkov from checking for a newer version of itself.
    env: { ...process.env, PYTHONPATH: packages, CHECKOV_NO_UPDATE_CHECK: 'true', LOG_LEVEL: 'ERROR' },
    packages,
  };
}
