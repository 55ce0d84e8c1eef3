import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { delimiter, join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { EXIT } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { UsageError, UserError } from '../src/core/errors';
import { paths } from '../src/core/paths';
import { Progress } from '../src/cli/progress';
import { ensureChromium } from './toolchain/chromium';
import { ensureEngines } from './toolchain/engines';
import { whyNoGo } from './toolchain/go';
import { ensureVersitygw } from './toolchain/versitygw';
import { ensurePython, type PythonEnvironment } from '../src/local/install/python';
import { ensureLockedPackages } from './toolchain/locked-packages';
import { ensureSeaweedfs } from '../src/local/install/seaweedfs';
import { ensureTriton } from '../src/local/install/triton';
import { CPU_VARIABLES } from '../src/triton/serving';

/** Factor by which --long multiplies the repetitions of random cases. */
const SOAK_FACTOR = 25;
/** Test files of each suite that have a long form (test/support/soak.ts). */
const REPEATED: Partial<Record<Suite, string>> = {
  real: 'test/real/agreement',
  stack: 'test/stack/(interrupted|package|stack-changes)',
  proof: 'test/proof/',
};

const SUITES = ['unit', 'real', 'python', 'proof', 'stack'] as const;
type Suite = (typeof SUITES)[number];
/**
 * Suites that run only on request, because they take long, and `stack` first builds Go programs. Of the others, the slow
 * tests run only on request.
 */
const ON_REQUEST: readonly Suite[] = ['proof', 'stack'];
/**
 * Test files at a time, where it is not the default of jest.config.js. A file of `proof` may run Java, which
 * needs up to 3 GB; one of `stack` has a control plane and an engine of its own, which need as much and mostly wait.
 */
const WORKERS: Partial<Record<Suite, number>> = { proof: 3, stack: 3 };

const FLAGS = {
  all: {
    help: 'also the slow tests of real and python, and the suites proof and stack (docs/testing.md)',
  },
  only: { value: 'NAME', help: 'one suite, with its slow tests: unit, real, python, proof or stack' },
  filter: { value: 'TEXT', help: 'jest: only test files whose path contains TEXT; pytest: its -k' },
  long: {
    help: `only tests with a long form, in that form: ${SOAK_FACTOR} times the repetitions, a new seed, all scenarios of the specification; with --only, those of that suite, otherwise of real and proof. SOAK_FACTOR and SOAK_SEED in the environment set both`,
  },
} as const;

const LINE = {
  name: 'npm test',
  about: 'Runs unit tests, quick tests on real servers (jest) and Python tests (pytest), and installs what they need.',
  flags: FLAGS,
};

export const main = command(LINE, async (flags) => {
  const chosen = SUITES.find((suite) => suite === flags.only);
  if (flags.only !== undefined && chosen === undefined) {
    throw new UsageError(`--only ${flags.only}: unknown suite`, { hint: SUITES.join(', ') });
  }
  if (flags.all && (flags.long || chosen !== undefined)) {
    throw new UsageError(`--all cannot be combined with ${flags.long ? '--long' : '--only'}`, { hint: 'omit one' });
  }
  const suites = getSuites(chosen, flags);
  if (suites.length === 0) {
    throw new UsageError(`--long with --only ${flags.only}: this suite has no long form`, {
      hint: `--only ${Object.keys(REPEATED).join(' or ')}`,
    });
  }
  if (flags.long) Object.assign(process.env, soakEnvironment());
  const filterOf = (suite: Suite): string | undefined => flags.filter ?? (flags.long ? REPEATED[suite] : undefined);
  const progress = new Progress();
  const environment = await progress.run('Python environment', (step) =>
    ensurePython(step, { development: true, embeddable: true }),
  );
  const slow = flags.all || flags.long || chosen !== undefined;
  if (slow && suites.includes('real')) await getBrowser(progress);
  // Otherwise the first tests that need them would wait for a download or a build.
  if (suites.some((suite) => !['unit', 'python'].includes(suite))) {
    await progress.run('Triton and S3 server', () => Promise.all([ensureTriton(environment), ensureSeaweedfs()]));
  }
  if (slow && suites.some((suite) => suite === 'real' || suite === 'proof') && whyNoGo(['versitygw']) === undefined)
    await progress.run('versitygw', (step) => ensureVersitygw(step));
  const reference = slow && suites.includes('python') ? await getReference(environment, progress) : undefined;
  const scratch = mkdtempSync(join(tmpdir(), 'triton-serving-test-'));
  // The first build takes up to half an hour. It begins with the first suite, which leaves the processors idle at times.
  const engines =
    suites.includes('stack') && flags.filter === undefined && whyNoGo(['pulumi']) === undefined
      ? ensureEngines()
      : Promise.resolve();
  engines.catch(() => undefined); // waitFor reports it.
  const total = { passed: 0, failed: 0, skipped: 0 };
  const failed: string[] = [];
  try {
    for (const suite of suites) {
      if (suite === 'stack') await waitFor(engines, progress);
      process.stderr.write(`\n== ${suite} tests\n`);
      const report = join(scratch, suite);
      const filter = filterOf(suite);
      const results = requireAll(
        suite === 'python'
          ? await pytest(environment, report, { filter, reference, slow })
          : await jest(suite, environment, report, { filter, slow }),
      );
      for (const key of ['passed', 'failed', 'skipped'] as const) total[key] += results[key];
      failed.push(...results.names.map((name) => `${suite}: ${name}`));
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  // Repeats the failed tests, because the output can take half an hour.
  for (const name of failed) process.stdout.write(`\nFAILED ${name}`);
  const skipped = total.skipped === 0 ? '' : `, ${total.skipped} skipped`;
  process.stdout.write(`\n\n${total.passed} passed, ${total.failed} failed${skipped}\n`);
  return total.failed === 0 && total.passed > 0 ? EXIT.ok : EXIT.failed;
});

/** The suites to run, in this order. */
function getSuites(chosen: Suite | undefined, { all, long }: { all: boolean; long: boolean }): readonly Suite[] {
  if (long)
    return SUITES.filter((suite) => suite in REPEATED && (chosen === undefined ? suite !== 'stack' : suite === chosen));
  return SUITES.filter((suite) => (chosen === undefined ? all || !ON_REQUEST.includes(suite) : suite === chosen));
}

/** Python version with which the setup.py of basicsr fails, which has no wheel. */
const PYTHON_WITHOUT_REFERENCE = '3.13';

/**
 * Returns the folder of PyPI's gfpgan, which ours is compared with; undefined if this Python cannot build its
 * dependency.
 */
async function getReference(environment: PythonEnvironment, progress: Progress): Promise<string | undefined> {
  if (environment.version === PYTHON_WITHOUT_REFERENCE) {
    progress.line(
      `     skipped: the comparison with PyPI's gfpgan, because Python ${environment.version} cannot build basicsr`,
    );
    return undefined;
  }
  return progress.run('GFPGAN of PyPI', (step) => ensureLockedPackages('gfpgan', environment, step, { build: true }));
}

/** Installs a browser. If that fails, tests that open a page are skipped and report so. */
async function getBrowser(progress: Progress): Promise<void> {
  const step = progress.step('browser');
  try {
    await ensureChromium(step);
    step.done();
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    step.failed();
    progress.line(`     skipped: tests that open a page, because ${error.message}`);
  }
}

/** If a program cannot be built, the tests that need it fail, and all others run. */
async function waitFor(engines: Promise<void>, progress: Progress): Promise<void> {
  try {
    await progress.run('Go programs', () => engines);
  } catch (error) {
    progress.line(`     ${String(error)}`);
  }
}

function soakEnvironment(): Record<string, string> {
  const { env } = process;
  const seed = env['SOAK_SEED'] ?? String(Math.floor(Date.now() / 1000));
  process.stderr.write(`SOAK_SEED=${seed}\n`);
  return { SOAK_FACTOR: env['SOAK_FACTOR'] ?? String(SOAK_FACTOR), SOAK_SEED: seed };
}

/** CI sets it to 1: its machines have everything, so a skipped test is a failure. */
const REQUIRE_ALL = 'REQUIRE_ALL_TESTS';

/** Numbers of tests, and the names of those that failed with the start of the reason. */
export interface Results {
  passed: number;
  failed: number;
  skipped: number;
  names: string[];
  /** Names of the tests that were skipped. */
  skippedNames: string[];
}

const NOTHING: Results = { passed: 0, failed: 0, skipped: 0, names: [], skippedNames: [] };

/** With REQUIRE_ALL_TESTS=1, counts skipped tests as failed. */
export function requireAll(results: Results): Results {
  if (process.env[REQUIRE_ALL] !== '1') return results;
  const { failed, skipped, names, skippedNames } = results;
  const refused = skippedNames.map((name) => `${name}: was skipped, although ${REQUIRE_ALL}=1 is set`);
  return { ...results, failed: failed + skipped, skipped: 0, names: [...names, ...refused] };
}

/** Reads the report of a test runner. A missing or incomplete report counts as a failure. */
function getResults(report: string, status: number | null, read: (text: string) => Results): Results {
  try {
    const results = read(readFileSync(report, 'utf8'));
    if (status === 0 || results.failed > 0) return results;
  } catch {
    // The message below names the exit code.
  }
  return { ...NOTHING, failed: 1, names: [`no complete report, exit code ${status}`] };
}

/** Files of tests that only --all and --only run. */
const SLOW = String.raw`\.slow\.test\.ts$`;

async function jest(
  suite: Suite,
  environment: PythonEnvironment,
  report: string,
  { filter, slow }: { filter: string | undefined; slow: boolean },
): Promise<Results> {
  const args = ['--selectProjects', suite, '--json', '--outputFile', report];
  if (!slow) args.push(`--testPathIgnorePatterns=${SLOW}`);
  if (WORKERS[suite] !== undefined) args.push(`--maxWorkers=${WORKERS[suite]}`);
  if (filter !== undefined) args.push('--passWithNoTests', filter);
  const binary = join(paths.root, 'node_modules', 'jest', 'bin', 'jest.js');
  // Linters that are Python packages are in the folder of Python's programs.
  const env = { ...process.env, PATH: [environment.bin, process.env['PATH'] ?? ''].join(delimiter) };
  const status = await runSuite(process.execPath, [binary, ...args], env);
  return getResults(report, status, jestResults);
}

/** @returns the exit code; null after a signal */
async function runSuite(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number | null> {
  const child = spawn(command, args, { cwd: paths.root, env, stdio: ['inherit', 2, 2] });
  const [status] = (await once(child, 'exit')) as [number | null];
  return status;
}

interface JestReport {
  numPassedTests: number;
  testResults: { name: string; status: string; message?: string; assertionResults: JestTest[] }[];
}

interface JestTest {
  fullName: string;
  status: string;
  failureMessages?: string[];
}

/** @param json output of `jest --json`, in which a file that could not be loaded failed without a failed test */
export function jestResults(json: string): Results {
  const report = JSON.parse(json) as JestReport;
  const skippedNames = report.testResults.flatMap((file) =>
    file.assertionResults
      .filter(({ status }) => status === 'pending')
      .map(({ fullName }) => `${relative(paths.root, file.name)}: ${fullName}`),
  );
  const names = report.testResults.flatMap((file) => {
    const failed = file.assertionResults.filter(({ status }) => status === 'failed');
    const unread = { fullName: 'could not run', failureMessages: [file.message ?? ''] };
    const tests = failed.length > 0 || file.status !== 'failed' ? failed : [unread];
    return tests.map(
      ({ fullName, failureMessages = [] }) =>
        `${relative(paths.root, file.name)}: ${fullName}${startOfReason(failureMessages)}`,
    );
  });
  return { passed: report.numPassedTests, failed: names.length, skipped: skippedNames.length, names, skippedNames };
}

/** CI keeps only the last lines of its output, so they have the reason of a failure that does not happen again. */
const REASON_LINES = 12;

/** The first lines of a failure, and those about errors, because a program's own output comes before its errors. */
function startOfReason(messages: readonly string[]): string {
  const lines = stripVTControlCharacters(messages.join('\n'))
    .split('\n')
    .filter((line) => line.trim() !== '' && !/^ +at /.test(line));
  const errors = lines.slice(REASON_LINES).filter((line) => /error|fail/i.test(line));
  return [...lines.slice(0, REASON_LINES), ...errors.slice(0, REASON_LINES)].map((line) => `\n    ${line}`).join('');
}

/** The comparison with PyPI's GFPGAN takes 6 GB of memory, every other test less than 2. */
const MOST_PYTEST_WORKERS = 4;

/** Exit code of pytest if it found no test. */
const PYTEST_NO_TESTS = 5;

async function pytest(
  { python }: PythonEnvironment,
  report: string,
  { filter, reference, slow }: { filter: string | undefined; reference: string | undefined; slow: boolean },
): Promise<Results> {
  // Most tests trace a toy model in a separate process. With one thread each, they do not slow each other down.
  const workers = String(Math.min(MOST_PYTEST_WORKERS, availableParallelism()));
  const parallel = ['-n', workers, '--dist', 'worksteal'];
  const args = ['-m', 'pytest', '-q', '-rs', '-p', 'no:cacheprovider', ...parallel, `--junitxml=${report}`];
  if (!slow) args.push('-m', 'not slow');
  if (filter !== undefined) args.push('-k', filter);
  const env = {
    ...CPU_VARIABLES,
    OMP_NUM_THREADS: '1',
    ...process.env,
    ...(reference === undefined ? {} : { GFPGAN_REFERENCE: reference }),
  };
  const status = await runSuite(python, args, env);
  if (status === PYTEST_NO_TESTS && filter !== undefined) return NOTHING;
  return getResults(report, status, junitResults);
}

/** @param xml output of `pytest --junitxml`, whose first element has the numbers of tests */
export function junitResults(xml: string): Results {
  const count = (name: string): number => Number(new RegExp(`<testsuite [^>]*\\b${name}="(\\d+)"`).exec(xml)?.[1]);
  const [failed, skipped] = [count('failures') + count('errors'), count('skipped')];
  const names = failed === 0 ? [] : ['listed at the end of the tests'];
  const skippedNames = skipped === 0 ? [] : [`${skipped} tests (listed at the end of the tests)`];
  return { passed: count('tests') - failed - skipped, failed, skipped, names, skippedNames };
}
