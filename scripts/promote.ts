import { EXIT, parseFlags, parseList, runCommand } from '../src/cli/cli';
import { CHANGE_FLAGS, CHANGE_HELP, parseConcurrency, runChange } from '../src/commands/change-command';
import { openTarget, SERVER_FLAGS, SERVER_HELP, type CommandTarget, type TargetFlags } from '../src/commands/target';
import { UsageError } from '../src/core/errors';
import { formatLocation, parseLocation } from '../src/publish/location';
import { promote } from '../src/publish/promote';

const HELP = `Publishes a release of one repository to another one: the same bytes, copied by S3.

  npm run promote -- --from staging --to prod [options]

  --from STACK | s3://NAME/PREFIX  where the release is
  --to STACK | s3://NAME/PREFIX    where to publish it
  --release ID               which release (default: the one that --from is at)
  --models A,B               only these models of it
  --require-pretrained       refuse models whose weights were drawn at random
  --stack-dir DIR            folder of the Pulumi program (default: this package)
  --endpoint-url URL         an S3 API other than AWS's, for both
  --region NAME              region of both buckets
The servers of --to (default: those of the stack):
${SERVER_HELP}${CHANGE_HELP}`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => runPromote(argv));
}

async function runPromote(argv: readonly string[]): Promise<number> {
  if (argv.includes('--local')) {
    throw new UsageError('promote has no --local: it copies from one place to another', {
      hint: 'npm run sync-models -- --local publishes to the running "npm run local"; here name both places, --from and --to',
    });
  }
  const flags = parseFlags(argv, {
    from: { type: 'string' },
    to: { type: 'string' },
    release: { type: 'string' },
    models: { type: 'string' },
    'require-pretrained': { type: 'boolean', default: false },
    'stack-dir': { type: 'string' },
    'endpoint-url': { type: 'string' },
    region: { type: 'string' },
    ...SERVER_FLAGS,
    ...CHANGE_FLAGS,
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const { release } = flags;
  const models = parseList('models', flags.models);
  const shared = { 'stack-dir': flags['stack-dir'], 'endpoint-url': flags['endpoint-url'], region: flags.region };
  const { triton, namespace, selector, kubeconfig, context } = flags;
  const servers = { triton, namespace, selector, kubeconfig, context };
  // Both flags are checked before Pulumi is asked about the first stack.
  const places = { from: place('from', flags.from), to: place('to', flags.to) };
  const opened: CommandTarget[] = [];
  try {
    const from = await openTarget({ ...places.from, ...shared });
    opened.push(from);
    const to = await openTarget({ ...places.to, ...shared, ...servers }, { concurrency: parseConcurrency(flags) });
    opened.push(to);
    if (formatLocation(from.location) === formatLocation(to.location)) {
      throw new UsageError(`--from and --to are the same place, ${formatLocation(to.location)}`);
    }
    return await runChange(`promote ${from.name} to ${to.name}`, flags, to, (options) =>
      promote({
        ...options,
        from,
        requirePretrained: flags['require-pretrained'],
        ...(release === undefined ? {} : { release }),
        ...(models === undefined ? {} : { models }),
      }),
    );
  } finally {
    for (const target of opened) await target.close();
  }
}

function place(flag: string, text: string | undefined): TargetFlags {
  if (text === undefined) {
    throw new UsageError(`--${flag} is missing`, { hint: 'npm run promote -- --from staging --to prod' });
  }
  if (!text.startsWith('s3://')) return { stack: text };
  parseLocation(text, flag);
  return { bucket: text };
}
