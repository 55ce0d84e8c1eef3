import type { Step } from '../../src/cli/progress';
import { ensureGoProgram } from './go';

/** actionlint, which checks GitHub workflows: from PATH if it has the pinned version, otherwise built once. */
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
