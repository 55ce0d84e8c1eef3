import { EXIT, parseFlags, parseSelection, runCommand } from '../src/cli/cli';
import { CHANGE_FLAGS, CHANGE_HELP, parseConcurrency, runChange } from '../src/commands/change-command';
import { openTarget, TARGET_FLAGS, TARGET_HELP } from '../src/commands/target';
import { paths } from '../src/core/paths';
import { publish } from '../src/publish/publish';

const HELP = `Publishes a model repository to S3 and gets every running Triton server to serve it, or leaves both as they were.

  npm run sync-models -- --stack NAME [options]
  npm run sync-models -- --bucket s3://NAME/PREFIX [--triton URL ...] [options]

${TARGET_HELP}  --repo DIR                 model repository to publish (default: model-repo; with --local the one that it serves)
  --models A,B               only these; what an ensemble is made of comes along
  --exclude A,B              all but these
  --prune                    delete from the bucket what the repository does not have: models (not with --models), versions,
                             files
  --yes                      do not ask before that
${CHANGE_HELP}`;

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
    ...CHANGE_FLAGS,
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const selection = parseSelection(flags);
  const target = await openTarget(
    { ...flags, repo: flags.local ? flags.repo : undefined },
    { concurrency: parseConcurrency(flags) },
  );
  const repository = flags.repo ?? target.repository ?? paths.modelRepository;
  try {
    return await runChange(`publish ${repository} to ${target.name}`, flags, target, (options) =>
      publish({
        ...options,
        repository,
        ...selection,
        prune: flags.prune,
        adapt: target.adapt,
      }),
    );
  } finally {
    await target.close();
  }
}
