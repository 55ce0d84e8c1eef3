import { command, parseList } from '../src/cli/cli';
import { PUBLISH_FLAGS, PUBLISH_HELP, runPublishCommand } from '../src/commands/publish-command';
import { SERVER_FLAGS, SERVER_HELP, withTarget, type TargetFlags } from '../src/commands/target';
import { UsageError } from '../src/core/errors';
import { nextCommand } from '../src/core/next-command';
import { formatLocation, parseLocation } from '../src/release/location';
import { promote } from '../src/publish/promote';

const FLAGS = {
  from: { type: 'string' },
  to: { type: 'string' },
  release: { type: 'string' },
  models: { type: 'string' },
  'require-pretrained': { type: 'boolean', default: false },
  'stack-dir': { type: 'string' },
  'endpoint-url': { type: 'string' },
  region: { type: 'string' },
  ...SERVER_FLAGS,
  ...PUBLISH_FLAGS,
} as const;

const HELP = `Publishes a release of one repository to another repository. S3 copies the files, so that both are identical.

  npm run promote -- --from STACK --to STACK [options]

  --from STACK               stack that has the release; or its repository, s3://NAME/PREFIX
  --to STACK                 stack to publish the release to; or its repository, s3://NAME/PREFIX
  --release ID               id of the release, or a unique part of it (default: the current release of --from)
  --models A,B               publish only these models of the release
  --require-pretrained       fail if a model has random weights
  --stack-dir DIR            folder of the Pulumi program (default: the project)
  --endpoint-url URL         an S3 API other than that of AWS, for both repositories
  --region NAME              region to ask first; S3 names the region of a bucket that is elsewhere
Replicas of --to (default: the replicas of its stack):
${SERVER_HELP}${PUBLISH_HELP}
Examples:
  npm run promote -- --from staging --to prod
  npm run promote -- --from staging --to prod --release 1f2e3d4c --require-pretrained
  npm run promote -- --from s3://staging-models/models --to prod --dry-run
`;

export const main = command({ help: HELP, flags: FLAGS }, async (flags) => {
  const { release } = flags;
  const models = parseList('models', flags.models);
  const shared = { 'stack-dir': flags['stack-dir'], 'endpoint-url': flags['endpoint-url'], region: flags.region };
  // Both flags are checked before Pulumi is asked about the first stack.
  const places = { from: place('from', flags), to: place('to', flags) };
  return withTarget({ ...places.from, ...shared }, (from) =>
    withTarget({ ...flags, ...places.to }, async (to) => {
      if (formatLocation(from.location) === formatLocation(to.location)) {
        throw new UsageError(`--from and --to are the same repository, ${formatLocation(to.location)}`);
      }
      return runPublishCommand(
        `promote ${from.name} to ${to.name}`,
        flags,
        to,
        (options) => promote({ ...options, from, requirePretrained: flags['require-pretrained'], release, models }),
        from,
      );
    }),
  );
});

function place(flag: 'from' | 'to', flags: { from?: string; to?: string }): TargetFlags {
  const text = flags[flag];
  if (text === undefined) {
    const { from = 'STACK', to = 'STACK' } = flags;
    throw new UsageError(`--${flag} is missing`, { hint: nextCommand('promote', '--from', from, '--to', to) });
  }
  if (!text.startsWith('s3://')) return { stack: text };
  parseLocation(text, flag);
  return { bucket: text };
}
