// `npm run mutants`: changes one operator, condition or block of the source at a time, and runs the unit tests that reach
// it. A change that no test notices shows a behaviour that no unit test fixes.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { clearTimeout, setTimeout } from 'node:timers';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createInstrumenter } from '@stryker-mutator/instrumenter';

const HELP = `Applies mutants of StrykerJS to the committed source, one at a time, and runs the unit tests that reach them.

  npm run mutants [-- options]

  --draw N      adds to test/data/mutants.json the first N mutants of src and infra in an order that is always the same.
                Default: applies the mutants of that file again
  --minutes N   starts no further mutant after N minutes (default 600)
  --help

Writes test/data/mutants.json, and fails if a mutant is alive that was killed when the file was written.
`;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const LIST = join(root, 'test/data/mutants.json');
/** A mutant may make tests wait or loop forever. */
const getTimeout = (usualMs) => 60_000 + 5 * usualMs;

/** Lists of mutants that have suites of their own: the command that applies them, their files, what one looks like. */
const OTHER_LISTS = [
  [
    'guards of the specification',
    '--only proof',
    ['test/proof/Publish.tla', 'test/proof/Switch.tla', 'test/proof/Lease.tla'],
    /On\("\w+"\)/g,
  ],
  ['guards of the code', '--long --only proof', ['test/support/simulation/mutants.ts'], /^ {2}'.+': \{$/gm],
];
/** Lists of mutants that are unit tests, and their titles. */
const UNIT_LISTS = [
  ['malformed repositories', /^readRepository with malformed repositories reports exactly/],
  ['changes of stacks that a policy reports', /^\S+ \w+ \S+ \S+ with another /],
];

async function main() {
  const { values } = parseArgs({
    options: { draw: { type: 'string' }, minutes: { type: 'string', default: '600' }, help: { type: 'boolean' } },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const end = Date.now() + Number(values.minutes) * 60_000;
  const before = existsSync(LIST) ? JSON.parse(readFileSync(LIST, 'utf8')) : [];
  const scratch = mkdtempSync(join(tmpdir(), 'mutants-'));
  try {
    const copy = join(scratch, 'copy');
    execFileSync('git', ['clone', '--quiet', '--shared', root, copy]);
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const { mutants, files } = await findMutants(copy);
    const list = new Map(before.map((one) => [one.hash, one]));
    const drawn =
      values.draw === undefined
        ? mutants.filter(({ hash }) => list.has(hash))
        : mutants.slice(0, values.draw).filter(({ hash }) => !list.has(hash));
    const instrumented = new Set(drawn.map(({ file }) => file));
    for (const { name, content } of files) if (instrumented.has(name)) writeFileSync(join(copy, name), content);
    const tests = await runAllTests(copy, scratch);
    for (const mutant of drawn) {
      if (Date.now() > end) break;
      list.set(mutant.hash, await runMutant(copy, mutant, tests));
      process.stdout.write(`${describe(list.get(mutant.hash))}\n`);
    }
    const after = mutants.flatMap(({ hash }) => list.get(hash) ?? []);
    writeFileSync(LIST, `[\n${after.map((one) => `  ${JSON.stringify(one)}`).join(',\n')}\n]\n`);
    return report(before, after, tests.titles);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

const describe = ({ file, line, mutator, status, by }) =>
  `${file}:${line} ${mutator} ${status}${by ? ` by ${by}` : ''}`;
const sha256 = (...parts) => createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, 12);

/**
 * All mutants of the source, in the order in which they are drawn, and the source with all of them in it.
 *
 * The hash of a mutant contains no line number, so that a change elsewhere in the file does not replace drawn mutants.
 */
async function findMutants(copy) {
  const names = execFileSync('git', ['ls-files', 'src/**/*.ts', 'infra/**/*.ts'], { cwd: copy, encoding: 'utf8' })
    .trim()
    .split('\n')
    .filter((name) => !name.endsWith('.d.ts') && !name.startsWith('src/commands/init/project/'));
  const sources = new Map(names.map((name) => [name, readFileSync(join(copy, name), 'utf8')]));
  const logger = { debug() {}, info() {}, warn() {}, isDebugEnabled: () => false };
  const injector = { provideValue: () => injector, injectClass: (Instrumenter) => new Instrumenter(logger) };
  const { mutants, files } = await createInstrumenter(injector).instrument(
    [...sources].map(([name, content]) => ({ name, content, mutate: true })),
    // A test would have to repeat the texts of all messages to kill the mutants of strings.
    { plugins: null, ignorers: [], excludedMutations: ['StringLiteral'] },
  );
  const seen = new Map();
  const hashed = mutants
    .filter(({ status }) => status === undefined)
    .map(({ id, fileName: file, location, mutatorName: mutator, replacement }) => {
      const key = sha256(file, mutator, textAt(sources.get(file), location), replacement);
      seen.set(key, (seen.get(key) ?? 0) + 1);
      return { id, file, line: location.start.line + 1, mutator, hash: sha256(key, seen.get(key)) };
    });
  const rank = ({ hash }) => sha256('1', hash);
  return { files, mutants: hashed.sort((one, other) => (rank(one) < rank(other) ? -1 : 1)) };
}

function textAt(source, { start, end }) {
  const lines = source.split('\n').slice(start.line, end.line + 1);
  lines.push(lines.pop().slice(0, end.column));
  return lines.join('\n').slice(start.column);
}

/** Runs the unit tests with no mutant: which mutants each file reaches, how long it takes, and the titles of its tests. */
async function runAllTests(copy, scratch) {
  const coverage = join(scratch, 'coverage');
  const results = join(scratch, 'results.json');
  await jest(copy, ['--json', '--outputFile', results], { MUTANTS_COVERAGE: coverage });
  const files = JSON.parse(readFileSync(results, 'utf8')).testResults;
  const failed = files.filter(({ status }) => status !== 'passed').map(({ name }) => name);
  for (const name of failed) process.stdout.write(`${relative(copy, name)} fails without a mutant, and is left out\n`);
  const reached = readFileSync(coverage, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  return {
    reached: reached.filter(([path]) => !failed.includes(path)).map(([path, ids]) => [path, new Set(ids)]),
    milliseconds: new Map(files.map(({ name, startTime, endTime }) => [name, endTime - startTime])),
    titles: files.flatMap(({ assertionResults }) => assertionResults.map(({ fullName }) => fullName)),
  };
}

/** Runs the test files that reach the mutant until one fails: those of the same name and folder first, then the fastest. */
async function runMutant(copy, { id, ...mutant }, { reached, milliseconds }) {
  const distance = (path) => {
    if (basename(path) === basename(mutant.file).replace('.ts', '.test.ts')) return 0;
    return dirname(path).endsWith(dirname(mutant.file).replace(/^src\//, '')) ? 1 : 2;
  };
  const paths = reached
    .filter(([, ids]) => ids.has(id))
    .map(([path]) => path)
    .sort((one, other) => distance(one) - distance(other) || milliseconds.get(one) - milliseconds.get(other));
  if (paths.length === 0) return { ...mutant, status: 'no coverage' };
  const total = paths.reduce((sum, path) => sum + milliseconds.get(path), 0);
  const env = { MUTANTS_TESTS: JSON.stringify(paths), __STRYKER_ACTIVE_MUTANT__: id };
  const { code, output } = await jest(copy, ['--bail', '--runTestsByPath', ...paths], env, getTimeout(total));
  if (code === 0) return { ...mutant, status: 'survived' };
  if (code === null) return { ...mutant, status: 'killed', by: 'timeout' };
  const [, file] = /^FAIL (?:unit )?(\S+)/m.exec(output) ?? [];
  const [, title] = /^ +● (.+)$/m.exec(output) ?? [];
  return { ...mutant, status: 'killed', by: `${file}: ${title}` };
}

/** Runs unit tests in the copy. `code` is null if they took longer than `timeoutMs`. */
async function jest(copy, args, variables, timeoutMs = 2 ** 31 - 1) {
  const [unit] = createRequire(import.meta.url)(join(copy, 'jest.config.js')).projects;
  const own = (name) => join(root, 'tools/mutants', name);
  const config = { ...unit, testSequencer: own('nearest-first.cjs'), setupFilesAfterEnv: [own('coverage.cjs')] };
  const child = spawn(
    process.execPath,
    [join(root, 'node_modules/jest/bin/jest.js'), '-w', '1', '--config', JSON.stringify(config), ...args],
    { cwd: copy, env: { ...process.env, ...variables }, stdio: ['ignore', 'ignore', 'pipe'], detached: true },
  );
  let output = '';
  child.stderr.on('data', (data) => (output += data));
  const timer = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), timeoutMs);
  const code = await new Promise((resolve) => child.on('exit', resolve));
  clearTimeout(timer);
  return { code, output };
}

/** Prints the counts, and the mutants that are alive though they were killed before. */
function report(before, after, titles) {
  for (const status of ['killed', 'survived', 'no coverage'])
    process.stdout.write(`${status}: ${after.filter((one) => one.status === status).length}\n`);
  process.stdout.write(
    `not in the source any more: ${before.filter(({ hash }) => !after.some((one) => one.hash === hash)).length}\n`,
  );
  for (const [name, title] of UNIT_LISTS)
    process.stdout.write(`${name}: ${titles.filter((one) => title.test(one)).length}, npm test -- --only unit\n`);
  for (const [name, command, files, one] of OTHER_LISTS) {
    const found = files.flatMap((file) => [...new Set(readFileSync(join(root, file), 'utf8').match(one))]);
    process.stdout.write(`${name}: ${found.length}, npm test -- ${command}\n`);
  }
  const killed = new Set(before.filter(({ status }) => status === 'killed').map(({ hash }) => hash));
  const alive = after.filter(({ hash, status }) => status !== 'killed' && killed.has(hash));
  for (const one of alive) process.stdout.write(`alive, but killed before: ${describe(one)}\n`);
  return alive.length === 0 ? 0 : 1;
}

process.exitCode = await main();
