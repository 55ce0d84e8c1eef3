import { EXIT, parseFlags, parseInteger, runCommand } from '../src/cli/cli';
import { releaseTable } from '../src/commands/release-table';
import { UsageError } from '../src/core/errors';
import { openTarget, STORE_FLAGS, STORE_HELP } from '../src/commands/target';
import { pruneReleases } from '../src/commands/prune-command';
import { listReleases } from '../src/publish/list-releases';

const FLAGS = {
  ...STORE_FLAGS,
  limit: { type: 'string', default: '20' },
  prune: { type: 'boolean', default: false },
  yes: { type: 'boolean', default: false },
  'dry-run': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

const HELP = `Lists the releases of a model repository in S3, newest first, or deletes former ones.

  npm run releases -- --stack NAME [options]

${STORE_HELP}  --limit N                  number of releases to list (default: ${FLAGS.limit.default})
  --prune                    retain the current release, the last five and those of the last week,
                             and delete the objects that only other releases name
  --yes                      do not ask for confirmation before --prune deletes
  --dry-run                  print what --prune would delete, and delete nothing
  --json                     print the releases as JSON, with the values that the table shortens; with --prune, its result
  --help                     print this text

Examples:
  npm run releases -- --stack prod
  npm run releases -- --local --limit 5
  npm run releases -- --stack prod --prune --dry-run
  npm run releases -- --bucket s3://my-models/models --json

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => releases(argv));
}

async function releases(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, FLAGS);
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  if (!flags.prune && (flags.yes || flags['dry-run'])) {
    throw new UsageError('--yes and --dry-run have no meaning without --prune', { hint: 'omit them, or add --prune' });
  }
  const limit = parseInteger('limit', flags.limit, 1, 10_000);
  const target = await openTarget(flags);
  try {
    if (flags.prune) return await pruneReleases(flags, target);
    const found = await listReleases(target, limit);
    if (flags.json) process.stdout.write(`${JSON.stringify(found, null, 2)}\n`);
    else
      process.stdout.write(
        found.length === 0 ? `${target.name} has no release yet.\n` : `${releaseTable(found, columns())}\n`,
      );
    return EXIT.ok;
  } finally {
    await target.close();
  }
}

/** Width of the terminal; a default width for other output, which people read too. */
const columns = (): number => (process.stdout.columns > 0 ? process.stdout.columns : 120);
