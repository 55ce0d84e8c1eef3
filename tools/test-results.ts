import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { XMLParser } from 'fast-xml-parser';

/** Results of one test suite. */
export interface TestResults {
  passed: number;
  failed: number;
  skipped: number;
  failures: TestFailure[];
}

export interface TestFailure {
  /** File and name of the test. */
  test: string;
  message: string;
}

interface JestReport {
  numPassedTests: number;
  numFailedTests: number;
  numRuntimeErrorTestSuites: number;
  numPendingTests: number;
  testResults: {
    name: string;
    status: string;
    message: string;
    assertionResults: { fullName: string; status: string; failureMessages: string[] }[];
  }[];
}

/**
 * @param json output of `jest --json`
 * @param root folder to which file names are relative
 */
export function jestResults(json: string, root: string): TestResults {
  const report = JSON.parse(json) as JestReport;
  const failures = report.testResults.flatMap(({ name, status, message, assertionResults }) => {
    const file = relative(root, name);
    const failed = assertionResults.filter((test) => test.status === 'failed');
    if (failed.length > 0) {
      return failed.map((test) => failure(`${file}: ${test.fullName}`, test.failureMessages.join('\n')));
    }
    // The file could not be loaded, or failed in a hook.
    return status === 'failed' ? [failure(file, message)] : [];
  });
  return {
    passed: report.numPassedTests,
    // A file that cannot be loaded has no failed test, but counts as a failure.
    failed: report.numFailedTests + report.numRuntimeErrorTestSuites,
    skipped: report.numPendingTests,
    failures,
  };
}

interface JunitCase {
  '@classname': string;
  '@name': string;
  failure?: JunitProblem;
  error?: JunitProblem;
}

interface JunitProblem {
  '@message'?: string;
  '#text'?: string;
}

/** @param xml output of `pytest --junitxml` */
export function junitResults(xml: string): TestResults {
  const parser = new XMLParser({
    ignoreAttributes: false,
    attributeNamePrefix: '@',
    // Without this option line ends remain &#10;.
    htmlEntities: true,
    isArray: (name) => name === 'testcase',
  });
  const { testsuites } = parser.parse(xml) as {
    testsuites: { testsuite: Record<string, string> & { testcase?: JunitCase[] } };
  };
  const { testcase = [], ...suite } = testsuites.testsuite;
  const count = (name: string): number => Number(suite[`@${name}`] ?? 0);
  const failed = count('failures') + count('errors');
  const failures = testcase.flatMap((test) => {
    const problem = test.failure ?? test.error;
    if (problem === undefined) return [];
    return [failure(`${test['@classname']}: ${test['@name']}`, problem['@message'] ?? problem['#text'] ?? '')];
  });
  return { passed: count('tests') - failed - count('skipped'), failed, skipped: count('skipped'), failures };
}

/** Number of lines of a message to repeat; the output of the test contains the rest. */
const MESSAGE_LINES = 30;

function failure(test: string, message: string): TestFailure {
  // Stack frames in node_modules are not helpful.
  const lines = stripVTControlCharacters(message)
    .split('\n')
    .filter((line) => line.trim() !== '' && !/^\s+at .*node_modules/.test(line));
  return { test, message: lines.slice(0, MESSAGE_LINES).join('\n') };
}
