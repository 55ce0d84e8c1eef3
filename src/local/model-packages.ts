import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { CommandError, exec } from '../core/exec';
import { REQUIREMENTS_FILE } from '../model/requirements';
import { paths } from '../core/paths';
import type { Progress } from '../cli/progress';
import { getUv } from './install/python';
import type { TritonInstallation } from './install/triton';

/**
 * Creates the Python environments of models with a requirements.txt. The server would create them when it loads the
 * models, but without progress, and it would report an invalid line only after everything else has started.
 */
export async function installModelPackages(
  { environment }: TritonInstallation,
  repository: string,
  models: readonly string[],
  progress: Progress,
): Promise<void> {
  const files = models
    .map((name) => join(repository, name))
    // With a trace.py, the packages are installed for tracing.
    .filter((folder) => !existsSync(join(folder, 'trace.py')))
    .map((folder) => join(folder, REQUIREMENTS_FILE))
    .filter((file) => existsSync(file));
  const { python, modelPython } = environment;
  if (files.length === 0 || modelPython === undefined) return;
  await progress.run('packages of Python-backend models', async () => {
    try {
      const program = join(paths.python, 'model_packages', 'install.py');
      await exec(python, ['-I', program, modelPython, getUv(python), ...files]);
    } catch (error) {
      if (!(error instanceof CommandError) || error.output.stderr.trim() === '') throw error;
      throw new UserError(error.output.stderr.trim(), {
        hint: 'correct the file; the local server needs numpy<2, and packages for its version of Python',
        cause: error,
      });
    }
  });
}
