import type { Step } from '../progress';
import { ensureGoProgram } from './go';

/** The Pulumi CLI, for tests that read a stack; whoever deploys has it installed. */
export function ensurePulumi(step?: Step): Promise<string> {
  return ensureGoProgram(
    {
      name: 'pulumi',
      pins: 'pulumi',
      module: 'github.com/pulumi/pulumi/pkg/v3',
      package: 'github.com/pulumi/pulumi/pkg/v3/cmd/pulumi',
      ldflags: (version) => `-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=${version}`,
      versionArguments: ['version'],
    },
    step,
  );
}
