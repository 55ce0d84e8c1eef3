import { EXIT, parseFlagsAndArguments, runCommand } from './lib/cli';
import { CHANGE_FLAGS, CHANGE_HELP, parseConcurrency, runChange } from './lib/commands/change-command';
import { openTarget, TARGET_FLAGS, TARGET_HELP } from './lib/commands/target';
import { rollBack } from './lib/publish/rollback';

const HELP = `Brings a repository in S3 and the servers back to an earlier release. It becomes a release of its own.

  npm run rollback -- [RELEASE] --stack NAME [options]

  RELEASE                    id, or a part of it that is enough (default: the one before; after a rollback one further back)
${TARGET_HELP}${CHANGE_HELP}`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => rollback(argv));
}

async function rollback(argv: readonly string[]): Promise<number> {
  const { flags, positionals } = parseFlagsAndArguments(argv, { ...TARGET_FLAGS, ...CHANGE_FLAGS }, 1, ['RELEASE']);
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const [release] = positionals;
  const target = await openTarget(flags, { concurrency: parseConcurrency(flags) });
  try {
    return await runChange(`roll ${target.name} back to ${release ?? 'the release before'}`, flags, target, (options) =>
      rollBack(release, options),
    );
  } finally {
    await target.close();
  }
}
