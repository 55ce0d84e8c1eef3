import { command, EXIT, parseList } from '../src/cli/cli';
import { PUBLISH_FLAGS, PUBLISH_HELP, runPublishCommand } from '../src/commands/publish-command';
import { withTarget, TARGET_FLAGS, TARGET_HELP } from '../src/commands/target';
import { rollBack } from '../src/publish/rollback';
import { HeadFile } from '../src/publish/head-file';
import { repairHead } from '../src/publish/repair-head';
import { repairView } from '../src/publish/view';

const FLAGS = {
  ...TARGET_FLAGS,
  models: { type: 'string' },
  repair: { type: 'boolean', default: false },
  ...PUBLISH_FLAGS,
} as const;

const HELP = `Restores an earlier release in S3 and on the replicas. The rollback is recorded as a new release.

  npm run rollback -- [RELEASE] --stack NAME [options]

  RELEASE                    id of the release, or a unique part of the id; "npm run releases" lists the ids
                             (default: the previous release; after a rollback, the one before the restored release)
  --models A,B               restore only these models; the others stay as they are
  --repair                   write head.json again if it is lost, damaged or older than what replicas have read; and
                             complete the files for servers without an agent
${TARGET_HELP}${PUBLISH_HELP}
Examples:
  npm run rollback -- --stack prod                            # to the previous release
  npm run rollback -- 1f2e3d4c --stack prod --dry-run         # print the plan for a release
  npm run rollback -- 1f2e3d4c --stack prod --models resnet   # restore one model
`;

export const main = command({ help: HELP, flags: FLAGS, most: 1, names: ['RELEASE'] }, async (flags, [release]) => {
  const models = parseList('models', flags.models);
  return withTarget(flags, async (target) => {
    if (flags.repair) {
      const { commitStore, store, location, replicas: agents, name } = target;
      const head = new HeadFile(commitStore, location);
      const { release: id, generation } = await repairHead(head, { store, location, agents });
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
