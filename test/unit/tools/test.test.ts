import { jestResults, junitResults, requireAll } from '../../../tools/test';

const skippedTest = { fullName: 'TLS (left out: openssl is not on PATH) answers', status: 'pending' };
const jestReport = JSON.stringify({
  numPassedTests: 1,
  testResults: [
    { name: 'a.test.ts', status: 'passed', assertionResults: [{ fullName: 'a', status: 'passed' }, skippedTest] },
  ],
});
const junitReport = '<testsuites><testsuite name="pytest" errors="0" failures="0" skipped="2" tests="5" time="1">';

const environment = process.env;
afterEach(() => {
  process.env = environment;
});

test.each([
  { runner: 'jest', results: jestResults(jestReport), passed: 1, skipped: 1, name: /TLS \(left out: .*: was skipped/ },
  { runner: 'pytest', results: junitResults(junitReport), passed: 3, skipped: 2, name: /^2 tests .*: was skipped/ },
])('tests that $runner skips fail only where REQUIRE_ALL_TESTS=1 is set', ({ results, passed, skipped, name }) => {
  process.env = { ...environment, REQUIRE_ALL_TESTS: undefined };
  expect(requireAll(results)).toMatchObject({ passed, failed: 0, skipped, names: [] });
  process.env = { ...environment, REQUIRE_ALL_TESTS: '1' };
  expect(requireAll(results)).toMatchObject({
    passed,
    failed: skipped,
    skipped: 0,
    names: [expect.stringMatching(name)],
  });
});
