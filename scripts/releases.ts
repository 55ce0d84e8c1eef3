import { EXIT, parseInteger } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { UsageError } from '../src/core/errors';
import { withTarget, STORE_FLAGS } from '../src/commands/target';
import { pruneReleases } from '../src/commands/prune-command';
import { formatTable, shortened } from '../src/core/format';
import { describeBake, listReleases, type ListedRelease } from '../src/publish/list-releases';

const FLAGS = {
  ...STORE_FLAGS,
  limit: { value: 'N', default: '20', help: 'number of releases to list' },
  prune: {
    help: 'list the objects that only releases name which are neither the current one, nor one of the last five, nor one of the last week; with --yes, delete them and forget those releases',
  },
  yes: { help: 'delete what --prune lists' },
  json: { help: 'print the releases as JSON, with the values that the table shortens; with --prune, its result' },
} as const;

const LINE = {
  name: 'npm run releases',
  about: 'Lists the releases of a model repository in S3, newest first, or deletes former ones.',
  flags: FLAGS,
  notes: `Examples:
  npm run releases -- --stack prod
  npm run releases -- --local --limit 5
  npm run releases -- --stack prod --prune
  npm run releases -- --bucket s3://my-models/models --json

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted.`,
};

export const main = command(LINE, async (flags) => {
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
    found.map(({ id, isCurrent, by, origin, message, notAsked, changes, bake }) => {
      // A message is more informative than "sync-models". Of ids in an origin the last part is enough for a rollback.
      const from = /^sync-models /.test(origin) ? (message ?? 'sync-models') : origin.replace(/\d{8}T\d+Z-/, '');
      const cells = [id, shortened(by, 16), shortened(`${notAsked ? 'not asked: ' : ''}${from}`, 32)];
      const baked = bake === undefined ? [] : [`bake ${describeBake(bake)}`];
      return [isCurrent ? '*' : '', ...cells, [changes.join(', '), ...baked].join('; ')];
    }),
  );
