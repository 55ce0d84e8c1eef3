import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { paths } from '../../../src/core/paths';
import { Scratch } from '../../support/temp-dir';

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.clean());

const LAYER = 'src: a layer imports only those below it';

/** An import that must not be, and the rule of .dependency-cruiser.mjs that finds it. */
const FORBIDDEN: { from: string; to: string; rule: string }[] = [
  { from: 'src/core/a', to: 'src/s3/a', rule: LAYER },
  { from: 'src/s3/b', to: 'src/triton/b', rule: LAYER },
  { from: 'src/triton/c', to: 'src/model/c', rule: LAYER },
  { from: 'src/model/d', to: 'src/publish/d', rule: LAYER },
  { from: 'src/publish/e', to: 'src/local/e', rule: LAYER },
  { from: 'src/local/f', to: 'src/commands/f', rule: LAYER },
  { from: 'src/core/g', to: 'infra/g', rule: 'src imports src only' },
  { from: 'src/core/h', to: 'scripts/h', rule: 'src imports src only' },
  { from: 'src/core/i', to: 'src/elsewhere/i', rule: 'src has no folder without a layer' },
  { from: 'infra/j', to: 'tools/j', rule: 'infra imports infra and src only' },
  { from: 'infra/k', to: 'scripts/k', rule: 'infra imports infra and src only' },
  { from: 'scripts/l', to: 'tools/l', rule: 'scripts import no tools and tests' },
  { from: 'tools/m', to: 'test/support/m', rule: 'tools import no tests' },
  { from: 'policy/n', to: 'test/support/n', rule: 'policy imports no commands and tests' },
  { from: 'test/support/o', to: 'test/unit/o', rule: 'test/support imports no tests' },
  { from: 'test/integration/p', to: 'tools/toolchain/go', rule: 'tests of npm test need no Go' },
];

interface Report {
  summary: { violations: { from: string; to: string; rule: { name: string } }[] };
}

/** What the rules find in files, each with the given imports. */
function violations(files: Record<string, string[]>): { from: string; to: string; rule: string }[] {
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(scratch.directory, file)), { recursive: true });
    writeFileSync(join(scratch.directory, file), text);
  };
  write('tsconfig.json', '{}');
  for (const [file, imports] of Object.entries(files))
    write(
      `${file}.ts`,
      ['export {};', ...imports.map((to) => `void import('./${relative(dirname(file), to)}');`)].join('\n'),
    );
  const program = join(paths.root, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs');
  const config = join(paths.root, '.dependency-cruiser.mjs');
  const output = execFileSync(process.execPath, [program, `--config=${config}`, '--output-type=json', '.'], {
    cwd: scratch.directory,
    encoding: 'utf8',
  });
  return (JSON.parse(output) as Report).summary.violations.map(({ from, to, rule }) => ({
    from: from.replace(/\.ts$/, ''),
    to: to.replace(/\.ts$/, ''),
    rule: rule.name,
  }));
}

test('each forbidden import is found, and no other', () => {
  const files: Record<string, string[]> = {};
  for (const { from, to } of FORBIDDEN) {
    files[from] = [to];
    files[to] ??= [];
  }
  // Each layer may import the lowest one.
  files['src/local/allowed'] = ['src/core/a'];
  files['infra/allowed'] = ['src/core/a'];
  const found = violations(files);
  const order = (a: { from: string }, b: { from: string }): number => a.from.localeCompare(b.from);
  expect(found.sort(order)).toEqual([...FORBIDDEN].sort(order));
});

test('a circle is found', () => {
  const found = violations({ 'src/core/x': ['src/core/y'], 'src/core/y': ['src/core/x'] });
  expect(found.map(({ rule }) => rule)).toEqual(['no circles']);
});
