import type { Step } from '../../src/cli/progress';
import { ensureGoProgram } from './go';

/** The checker of GitHub's workflows: the one on PATH if it is of the pinned version, else one that is built once. */
export function ensureActionlint(step?: Step): Promise<string> {
  return ensureGoProgram(
    {
      name: 'actionlint',
      pins: 'actionlint',
      module: 'github.com/rhysd/actionlint',
      package: 'github.com/rhysd/actionlint/cmd/actionlint',
      versionArguments: ['--version'],
    },
    step,
  );
}
