import { jestResults, junitResults } from '../../../tools/test-results';

/** One file of a jest report. */
const file = (name: string, status: string, message: string, tests: [string, string, string?][]): object => ({
  name: `/project/test/${name}`,
  status,
  message,
  assertionResults: tests.map(([fullName, status, problem]) => ({
    fullName,
    status,
    failureMessages: problem === undefined ? [] : [problem],
  })),
});

const report = (counts: object, ...testResults: object[]) =>
  jestResults(
    JSON.stringify({
      numPassedTests: 0,
      numFailedTests: 0,
      numRuntimeErrorTestSuites: 0,
      numPendingTests: 0,
      ...counts,
      testResults,
    }),
    '/project',
  );

describe('what jest reports', () => {
  test('failed tests are named with their file and why', () => {
    const problem =
      '\u001b[31mError: two\u001b[39m is not one\n\n    at it (/project/test/a.test.ts:3:5)\n    at run (/project/node_modules/jest/x.js:1:1)';
    const tests: [string, string, string?][] = [
      ['adds', 'failed', problem],
      ['takes away', 'passed'],
      ['shares', 'pending'],
    ];
    const results = report(
      { numPassedTests: 1, numFailedTests: 1, numPendingTests: 1 },
      file('a.test.ts', 'failed', `● adds\n${problem}`, tests),
    );
    expect(results).toEqual({
      passed: 1,
      failed: 1,
      skipped: 1,
      failures: [
        {
          test: 'test/a.test.ts: adds',
          message: 'Error: two is not one\n    at it (/project/test/a.test.ts:3:5)',
        },
      ],
    });
  });

  test.each([
    ['that cannot be loaded', []],
    ['whose tests pass, but not what is done after them', [['adds', 'passed'] as [string, string]]],
  ])('a file %s has failed', (_, tests) => {
    const results = report(
      { numRuntimeErrorTestSuites: 1, numPassedTests: tests.length },
      file('b.test.ts', 'failed', '● Test suite failed to run\n\n    Cannot find module', tests),
    );
    expect(results.failed).toBe(1);
    expect(results.failures).toEqual([
      { test: 'test/b.test.ts', message: '● Test suite failed to run\n    Cannot find module' },
    ]);
  });

  test('of a long message the beginning is kept', () => {
    const problem = [...Array(40).keys()].map((line) => `line ${line}`).join('\n');
    const { failures } = report({ numFailedTests: 1 }, file('c.test.ts', 'failed', '', [['long', 'failed', problem]]));
    expect(failures[0]?.message.split('\n')).toEqual([...Array(30).keys()].map((line) => `line ${line}`));
  });
});

describe('what pytest reports', () => {
  const suite = (counts: string, cases: string): string =>
    `<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" ${counts} time="0.1">${cases}</testsuite></testsuites>`;

  test('failures and errors are named, with their line ends', () => {
    const xml = suite(
      'errors="1" failures="1" skipped="1" tests="4"',
      '<testcase classname="test.test_a" name="test_bad" time="0"><failure message="assert 1 == 2&#10;  more &lt;a&gt;">def</failure></testcase>' +
        '<testcase classname="test.test_a" name="test_error" time="0"><error message="failed on setup">def</error></testcase>' +
        '<testcase classname="test.test_a" name="test_skip" time="0"><skipped message="why">x</skipped></testcase>' +
        '<testcase classname="test.test_a" name="test_good" time="0" />',
    );
    expect(junitResults(xml)).toEqual({
      passed: 1,
      failed: 2,
      skipped: 1,
      failures: [
        { test: 'test.test_a: test_bad', message: 'assert 1 == 2\n  more <a>' },
        { test: 'test.test_a: test_error', message: 'failed on setup' },
      ],
    });
  });

  test('no test at all', () => {
    expect(junitResults(suite('errors="0" failures="0" skipped="0" tests="0"', ''))).toEqual({
      passed: 0,
      failed: 0,
      skipped: 0,
      failures: [],
    });
  });
});
