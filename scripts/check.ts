import { spawnSync } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { EXIT, parseFlags, runCommand } from './lib/cli';
import { formatDuration } from './lib/format';
import { paths } from './lib/paths';
import { Progress } from './lib/progress';
import { ensurePython } from './lib/toolchain/python';

const HELP = `Types, lint and format of TypeScript and Python, and the unit tests.

  npm run check [-- --fix]

  --fix   let formatters and linters put right what they can
  --help

Exit codes: 0 all is well, 1 something is not, 2 wrong command line.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => check(argv));
}

async function check(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, {
    fix: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const { python, bin } = await new Progress().run('Python environment', (step) =>
    ensurePython(step, { development: true }),
  );
  const node = (name: string, path: string, ...args: string[]): Check => ({
    name,
    command: process.execPath,
    args: [join(paths.root, 'node_modules', ...path.split('/')), ...args],
  });
  const py = (name: string, ...args: string[]): Check => ({ name, command: python, args: ['-m', ...args] });
  const checks = [
    node('types (TypeScript)', 'typescript/bin/tsc', '-p', '.'),
    node('lint (TypeScript)', 'eslint/bin/eslint.js', '.', '--max-warnings=0', ...(flags.fix ? ['--fix'] : [])),
    node(
      'format (TypeScript, YAML, Markdown)',
      'prettier/bin/prettier.cjs',
      flags.fix ? '--write' : '--check',
      '--log-level=warn',
      '.',
    ),
    py('lint (Python)', 'ruff', 'check', '--quiet', ...(flags.fix ? ['--fix'] : []), '.'),
    py('format (Python)', 'ruff', 'format', '--quiet', ...(flags.fix ? [] : ['--check']), '.'),
    py('types (Python)', 'mypy', 'scripts/tracing', 'scripts/backends'),
    node('unit tests', 'jest/bin/jest.js', '--selectProjects', 'unit', '--silent', '--reporters=default'),
  ];
  // Linters that come as Python packages are found there.
  const path = [bin, process.env['PATH'] ?? ''].join(delimiter);
  const failed = checks.filter((one) => !passes(one, path)).map(({ name }) => name);
  if (failed.length === 0) return EXIT.ok;
  process.stderr.write(`\nfailed: ${failed.join(', ')}\n  -> "npm run check -- --fix" puts right what tools can\n`);
  return EXIT.failed;
}

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
