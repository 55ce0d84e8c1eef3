import { CHECKS } from '../infra/doctor/checks';
import { examine, type ReportLine } from '../infra/doctor/doctor';
import { readSettings } from '../infra/settings';
import { awsIdentity } from '../infra/settings/aws-identity';
import { allowedAccounts, stackFile } from '../infra/settings/stack-file';
import { EXIT } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { UsageError, UserError } from '../src/core/errors';
import { paths } from '../src/core/paths';
import { ProblemList } from '../src/core/problems';

const FLAGS = {
  stack: { value: 'STACK', help: 'name of the stack; its settings are in Pulumi.STACK.yaml' },
  'stack-dir': { value: 'DIR', help: 'folder of Pulumi.yaml (default: the project)' },
  json: { help: 'print the report as JSON' },
} as const;

const LINE = {
  name: 'npm run doctor',
  about:
    'Checks before "pulumi up" whether the AWS account fits the stack: account, subnets, GPU types, quotas, Kubernetes version and own address. Sends only requests that read.',
  flags: FLAGS,
  notes: `The credentials are those of the shell, or of aws:profile and aws:assumeRoles in the stack file. docs/iam/doctor.json has
the rights that they need. A check that the caller may not make is a warning that names the missing right.

Examples:
  npm run doctor -- --stack staging
  npm run doctor -- --stack prod --json    # for a script

Exit codes: 0 no errors (warnings are possible), 1 an error was found or the command failed, 2 wrong command line.`,
};

export const main = command(LINE, async (flags) => {
  if (flags.stack === undefined) {
    throw new UsageError('no stack is given', {
      hint: 'add its name, for example: npm run doctor -- --stack staging',
    });
  }
  const lines = await checkStack(flags.stack, flags['stack-dir'] ?? paths.project);
  process.stdout.write(
    flags.json ? `${JSON.stringify({ stack: flags.stack, checks: lines }, null, 2)}\n` : describe(lines),
  );
  return lines.some(({ level }) => level === 'error') ? EXIT.failed : EXIT.ok;
});

async function checkStack(stack: string, folder: string): Promise<ReportLine[]> {
  const source = stackFile(stack, folder);
  const settings = readSettings(source);
  const { existingCluster, s3 } = settings;
  if (existingCluster !== undefined && s3 !== undefined && source.region === undefined) {
    throw new UserError(`stack ${stack} creates nothing in AWS`, { hint: 'use the doctor for stacks with aws:region' });
  }
  // readSettings reports an invalid identity of a stack that creates a cluster. Other stacks have no use for it.
  const identity = awsIdentity(source.identity, new ProblemList(`Pulumi.${stack}.yaml`));
  // Loaded on demand, because the SDK's clients are large and the help needs none.
  const { openAws } = await import('../infra/doctor/aws');
  const aws = await openAws(settings.region, identity);
  try {
    return await examine(CHECKS, { settings, allowedAccounts: allowedAccounts(stack, folder), aws });
  } finally {
    aws.close();
  }
}

function describe(lines: readonly ReportLine[]): string {
  const columns = Math.max(...lines.map(({ check }) => check.length));
  return lines
    .map(({ level, check, found, fix }, i) => {
      const line = `${level.padEnd('warning'.length)}  ${check.padEnd(columns)}  ${found}\n`;
      // Without credentials, the fix of many checks is the same.
      return fix === undefined || fix === lines[i - 1]?.fix ? line : `${line}  -> ${fix}\n`;
    })
    .join('');
}
