import { EXIT, parseSelection } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { formatProblem, UsageError, type Problem } from '../src/core/errors';
import { exactValue } from '../src/core/exact-json';
import { formatBytes, formatCount, formatTable } from '../src/core/format';
import {
  adviceFor,
  defaultRelease,
  formatGiB,
  memoryAdvice,
  readRepository,
  serverMemory,
  staleTraces,
  TRITON_RELEASES,
  type Repository,
  type RepositoryModel,
  type SourceFile,
} from '../src/model';
import { paths } from '../src/core/paths';
import { describe } from '../src/core/problems';

const FLAGS = {
  repo: { value: 'DIR', default: paths.modelRepository, help: 'model repository to check' },
  models: { value: 'A,B', help: 'check only these models, and the models that their ensembles use' },
  exclude: { value: 'A,B', help: 'check all models except these' },
  triton: { value: 'YY.MM', help: 'release of Triton that serves the models (default: that of the Dockerfile)' },
  json: { help: 'print models, problems and warnings as JSON' },
} as const;

const LINE = {
  name: 'npm run validate',
  about: 'Checks a model repository without a server: configurations, ensembles, versions and files.',
  flags: FLAGS,
  notes: `Examples:
  npm run validate
  npm run validate -- --models resnet,bert
  npm run validate -- --repo ../models --json
  npm run validate -- --triton 26.05    # before a stack gets the image of this release

A model whose files changed since its trace gets a warning, which does not change the exit code.

Exit codes: 0 no problems, 1 problems were found, 2 wrong command line.`,
};

/** Prints the models of a repository and their problems. Returns the exit code. */
export const main = command(LINE, async (flags) => {
  const repository = await readRepository(flags.repo, { ...parseSelection(flags), triton: parseRelease(flags.triton) });
  const warnings = await staleTraces(repository.models);
  if (flags.json) process.stdout.write(`${asJson(repository, warnings)}\n`);
  else print(repository, warnings);
  return repository.problems.length === 0 ? EXIT.ok : EXIT.failed;
});

function parseRelease(given: string | undefined): string {
  const known = Object.keys(TRITON_RELEASES);
  if (given === undefined) return defaultRelease();
  if (known.includes(given)) return given;
  throw new UsageError(`unknown release of Triton: ${describe(given)}`, {
    hint: `give one from ${known[0]} to ${known.at(-1)}, such as --triton ${known.at(-1)}`,
  });
}

function print({ models, problems, added }: Repository, warnings: readonly Problem[]): void {
  if (models.length > 0) process.stdout.write(`${table(models)}\n\n${memoryText(models)}`);
  if (added.length > 0) process.stdout.write(`Added, because an ensemble uses them: ${added.join(', ')}\n`);
  for (const problem of problems) process.stderr.write(`${formatProblem(problem)}\n`);
  for (const warning of warnings) process.stderr.write(`warning: ${formatProblem(warning)}\n`);
  for (const advice of adviceOn(models)) process.stderr.write(`hint: ${formatProblem(advice)}\n`);
  process.stdout.write(`${formatCount(models.length, 'model')}, ${formatCount(problems.length, 'problem')}\n`);
}

const adviceOn = (models: readonly RepositoryModel[]): Problem[] => [
  ...models.flatMap(adviceFor),
  ...memoryAdvice(serverMemory(models)),
];

/** One line; empty if no model has files yet. */
function memoryText(models: readonly RepositoryModel[]): string {
  const memory = serverMemory(models);
  if (memory.models.every(({ weights }) => weights === 0)) return '';
  const gpu = memory.gpu > 0 ? ` and ${formatGiB(memory.gpu)} of each GPU` : '';
  return `Estimated peak memory: ${formatGiB(memory.local)} for npm run local; ${formatGiB(memory.main)} of main memory${gpu} in a pod\n`;
}

const table = (models: readonly RepositoryModel[]): string =>
  formatTable(
    ['model', 'versions', 'served', 'platform', 'batching', 'files', 'size'],
    models.map((model) => [
      model.name,
      numbers(versionNumbers(model)),
      served(model),
      model.platform,
      batching(model),
      String(files(model).length),
      formatBytes(bytes(model)),
    ]),
  );

const numbers = (versions: readonly number[]): string => (versions.length === 0 ? '-' : versions.join(' '));

/** The served versions; versions without a folder are marked as missing. */
function served(model: RepositoryModel): string {
  const there = versionNumbers(model);
  const words = model.served.map((version) => (there.includes(version) ? String(version) : `${version} (missing)`));
  return words.length === 0 ? '-' : words.join(' ');
}

/** `up to 8, dynamic`; `-` if Triton adds no batch axis and does not batch. */
function batching({ config }: RepositoryModel): string {
  const limit = config.max_batch_size ?? 0;
  const words = [
    ...(limit > 0 ? [`up to ${limit}`] : []),
    ...(config.dynamic_batching === undefined ? [] : ['dynamic']),
    ...(config.sequence_batching === undefined ? [] : ['sequence']),
  ];
  return words.length === 0 ? '-' : words.join(', ');
}

const versionNumbers = ({ versions }: RepositoryModel): number[] => versions.map(({ version }) => version);

/** All published files of a model, except its config.pbtxt. */
const files = ({ versions, extraFiles }: RepositoryModel): SourceFile[] => [
  ...versions.flatMap((version) => version.files),
  ...extraFiles,
];

const bytes = (model: RepositoryModel): number => files(model).reduce((sum, file) => sum + file.bytes, 0);

function asJson({ models, problems, added }: Repository, warnings: readonly Problem[]): string {
  const summaries = models.map((model) => ({
    name: model.name,
    platform: model.platform,
    versions: versionNumbers(model),
    served: model.served,
    files: files(model).length,
    bytes: bytes(model),
    config: model.config,
  }));
  return JSON.stringify(
    { models: summaries, problems, warnings, advice: adviceOn(models), memory: serverMemory(models), added },
    exactValue,
    2,
  );
}
