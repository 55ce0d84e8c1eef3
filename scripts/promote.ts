import { parseList } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { BAKE_FLAGS, PUBLISH_FLAGS, PUBLISH_NOTES, runPublishCommand } from '../src/commands/publish-command';
import { SERVER_FLAGS, withTarget, type TargetFlags } from '../src/commands/target';
import { UsageError } from '../src/core/errors';
import { nextCommand } from '../src/core/next-command';
import { formatLocation, parseLocation } from '../src/release/location';
import { promote } from '../src/publish/promote';

const FLAGS = {
  from: { value: 'STACK', help: 'stack that has the release; or its repository, s3://NAME/PREFIX' },
  to: { value: 'STACK', help: 'stack to publish the release to; or its repository, s3://NAME/PREFIX' },
  release: { value: 'ID', help: 'id of the release, or a unique part of it (default: the current release of --from)' },
  models: { value: 'A,B', help: 'publish only these models of the release' },
  'require-pretrained': { help: 'fail if a model has random weights' },
  'stack-dir': { value: 'DIR', help: 'folder of the Pulumi program (default: the project)' },
  'endpoint-url': { value: 'URL', help: 'an S3 API other than that of AWS, for both repositories' },
  region: { value: 'NAME', help: 'region to ask first; S3 names the region of a bucket that is elsewhere' },
  ...SERVER_FLAGS,
  ...PUBLISH_FLAGS,
  ...BAKE_FLAGS,
} as const;

const LINE = {
  name: 'npm run promote',
  about:
    'Publishes a release of one repository to another repository. S3 copies the files, so that both are identical.',
  flags: FLAGS,
  notes: `The replicas are those of --to, by default those of its stack.

Examples:
  npm run promote -- --from staging --to prod
  npm run promote -- --from staging --to prod --release 1f2e3d4c --require-pretrained
  npm run promote -- --from s3://staging-models/models --to prod --dry-run

${PUBLISH_NOTES}`,
};

export const main = command(LINE, async (flags) => {
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
