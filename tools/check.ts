import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { EXIT, parseList } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { forEachLimited } from '../src/core/concurrency';
import { UsageError } from '../src/core/errors';
import { formatDuration } from '../src/core/format';
import { paths } from '../src/core/paths';
import { Progress } from '../src/cli/progress';
import { ownModels } from './shipped-models';
import { cacheRoot, makeDirectory } from '../src/local/install/cache';
import { ensurePython } from '../src/local/install/python';

/** Checks that run at the same time: tsc and eslint need a core and up to 2.4 GB each. */
const AT_ONCE = 2;
const UNIT_TESTS = 'unit tests';

const FLAGS = {
  only: { value: 'A,B', help: 'only checks whose name contains one of these words, such as format or Python' },
  static: { help: 'all checks but the unit tests' },
  fix: { help: 'formatters and linters repair files' },
} as const;

const LINE = {
  name: 'npm run check',
  about:
    'Checks types, lint and format of TypeScript and Python, imports between folders, spelling, the npm package, and unit tests.',
  flags: FLAGS,
  notes: `Your own models in model-repo/ are excluded; npm run validate checks them.

Exit codes: 0 all checks passed, 1 a check failed, 2 wrong command line.`,
};

export const main = command(LINE, async (flags) => {
  const words = parseList('only', flags.only);
  const { python, bin } = await new Progress().run('Python environment', (step) =>
    ensurePython(step, { development: true }),
  );
  const module = (path: string, ...args: string[]): Command => [
    process.execPath,
    [join(paths.root, 'node_modules', ...path.split('/')), ...args],
  ];
  const node = (name: string, path: string, ...args: string[]): Check => ({
    name,
    getCommands: () => [module(path, ...args)],
  });
  const py = (name: string, ...args: string[]): Check => ({
    name,
    getCommands: () => [[python, ['-m', ...args]]],
  });
  const scratch = mkdtempSync(join(tmpdir(), 'triton-serving-check-'));
  // npm packs the package once, and both tools read the tarball.
  const npmPackage = (): Command[] => {
    const manifest = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as Record<string, string>;
    const file = join(scratch, `${manifest['name']}-${manifest['version']}.tgz`);
    return [
      ['npm', ['pack', '--silent', '--pack-destination', scratch]],
      module('@arethetypeswrong/cli/dist/index.js', file, '--format=ascii', '--entrypoints', 'components'),
      module('publint/src/cli.js', file, '--strict'),
    ];
  };
  const cache = join(cacheRoot(), `check-${createHash('sha256').update(paths.root).digest('hex').slice(0, 12)}`);
  makeDirectory(cache);
  // The results of unchanged files are cached by content. A changed type can affect the lint of other files, which only a
  // run with an empty cache, as in CI, finds.
  const cached = (name: string): string[] => [
    '--cache',
    '--cache-strategy=content',
    `--cache-location=${join(cache, name)}`,
  ];
  const own = ownModels().map((name) => `model-repo/${name}`);
  // The longest first.
  const checks = [
    node(
      'lint (TypeScript)',
      'eslint/bin/eslint.js',
      '.',
      ...cached('eslint'),
      '--max-warnings=0',
      ...own.flatMap((folder) => ['--ignore-pattern', `${folder}/**`]),
      ...(flags.fix ? ['--fix'] : []),
    ),
    node(
      'types (TypeScript)',
      'typescript/bin/tsc',
      ...['-p', '.', '--incremental', '--tsBuildInfoFile', join(cache, 'tsc.tsbuildinfo')],
    ),
    { name: 'npm package', getCommands: npmPackage },
    node(
      'imports between folders',
      'dependency-cruiser/bin/dependency-cruise.mjs',
      '--config=.dependency-cruiser.mjs',
      ...['src', 'infra', 'policy', 'scripts', 'tools', 'test'],
    ),
    node(
      'format (TypeScript, YAML, Markdown)',
      'prettier/bin/prettier.cjs',
      flags.fix ? '--write' : '--check',
      '--log-level=warn',
      ...cached('prettier'),
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
      ...cached('cspell'),
      '.',
      ...own.flatMap((folder) => ['--exclude', folder]),
    ),
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
  const failed: string[] = [];
  try {
    await forEachLimited(chosen, AT_ONCE, async (one) => {
      if (!(await passes(one, path))) failed.push(one.name);
    });
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  if (failed.length === 0) return EXIT.ok;
  process.stderr.write(`\nfailed: ${failed.join(', ')}\n  -> "npm run check -- --fix" repairs lint and format\n`);
  return EXIT.failed;
});

/** Flags of ruff for excluded folders. */
const excluded = (folders: readonly string[]): string[] => folders.flatMap((folder) => ['--extend-exclude', folder]);

interface Check {
  name: string;
  /** Run one after the other, until one fails. */
  getCommands: () => Command[];
}

type Command = [program: string, args: string[]];

async function passes({ name, getCommands }: Check, path: string): Promise<boolean> {
  const started = Date.now();
  const options = { cwd: paths.root, env: { ...process.env, PATH: path }, maxBuffer: 1 << 28 };
  let output = '';
  let ok = true;
  try {
    for (const [program, args] of getCommands()) await promisify(execFile)(program, args, options);
  } catch (error) {
    ok = false;
    const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string };
    output = `${stdout}${stderr}` || `${message}\n`;
  }
  process.stderr.write(`${ok ? 'ok  ' : 'FAIL'} ${name} (${formatDuration(Date.now() - started)})\n${output}`);
  return ok;
}
