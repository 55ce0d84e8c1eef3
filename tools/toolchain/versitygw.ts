import type { Step } from '../../src/cli/progress';
import { ensureGoProgram } from './go';

/** The `versitygw` program, an S3 API for a folder. Only for tests and benchmarks. */
export function ensureVersitygw(step?: Step): Promise<string> {
  return ensureGoProgram(
    {
      name: 'versitygw',
      pins: 'versitygw',
      module: 'github.com/versity/versitygw',
      package: 'github.com/versity/versitygw/cmd/versitygw',
      ldflags: (version) => `-X main.Version=${version}`,
      versionArguments: ['--version'],
    },
    step,
  );
}
