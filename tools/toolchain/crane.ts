import type { Step } from '../../src/cli/progress';
import { ensureGoProgram } from './go';

/** crane, which copies images and has a registry for tests: from PATH, otherwise built once. */
export function buildCrane(step?: Step): Promise<string> {
  return ensureGoProgram(
    {
      name: 'crane',
      pins: 'crane',
      module: 'github.com/google/go-containerregistry',
      package: 'github.com/google/go-containerregistry/cmd/crane',
      versionArguments: ['version'],
    },
    step,
  );
}
