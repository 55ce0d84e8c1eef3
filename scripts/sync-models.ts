import { basename } from 'node:path';
import { command, parseSelection } from '../src/cli/cli';
import { PUBLISH_FLAGS, PUBLISH_HELP, runPublishCommand } from '../src/commands/publish-command';
import { withTarget, TARGET_FLAGS, TARGET_HELP } from '../src/commands/target';
import { paths } from '../src/core/paths';
import { publish } from '../src/publish/publish';

const FLAGS = {
  ...TARGET_FLAGS,
  models: { type: 'string' },
  exclude: { type: 'string' },
  prune: { type: 'boolean', default: false },
  ...PUBLISH_FLAGS,
} as const;

const HELP = `Publishes a model repository to S3 as a release, which every replica tries before it becomes the current one. If a replica
refuses it, all go back to what they served.

  npm run sync-models -- --stack NAME [options]
  npm run sync-models -- --bucket s3://NAME/PREFIX [--triton URL --agent URL ...] [options]

${TARGET_HELP}  --repo DIR                 model repository to publish (default: ${basename(paths.modelRepository)}; with --local, the one that is served)
  --models A,B               publish only these models, and the models that their ensembles use
  --exclude A,B              publish all models except these
  --prune                    remove models from service that the model repository does not have;
                             "npm run releases -- --prune" deletes their files
${PUBLISH_HELP}
Examples:
  npm run sync-models -- --stack staging                      # all models, to the replicas of a stack
  npm run sync-models -- --stack prod --dry-run               # print the plan only
  npm run sync-models -- --local --models resnet,bert         # two models, to the running "npm run local"
  npm run sync-models -- --bucket s3://my-models/models --triton http://127.0.0.1:8000 --agent http://127.0.0.1:8092
`;

export const main = command({ help: HELP, flags: FLAGS }, async (flags) => {
  const selection = parseSelection(flags);
  return withTarget({ ...flags, repo: flags.local ? flags.repo : undefined }, (opened) => {
    const target = { ...opened, flags };
    const repository = flags.repo ?? target.repository ?? paths.modelRepository;
    return runPublishCommand(`publish ${repository} to ${target.name}`, flags, target, (options) =>
      publish({
        ...options,
        repository,
        ...selection,
        prune: flags.prune,
        adaptToThisMachine: target.adaptToThisMachine,
      }),
    );
  });
});
