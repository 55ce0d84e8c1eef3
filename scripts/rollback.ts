import { EXIT, parseList } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { PUBLISH_FLAGS, PUBLISH_NOTES, runPublishCommand } from '../src/commands/publish-command';
import { UsageError } from '../src/core/errors';
import { withTarget, TARGET_FLAGS } from '../src/commands/target';
import { rollBack } from '../src/publish/rollback';
import { HeadFile } from '../src/publish/head-file';
import { repairHead } from '../src/publish/repair-head';
import { repairView } from '../src/publish/view';

const FLAGS = {
  ...TARGET_FLAGS,
  models: { value: 'A,B', help: 'restore only these models; the others stay as they are' },
  repair: {
    help: 'write head.json again if it is lost, damaged or older than what replicas have read, for the release that they have read in it, or for RELEASE; and complete the files for servers without an agent',
  },
  ...PUBLISH_FLAGS,
} as const;

/** Options of a release, which a repair does not make. */
const NOT_WITH_REPAIR = ['models', 'no-ask', 'untried', 'unload-first', 'message', 'dry-run', 'json'] as const;

const LINE = {
  name: 'npm run rollback',
  about: 'Restores an earlier release in S3 and on the replicas. The rollback is recorded as a new release.',
  arguments: {
    '[RELEASE]':
      'id of the release, or a unique part of the id; "npm run releases" lists the ids (default: the previous release; after a rollback, the one before the restored release)',
  },
  flags: FLAGS,
  notes: `Examples:
  npm run rollback -- --stack prod                            # to the previous release
  npm run rollback -- 1f2e3d4c --stack prod --dry-run         # print the plan for a release
  npm run rollback -- 1f2e3d4c --stack prod --models resnet   # restore one model

${PUBLISH_NOTES}`,
};

export const main = command(LINE, async (flags, [release]) => {
  const models = parseList('models', flags.models);
  return withTarget(flags, async (target) => {
    if (flags.repair) {
      const other = NOT_WITH_REPAIR.find((name) => flags[name] !== undefined && flags[name] !== false);
      if (other !== undefined) throw new UsageError(`--repair and --${other} exclude each other`);
      const { store, location, replicas: agents, name } = target;
      const head = new HeadFile(store, location);
      const { release: id, generation } = await repairHead(head, { store, location, agents, id: release });
      await repairView(head, store, location, { isForced: true });
      process.stdout.write(`${name} is at release ${id}, generation ${generation}.\n`);
      return EXIT.ok;
    }
    const what = models === undefined ? target.name : `${models.join(', ')} of ${target.name}`;
    return runPublishCommand(`roll ${what} back to ${release ?? 'the previous release'}`, flags, target, (options) =>
      rollBack(release, { ...options, models }),
    );
  });
});
