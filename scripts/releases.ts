import { command, EXIT, parseInteger } from '../src/cli/cli';
import { UsageError } from '../src/core/errors';
import { withTarget, STORE_FLAGS, STORE_HELP } from '../src/commands/target';
import { pruneReleases } from '../src/commands/prune-command';
import { formatTable, shortened } from '../src/core/format';
import { listReleases, type ListedRelease } from '../src/publish/list-releases';

const FLAGS = {
  ...STORE_FLAGS,
  limit: { type: 'string', default: '20' },
  prune: { type: 'boolean', default: false },
  yes: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
} as const;

const HELP = `Lists the releases of a model repository in S3, newest first, or deletes former ones.

  npm run releases -- --stack NAME [options]

${STORE_HELP}  --limit N                  number of releases to list (default: ${FLAGS.limit.default})
  --prune                    list the objects that only releases name which are neither the current one, nor one of the last
                             five, nor one of the last week; with --yes, delete them and forget those releases
  --yes                      delete what --prune lists
  --json                     print the releases as JSON, with the values that the table shortens; with --prune, its result
  --help                     print this text

Examples:
  npm run releases -- --stack prod
  npm run releases -- --local --limit 5
  npm run releases -- --stack prod --prune
  npm run releases -- --bucket s3://my-models/models --json

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted.
`;

export const main = command({ help: HELP, flags: FLAGS }, async (flags) => {
  if (flags.yes && !flags.prune) {
    throw new UsageError('--yes has no meaning without --prune', { hint: 'omit it, or add --prune' });
  }
  const limit = parseInteger('limit', flags.limit, 1, 10_000);
  return withTarget(flags, async (target) => {
    if (flags.prune) return pruneReleases(flags, target);
    const found = await listReleases(target, limit);
    const text = flags.json
      ? JSON.stringify(found, null, 2)
      : found.length === 0
        ? `${target.name} has no release yet.`
        : table(found);
    process.stdout.write(`${text}\n`);
    return EXIT.ok;
  });
});

/** The ids begin with the time of the release, in UTC. */
const table = (found: readonly ListedRelease[]): string =>
  formatTable(
    ['', 'release', 'by', 'from', 'changes'],
    found.map(({ id, isCurrent, by, origin, message, notAsked, changes }) => {
      // A message is more informative than "sync-models". Of ids in an origin the last part is enough for a rollback.
      const from = /^sync-models /.test(origin) ? (message ?? 'sync-models') : origin.replace(/\d{8}T\d+Z-/, '');
      const cells = [id, shortened(by, 16), shortened(`${notAsked ? 'not asked: ' : ''}${from}`, 32)];
      return [isCurrent ? '*' : '', ...cells, changes.join(', ')];
    }),
  );
