import { jestResults, junitResults } from '../../../tools/test-results';

/** A report of jest with one file. */
const reported = (counts: object, message: string, ...tests: [string, string, string[]][]) => {
  const assertionResults = tests.map(([fullName, status, failureMessages]) => ({ fullName, status, failureMessages }));
  const none = { numPassedTests: 0, numFailedTests: 0, numRuntimeErrorTestSuites: 0, numPendingTests: 0 };
  const testResults = [{ name: '/project/test/a.test.ts', status: 'failed', message, assertionResults }];
  return jestResults(JSON.stringify({ ...none, ...counts, testResults }), '/project');
};

test('jestResults names failed tests, without colours and frames in node_modules', () => {
  const message =
    '\u001b[31mError: two\u001b[39m\n\n    at it (/a.test.ts:3:5)\n    at run (/node_modules/jest/x.js:1:1)';
  const counts = { numPassedTests: 1, numFailedTests: 1, numPendingTests: 1 };
  expect(reported(counts, '', ['adds', 'failed', [message]], ['shares', 'pending', []])).toEqual({
    passed: 1,
    failed: 1,
    skipped: 1,
    failures: ['test/a.test.ts: adds\n    Error: two\n        at it (/a.test.ts:3:5)'],
  });
});

test('jestResults counts a file that fails outside its tests', () => {
  const { failed, failures } = reported({ numRuntimeErrorTestSuites: 1 }, 'Cannot find module', ['adds', 'passed', []]);
  expect([failed, failures]).toEqual([1, ['test/a.test.ts\n    Cannot find module']]);
});

test('jestResults keeps the first 30 lines of a message', () => {
  const { failures } = reported({ numFailedTests: 1 }, '', ['long', 'failed', ['line\n'.repeat(40)]]);
  expect(failures[0]?.split('\n')).toHaveLength(31);
});

test('junitResults names failures and errors', () => {
  const suite = (counts: string, cases: string): string =>
    `<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" ${counts}>${cases}</testsuite></testsuites>`;
  const xml = suite(
    'errors="1" failures="1" skipped="1" tests="4"',
    '<testcase classname="test_a" name="bad"><failure message="assert 1 == 2&#10;  more &lt;a&gt;">def</failure></testcase>' +
      '<testcase classname="test_a" name="error"><error message="failed on setup">def</error></testcase>' +
      '<testcase classname="test_a" name="skip"><skipped message="why">x</skipped></testcase>' +
      '<testcase classname="test_a" name="good" />',
  );
  const failures = ['test_a: bad\n    assert 1 == 2\n      more <a>', 'test_a: error\n    failed on setup'];
  expect(junitResults(xml)).toEqual({ passed: 1, failed: 2, skipped: 1, failures });
  const none = suite('errors="0" failures="0" skipped="0" tests="0"', '');
  expect(junitResults(none)).toEqual({ passed: 0, failed: 0, skipped: 0, failures: [] });
});
