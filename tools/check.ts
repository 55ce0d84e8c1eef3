import { spawnSync } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { EXIT, parseFlags, parseList, runCommand } from '../src/cli/cli';
import { UsageError } from '../src/core/errors';
import { formatDuration } from '../src/core/format';
import { paths } from '../src/core/paths';
import { Progress } from '../src/cli/progress';
import { ownModels } from './shipped-models';
import { ensurePython } from '../src/install/python';

const HELP = `Checks types, lint and format of TypeScript and Python, imports between folders, spelling, npm packages, and unit tests.

  npm run check [-- options]

  --only A,B  only checks whose name contains one of these words, such as format or Python
  --static    all checks but the unit tests
  --fix       formatters and linters repair files
  --help

Your own models in model-repo/ are excluded; npm run validate checks them.

Exit codes: 0 all checks passed, 1 a check failed, 2 wrong command line.
`;

const ATTW = '@arethetypeswrong/cli/dist/index.js';
const UNIT_TESTS = 'unit tests';

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => check(argv));
}

async function check(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, {
    only: { type: 'string' },
    static: { type: 'boolean', default: false },
    fix: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const words = parseList('only', flags.only);
  const { python, bin } = await new Progress().run('Python environment', (step) =>
    ensurePython(step, { development: true }),
  );
  const node = (name: string, path: string, ...args: string[]): Check => ({
    name,
    command: process.execPath,
    args: [join(paths.root, 'node_modules', ...path.split('/')), ...args],
  });
  const py = (name: string, ...args: string[]): Check => ({ name, command: python, args: ['-m', ...args] });
  const own = ownModels().map((name) => `model-repo/${name}`);
  const checks = [
    node('types (TypeScript)', 'typescript/bin/tsc', '-p', '.'),
    node(
      'lint (TypeScript)',
      'eslint/bin/eslint.js',
      '.',
      '--max-warnings=0',
      ...own.flatMap((folder) => ['--ignore-pattern', `${folder}/**`]),
      ...(flags.fix ? ['--fix'] : []),
    ),
    node(
      'imports between folders',
      'dependency-cruiser/bin/dependency-cruise.mjs',
      '--config=.dependency-cruiser.mjs',
      ...['src', 'infra', 'policy', 'scripts', 'tools', 'client', 'test'],
    ),
    node(
      'format (TypeScript, YAML, Markdown)',
      'prettier/bin/prettier.cjs',
      flags.fix ? '--write' : '--check',
      '--log-level=warn',
      '.',
      ...own.map((folder) => `!${folder}/**`),
    ),
    node(
      'spelling',
      'cspell/bin.mjs',
      'lint',
      '--no-progress',
      '--no-summary',
      '--gitignore-root=.',
      '.',
      ...own.flatMap((folder) => ['--exclude', folder]),
    ),
    // The checks of types build the packages too, because they pack them with their scripts.
    node('npm package (types)', ATTW, '--pack', '.', '--format=ascii', '--entrypoints', 'components'),
    node('npm package (contents)', 'publint/src/cli.js', '--pack=npm', '--strict'),
    node('client package (types)', ATTW, '--pack', 'client', '--format=ascii'),
    node('client package (contents)', 'publint/src/cli.js', 'client', '--pack=npm', '--strict'),
    py('lint (Python)', 'ruff', 'check', '--quiet', ...(flags.fix ? ['--fix'] : []), ...excluded(own), '.'),
    py('format (Python)', 'ruff', 'format', '--quiet', ...(flags.fix ? [] : ['--check']), ...excluded(own), '.'),
    py('types (Python)', 'mypy', 'python/tracing', 'python/backends', 'python/model_packages', 'python/environment.py'),
    node(UNIT_TESTS, 'jest/bin/jest.js', '--selectProjects', 'unit', '--silent', '--reporters=default'),
  ];
  const chosen = checks.filter(
    ({ name }) => (words?.some((word) => name.includes(word)) ?? true) && !(flags.static && name === UNIT_TESTS),
  );
  if (chosen.length === 0) {
    const names = checks.map(({ name }) => name).join(', ');
    throw new UsageError(`--only ${flags.only}: unknown check`, { hint: `the checks are: ${names}` });
  }
  // Linters that are Python packages are in this folder.
  const path = [bin, process.env['PATH'] ?? ''].join(delimiter);
  const failed = chosen.filter((one) => !passes(one, path)).map(({ name }) => name);
  if (failed.length === 0) return EXIT.ok;
  process.stderr.write(`\nfailed: ${failed.join(', ')}\n  -> "npm run check -- --fix" repairs lint and format\n`);
  return EXIT.failed;
}

/** Flags of ruff for excluded folders. */
const excluded = (folders: readonly string[]): string[] => folders.flatMap((folder) => ['--extend-exclude', folder]);

interface Check {
  name: string;
  command: string;
  args: string[];
}

function passes({ name, command, args }: Check, path: string): boolean {
  const started = Date.now();
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd: paths.root,
    encoding: 'utf8',
    env: { ...process.env, PATH: path },
    maxBuffer: 1 << 28,
  });
  const ok = status === 0;
  process.stderr.write(`${ok ? 'ok  ' : 'FAIL'} ${name} (${formatDuration(Date.now() - started)})\n`);
  if (!ok) process.stderr.write(`${stdout}${stderr}`);
  return ok;
}
