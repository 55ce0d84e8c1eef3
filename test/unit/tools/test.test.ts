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

test('a failed test of Jest has the first lines of its reason and the errors after them', () => {
  const steps = Array.from({ length: 40 }, (_, index) => ` +  aws:iam:Role role-${index} created`);
  const message = ['Error: pulumi up: exit code 1', '', ...steps, '\u001b[31merror: no such role\u001b[39m'].join('\n');
  const assertionResults = [
    { fullName: 'a stack runs', status: 'failed', failureMessages: [`${message}\n    at run (stack.ts:1:1)`] },
  ];
  const { names } = jestResults(
    JSON.stringify({
      numPassedTests: 0,
      testResults: [
        { name: 'a.test.ts', status: 'failed', assertionResults },
        { name: 'b.test.ts', status: 'failed', message: 'no such module', assertionResults: [] },
      ],
    }),
  );
  const lines = (names[0] ?? '').split('\n');
  expect(names[1]).toMatch(/b\.test\.ts: could not run\n {4}no such module$/);
  expect(lines[0]).toMatch(/a\.test\.ts: a stack runs$/);
  expect(lines[1]).toBe('    Error: pulumi up: exit code 1');
  expect(lines.at(-1)).toBe('    error: no such role');
  expect(lines.length).toBeLessThan(20);
});
