import { EXIT, parseFlagsAndArguments, parseList, runCommand } from '../src/cli/cli';
import { CHANGE_FLAGS, CHANGE_HELP, parseConcurrency, runChange } from '../src/commands/change-command';
import { openTarget, TARGET_FLAGS, TARGET_HELP } from '../src/commands/target';
import { rollBack } from '../src/publish/rollback';

const HELP = `Brings a repository in S3 and the servers back to an earlier release. It becomes a release of its own.

  npm run rollback -- [RELEASE] --stack NAME [options]

  RELEASE                    id, or a part of it that is enough (default: the one before; after a rollback one further back)
  --models A,B               only these models of it; the others stay as they are
${TARGET_HELP}${CHANGE_HELP}`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => rollback(argv));
}

async function rollback(argv: readonly string[]): Promise<number> {
  const known = { ...TARGET_FLAGS, models: { type: 'string' }, ...CHANGE_FLAGS } as const;
  const { flags, positionals } = parseFlagsAndArguments(argv, known, 1, ['RELEASE']);
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const [release] = positionals;
  const models = parseList('models', flags.models);
  const target = await openTarget(flags, { concurrency: parseConcurrency(flags) });
  try {
    const what = models === undefined ? target.name : `${models.join(', ')} of ${target.name}`;
    return await runChange(`roll ${what} back to ${release ?? 'the release before'}`, flags, target, (options) =>
      rollBack(release, { ...options, ...(models === undefined ? {} : { models }) }),
    );
  } finally {
    await target.close();
  }
}
