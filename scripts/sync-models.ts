import { parseSelection } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { BAKE_FLAGS, PUBLISH_FLAGS, PUBLISH_NOTES, runPublishCommand } from '../src/commands/publish-command';
import { withTarget, TARGET_FLAGS } from '../src/commands/target';
import { paths } from '../src/core/paths';
import { publish } from '../src/publish/publish';

const FLAGS = {
  ...TARGET_FLAGS,
  repo: {
    value: 'DIR',
    help: 'model repository to publish (default: model-repo; with --local, the one that is served)',
  },
  models: { value: 'A,B', help: 'publish only these models, and the models that their ensembles use' },
  exclude: { value: 'A,B', help: 'publish all models except these' },
  prune: {
    help: 'remove models from service that the model repository does not have; "npm run releases -- --prune" deletes their files',
  },
  ...PUBLISH_FLAGS,
  ...BAKE_FLAGS,
} as const;

const LINE = {
  name: 'npm run sync-models',
  about:
    'Publishes a model repository to S3 as a release, which every replica tries before it becomes the current one. If a replica refuses it, all go back to what they served.',
  flags: FLAGS,
  notes: `Examples:
  npm run sync-models -- --stack staging                      # all models, to the replicas of a stack
  npm run sync-models -- --stack prod --dry-run               # print the plan only
  npm run sync-models -- --local --models resnet,bert         # two models, to the running "npm run local"
  npm run sync-models -- --bucket s3://my-models/models --triton http://127.0.0.1:8000 --agent http://127.0.0.1:8092

${PUBLISH_NOTES}`,
};

export const main = command(LINE, async (flags) => {
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
        buildTarget: target.cluster?.builder?.target,
      }),
    );
  });
});
