import { join, relative, resolve } from 'node:path';
import { EXIT, parseFlagsAndArguments, runCommand } from '../src/cli/cli';
import { UsageError } from '../src/core/errors';
import { paths } from '../src/core/paths';
import { displayPath } from '../src/model/paths';
import { createProject, MODEL_KINDS, type ModelKind } from '../src/init/create-project';

const FLAGS = {
  kind: { type: 'string', default: 'torchscript' },
  help: { type: 'boolean', default: false },
} as const;

const HELP = `Makes a folder for models of your own: a first model, Pulumi stacks for staging and prod, and a workflow.

  npm run init -- FOLDER [options]

  --kind KIND  the first model: ${MODEL_KINDS.join(', ')} (default: ${FLAGS.kind.default})
  --help       print this text

The model converts degrees Fahrenheit to degrees Celsius. Nothing is installed, and nothing is created in the cloud.

Examples:
  npm run init -- my-models
  npm run init -- my-models --kind python

Exit codes: 0 done, 1 failed, 2 wrong command line.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => Promise.resolve(init(argv)));
}

function init(argv: readonly string[]): number {
  const { flags, positionals } = parseFlagsAndArguments(argv, FLAGS, 1, ['FOLDER']);
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const [folder] = positionals;
  if (folder === undefined) throw new UsageError('the folder is missing', { hint: 'npm run init -- my-models' });
  const kind = MODEL_KINDS.find((name) => name === flags.kind);
  if (kind === undefined) throw wrongKind(flags.kind);
  const files = createProject(resolve(folder), kind);
  process.stdout.write(`${[`${displayPath(resolve(folder))}:`, ...files.map((file) => `  ${file}`)].join('\n')}

${nextSteps(kind, relative('', resolve(folder)))}
`);
  return EXIT.ok;
}

const wrongKind = (kind: string): UsageError =>
  new UsageError(`--kind ${kind}: no such kind`, { hint: `kinds: ${MODEL_KINDS.join(', ')}` });

function nextSteps(kind: ModelKind, folder: string): string {
  const trace = kind === 'python' ? '' : ', after it has been traced';
  // The project of a clone cannot use npx until the package is published.
  if (!paths.isInstalled) {
    return `Next: npm run local -- --repo ${join(folder, 'model-repo')} serves the model on this machine${trace}`;
  }
  return `Next, in ${folder || 'this folder'}:
  npx triton-serving local    serves the model on this machine${trace}
  npm install                 for Pulumi: README.md describes the way to the cloud`;
}
