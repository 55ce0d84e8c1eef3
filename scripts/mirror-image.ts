import { copyImage, type ImageCopy } from '../infra/images/copy-images';
import { mirroredImages } from '../infra/images/mirrored-image';
import { readSettings, type Settings } from '../infra/settings';
import { awsIdentity, type AwsIdentity } from '../infra/settings/aws-identity';
import { stackFile } from '../infra/settings/stack-file';
import { EXIT, parseFlags, runCommand } from '../src/cli/cli';
import { InterruptedError, withInterrupts } from '../src/cli/interrupts';
import { Progress } from '../src/cli/progress';
import { UsageError, UserError } from '../src/core/errors';
import { stopCommands } from '../src/core/exec';
import { formatBytes } from '../src/core/format';
import { paths } from '../src/core/paths';
import { ProblemList } from '../src/core/problems';
import { ensureCrane } from '../src/install/crane';

const FLAGS = {
  stack: { type: 'string' },
  'stack-dir': { type: 'string' },
  'dry-run': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

const HELP = `Copies the images of the replicas, by digest, to the ECR repositories of a stack with mirrorImages: true.

  npm run mirror-image -- --stack STACK [options]

  --stack STACK      name of the stack; its settings are in Pulumi.STACK.yaml
  --stack-dir DIR    folder of Pulumi.yaml (default: the project)
  --dry-run          print what would be copied, and copy nothing
  --json             print the result as JSON
  --help             print this text

"pulumi up" creates the repositories before, and makes the pods use the copies afterwards. An image is copied with all its
architectures. An interrupted copy continues where it was: what is in ECR is not copied again.
The credentials are those of the shell, or of aws:profile and aws:assumeRoles in the stack file; the rights are in
docs/iam/mirror.json. For a private source, sign in with "docker login" first.

Examples:
  npm run mirror-image -- --stack staging
  npm run mirror-image -- --stack prod --dry-run

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(async () => {
    try {
      return await mirrorImage(argv);
    } catch (error) {
      if (!(error instanceof InterruptedError)) throw error;
      process.stderr.write('interrupted; run the command again to continue\n');
      return EXIT.interrupted;
    }
  });
}

async function mirrorImage(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, FLAGS);
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const { stack, 'dry-run': dryRun } = flags;
  if (stack === undefined) {
    throw new UsageError('no stack is given', {
      hint: 'add its name, for example: npm run mirror-image -- --stack staging',
    });
  }
  const source = stackFile(stack, flags['stack-dir'] ?? paths.project);
  const settings = readSettings(source);
  if (!settings.mirrorImages) {
    throw new UserError(`stack ${stack} has no ECR repositories, because mirrorImages is false`, {
      hint: `run "pulumi config set --stack ${stack} mirrorImages true", "pulumi up", and then this command`,
    });
  }
  const identity = awsIdentity(source.identity, new ProblemList(`Pulumi.${stack}.yaml`));
  const copies = await withInterrupts(async (signal) => {
    signal.addEventListener('abort', stopCommands);
    return copyAll(settings, identity, dryRun).catch((error: unknown) => {
      throw signal.aborted ? signal.reason : error;
    });
  });
  process.stdout.write(
    flags.json ? `${JSON.stringify({ stack, dryRun, images: copies }, null, 2)}\n` : describe(stack, copies),
  );
  return EXIT.ok;
}

async function copyAll(settings: Settings, identity: AwsIdentity, dryRun: boolean): Promise<ImageCopy[]> {
  const progress = new Progress();
  const images = mirroredImages(settings);
  // Loaded on demand, because the SDK's client is large and the help needs none.
  const [{ signInToEcr }, { Crane }] = await Promise.all([
    import('../infra/images/ecr'),
    import('../infra/images/crane'),
  ]);
  const login = await signInToEcr(
    settings,
    identity,
    images.map(({ repository }) => repository),
  );
  const program = await progress.run('crane', (step) => ensureCrane(step));
  const crane = new Crane(program, login);
  try {
    const copies: ImageCopy[] = [];
    for (const [i, image] of images.entries()) {
      copies.push(await copyImage(image, login.uris[i] as string, { crane, progress, dryRun }));
    }
    return copies;
  } finally {
    crane.close();
  }
}

function describe(stack: string, copies: readonly ImageCopy[]): string {
  const lines = copies.map(({ result, source, target, bytes }) => {
    return `${result.padEnd('present'.length)}  ${source} -> ${target}${bytes === undefined ? '' : ` (${formatBytes(bytes)})`}`;
  });
  const isReady = copies.every(({ result }) => result !== 'missing');
  if (isReady) lines.push(`Next: pulumi up --stack ${stack}`);
  return `${lines.join('\n')}\n`;
}
