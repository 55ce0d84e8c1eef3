import { parseArgs } from 'node:util';
import { formatProblem } from './lib/errors';
import { readRepository, type RepositoryModel } from './lib/model';

const USAGE = `Checks a model repository without a server: npm run validate -- [options]

  --repo DIR       the repository; default: model-repo
  --models a,b     only these models, and those that their ensembles need
  --exclude a,b    all but these models
  --json           models and problems as JSON

Exit code: 0 all is well, 1 there are problems, 2 the command line is wrong.`;

/** Checks the repository and prints its models and what is wrong with them. Returns the exit code. */
export async function main(argv: string[]): Promise<number> {
  const options = parse(argv);
  if (typeof options === 'number') return options;
  const { models, problems, added } = await readRepository(options.repo, options);
  if (options.json) {
    console.log(JSON.stringify({ models: models.map(summary), problems, added }, bigintsAsText, 2));
  } else {
    if (added.length > 0) console.log(`Needed by ensembles, and so checked too: ${added.join(', ')}\n`);
    if (models.length > 0) console.log(`${table(models)}\n`);
    for (const problem of problems) console.error(formatProblem(problem));
    console.log(
      problems.length === 0
        ? `${count(models.length, 'model')}, no problems`
        : `\n${count(problems.length, 'problem')}`,
    );
  }
  return problems.length === 0 ? 0 : 1;
}

interface Options {
  repo: string;
  models?: string[];
  exclude?: string[];
  json: boolean;
}

/** The options, or the exit code where there is nothing more to do. */
function parse(argv: string[]): Options | number {
  try {
    const { values } = parseArgs({
      args: argv,
      options: {
        repo: { type: 'string', default: 'model-repo' },
        models: { type: 'string' },
        exclude: { type: 'string' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    if (values.help) {
      console.log(USAGE);
      return 0;
    }
    return {
      repo: values.repo,
      json: values.json,
      ...(values.models === undefined ? {} : { models: names('--models', values.models) }),
      ...(values.exclude === undefined ? {} : { exclude: names('--exclude', values.exclude) }),
    };
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return 2;
  }
}

function names(option: string, list: string): string[] {
  const result = list
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  if (result.length === 0) throw new Error(`${option} names no model, got "${list}"`);
  return result;
}

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;

/** Columns as wide as their widest cell. */
function table(models: readonly RepositoryModel[]): string {
  const rows = [
    ['MODEL', 'VERSIONS', 'PLATFORM', 'BATCHING', 'FILES', 'SIZE'],
    ...models.map((model) => [
      model.name,
      model.versions.map(({ version }) => version).join(',') || '-',
      model.platform,
      batching(model),
      String(files(model).length),
      size(bytes(model)),
    ]),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function batching({ config }: RepositoryModel): string {
  const limit = config.max_batch_size ?? 0;
  const how = config.dynamic_batching ? 'dynamic' : config.sequence_batching ? 'sequence' : '';
  return limit > 0 ? [`up to ${limit}`, how].filter((word) => word !== '').join(', ') : how || '-';
}

const files = ({ versions, extraFiles }: RepositoryModel): { bytes: number }[] => [
  ...versions.flatMap((version) => version.files),
  ...extraFiles,
];

/** Size of all files, config.pbtxt left out. */
const bytes = (model: RepositoryModel): number => files(model).reduce((sum, file) => sum + file.bytes, 0);

function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const unit = Math.min(3, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** unit).toFixed(1)} ${['B', 'KiB', 'MiB', 'GiB'][unit]}`;
}

function summary(model: RepositoryModel): Record<string, unknown> {
  return {
    name: model.name,
    platform: model.platform,
    versions: model.versions.map(({ version }) => version),
    files: files(model).length,
    bytes: bytes(model),
    config: model.config,
  };
}

const bigintsAsText = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);

if (require.main === module) {
  void main(process.argv.slice(2)).then((code) => {
    process.exitCode = code;
  });
}
