import { basename } from 'node:path';
import { EXIT, parseFlags, parseSelection, runCommand } from '../src/cli/cli';
import { requireOnlyMigration, runMigration } from '../src/commands/migrate-command';
import { PUBLISH_FLAGS, PUBLISH_HELP, parseStoreFlags, runPublishCommand } from '../src/commands/publish-command';
import { openTarget, TARGET_FLAGS, TARGET_HELP } from '../src/commands/target';
import { paths } from '../src/core/paths';
import { publish } from '../src/publish/publish';

const HELP = `Publishes a model repository to S3 and loads its models on every replica. If a replica rejects a model, restores the
previous state everywhere.

  npm run sync-models -- --stack NAME [options]
  npm run sync-models -- --bucket s3://NAME/PREFIX [--triton URL ...] [options]

${TARGET_HELP}  --repo DIR                 model repository to publish (default: ${basename(paths.modelRepository)}; with --local, the one that is served)
  --models A,B               publish only these models, and the models that their ensembles use
  --exclude A,B              publish all models except these
  --prune                    delete versions and files from the bucket that the model repository does not have; without
                             --models also models. With agents only models are removed from the release;
                             "npm run releases -- --prune" deletes
  --yes                      do not ask for confirmation before --prune deletes
  --migrate                  publish nothing, but prepare the repository of a stack for replicas with an agent, before
                             "agent" is set; what is served stays the same
${PUBLISH_HELP}
Examples:
  npm run sync-models -- --stack staging                      # all models, to the replicas of a stack
  npm run sync-models -- --stack prod --dry-run               # print the plan only
  npm run sync-models -- --local --models resnet,bert         # two models, to the running "npm run local"
  npm run sync-models -- --bucket s3://my-models/models --triton http://10.0.0.5:8000 --triton http://10.0.0.6:8000
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => syncModels(argv));
}

async function syncModels(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, {
    ...TARGET_FLAGS,
    models: { type: 'string' },
    exclude: { type: 'string' },
    prune: { type: 'boolean', default: false },
    yes: { type: 'boolean', default: false },
    migrate: { type: 'boolean', default: false },
    ...PUBLISH_FLAGS,
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const selection = parseSelection(flags);
  if (flags.migrate) requireOnlyMigration(flags);
  const opened = await openTarget({ ...flags, repo: flags.local ? flags.repo : undefined }, parseStoreFlags(flags));
  const target = { ...opened, flags };
  const repository = flags.repo ?? target.repository ?? paths.modelRepository;
  try {
    if (flags.migrate) return await runMigration(flags, target);
    return await runPublishCommand(`publish ${repository} to ${target.name}`, flags, target, (options) =>
      publish({
        ...options,
        repository,
        ...selection,
        prune: flags.prune,
        adaptToThisMachine: target.adaptToThisMachine,
      }),
    );
  } finally {
    await target.close();
  }
}
