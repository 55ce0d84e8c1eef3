import { basename, extname, join, relative, resolve } from 'node:path';
import { EXIT } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { UsageError } from '../src/core/errors';
import { nextCommand, repoFlag } from '../src/core/next-command';
import { paths } from '../src/core/paths';
import { displayPath } from '../src/model/paths';
import { createProject } from '../src/commands/init/create-project';
import { createModelFromFile } from '../src/commands/init/model-from-file';
import { main as validate } from './validate';

const FLAGS = {
  from: {
    value: 'FILE',
    help: 'model.onnx, model.pt2 or model.pt, which is copied into the folder of the model; model.yaml is written for it',
  },
  input: {
    value: 'TYPE:DIMS',
    multiple: true,
    default: [] as string[],
    help: 'an input of a TorchScript file, which has no data types and dims: without the batch axis, -1 for an axis of any size; repeat the flag for several inputs, in their order',
  },
  repo: { value: 'DIR', default: paths.modelRepository, help: 'model repository in which the model is made' },
} as const;

const LINE = {
  name: 'npm run init',
  about: 'Makes a folder for a model from a file of PyTorch or ONNX, or a project for models of your own.',
  arguments: {
    '[NAME]':
      'with --from: name of the model (default: the name of the file); otherwise new folder for a project: a first model that converts degrees Fahrenheit to degrees Celsius, Pulumi stacks for staging and prod, and a workflow',
  },
  flags: FLAGS,
  notes: `A TorchScript file is run with small numbers to find its outputs. With --from, the model is then validated. For a project,
nothing is installed, and nothing is created in the cloud.

Examples:
  npm run init -- --from ~/downloads/detector.onnx
  npm run init -- --from encoder.pt encoder --input INT64:-1 --input INT64:-1
  npm run init -- my-models

Exit codes: 0 done, 1 failed, 2 wrong command line.`,
};

export const main = command(LINE, async (flags, [name]) => {
  if (flags.from !== undefined) return initModel(resolve(flags.from), resolve(flags.repo), name, flags.input);
  if (name === undefined) {
    throw new UsageError('the model file or the folder is missing', {
      hint: 'a model: npm run init -- --from model.onnx; a project: npm run init -- my-models',
    });
  }
  const files = createProject(resolve(name));
  process.stdout.write(`${[`${displayPath(resolve(name))}:`, ...files.map((file) => `  ${file}`)].join('\n')}

${nextSteps(relative('', resolve(name)))}
`);
  return EXIT.ok;
});

async function initModel(file: string, repository: string, given: string | undefined, inputs: readonly string[]) {
  const name = given ?? basename(file, extname(file));
  if (/[^\w.-]|^\./.test(name)) {
    throw new UsageError(`"${name}" cannot be the name of a model`, {
      hint: 'use letters, digits, "_", "-" and ".": npm run init -- --from FILE NAME',
    });
  }
  const folder = join(repository, name);
  await createModelFromFile(file, folder, inputs);
  process.stdout.write(`${displayPath(folder)} has the file and a model.yaml that describes it.\n\n`);
  const selected = ['--models', name, ...repoFlag(repository)];
  const code = await validate(['--models', name, '--repo', repository]);
  process.stdout.write(`\nNext: ${nextCommand('validate', ...selected)}    after each change of model.yaml
      ${nextCommand('local', ...selected)}    serves the model on this machine\n`);
  return code;
}

function nextSteps(folder: string): string {
  // The project of a clone cannot use npx until the package is published.
  if (!paths.isInstalled) {
    return `Next: npm run local -- --repo ${join(folder, 'model-repo')} serves the model on this machine, after it has been traced`;
  }
  return `Next, in ${folder || 'this folder'}:
  npx triton-serving local    serves the model on this machine, after it has been traced
  npm install                 for Pulumi: README.md describes the way to the cloud`;
}
