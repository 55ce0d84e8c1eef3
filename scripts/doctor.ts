import { AFTER_UP_CHECKS } from '../infra/doctor/after-up/checks';
import type { Context } from '../infra/doctor/check';
import { CHECKS } from '../infra/doctor/checks';
import { examine, type ReportLine } from '../infra/doctor/doctor';
import { doctorPolicy } from '../infra/doctor/rights';
import { readSettings } from '../infra/settings';
import { awsIdentity } from '../infra/settings/aws-identity';
import { allowedAccounts, stackFile, stateSettings } from '../infra/settings/stack-file';
import { EXIT, parseFlags, runCommand } from '../src/cli/cli';
import { readStackOutputs } from '../src/cluster/stack-outputs';
import { UsageError, UserError } from '../src/core/errors';
import { paths } from '../src/core/paths';
import { ProblemList } from '../src/core/problems';

const FLAGS = {
  stack: { type: 'string' },
  'stack-dir': { type: 'string' },
  'after-up': { type: 'boolean', default: false },
  policy: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

const HELP = `Checks before "pulumi up" whether the AWS account fits the stack: region, zones, GPU types, quotas, names that exist,
identity providers and more. Afterwards, --after-up checks whether the deployed stack works: GPU nodes, local storage,
driver, image pull, models and load balancer. Sends only requests that read.

  npm run doctor -- --stack STACK [options]

  --stack STACK      name of the stack; its settings are in Pulumi.STACK.yaml
  --stack-dir DIR    folder of Pulumi.yaml (default: the project)
  --after-up         check the deployed stack instead; its cluster is in the outputs of the stack, which Pulumi reads
  --policy           print the IAM policy with the rights that the doctor needs, and check nothing
  --json             print the report as JSON
  --help             print this text

The credentials are those of the shell, or of aws:profile and aws:assumeRoles in the stack file. A check that the caller
may not make is a warning that names the missing right.

Examples:
  npm run doctor -- --stack staging
  npm run doctor -- --stack prod --json    # for a script
  npm run doctor -- --stack staging --after-up
  npm run doctor -- --policy               # the rights of a role that runs the doctor

Exit codes: 0 no errors (warnings are possible), 1 an error was found or the command failed, 2 wrong command line.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => doctor(argv));
}

async function doctor(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, FLAGS);
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  if (flags.policy) {
    process.stdout.write(`${JSON.stringify(doctorPolicy(), null, 2)}\n`);
    return EXIT.ok;
  }
  if (flags.stack === undefined) {
    throw new UsageError('no stack is given', { hint: 'add its name, for example: npm run doctor -- --stack staging' });
  }
  const lines = await checkStack(flags.stack, flags['stack-dir'] ?? paths.project, flags['after-up']);
  process.stdout.write(
    flags.json ? `${JSON.stringify({ stack: flags.stack, checks: lines }, null, 2)}\n` : describe(lines),
  );
  return lines.some(({ level }) => level === 'error') ? EXIT.failed : EXIT.ok;
}

async function checkStack(stack: string, folder: string, afterUp: boolean): Promise<ReportLine[]> {
  const source = stackFile(stack, folder);
  const settings = readSettings(source);
  const { cluster, modelRepository } = settings;
  const isWithoutAws =
    cluster.kind === 'existing' && modelRepository.kind === 'elsewhere' && source.region === undefined;
  if (isWithoutAws && !afterUp) {
    throw new UserError(`stack ${stack} creates nothing in AWS`, { hint: 'use the doctor for stacks with aws:region' });
  }
  // readSettings reports an invalid identity of a stack that creates a cluster. Other stacks have no use for it.
  const identity = awsIdentity(source.identity, new ProblemList(`Pulumi.${stack}.yaml`));
  // Loaded on demand, because the SDK's clients are large and the help needs none.
  const { openAwsAccount } = await import('../infra/doctor/aws-account');
  const { openWeb } = await import('../infra/doctor/web');
  const account = await openAwsAccount(settings.region, identity);
  const web = await openWeb(settings.region);
  const context = {
    settings,
    allowedAccounts: allowedAccounts(stack, folder),
    state: stateSettings(stack, folder, process.env),
    account,
    web,
    today: new Date(),
  };
  try {
    return afterUp ? await checkServing(stack, folder, context) : await examine(CHECKS, context);
  } finally {
    account.close();
    web.close();
  }
}

/** Time for one check, in ms: requests to the pods pass the API server of the cluster. */
const SERVING_LIMIT_MS = 60_000;

async function checkServing(stack: string, folder: string, context: Context): Promise<ReportLine[]> {
  const { cluster: outputs } = await readStackOutputs(stack, folder);
  if (outputs === undefined) {
    throw new UserError(`stack ${stack} has no cluster among its outputs`, {
      hint: 'run "pulumi up" first; the outputs of a stack with renderManifestsTo name no cluster',
    });
  }
  // Also large.
  const { openServingCluster } = await import('../infra/doctor/after-up/kubernetes-cluster');
  const cluster = openServingCluster(outputs);
  try {
    return await examine(AFTER_UP_CHECKS, { ...context, cluster }, SERVING_LIMIT_MS);
  } finally {
    await cluster.close();
  }
}

const LEVEL_COLUMNS = 'warning'.length;

function describe(lines: readonly ReportLine[]): string {
  const columns = Math.max(...lines.map(({ check }) => check.length));
  return lines
    .map(({ level, check, found, fix }, i) => {
      const line = `${level.padEnd(LEVEL_COLUMNS)}  ${check.padEnd(columns)}  ${found}\n`;
      // Without credentials, the fix of many checks is the same.
      return fix === undefined || fix === lines[i - 1]?.fix ? line : `${line}  -> ${fix}\n`;
    })
    .join('');
}
