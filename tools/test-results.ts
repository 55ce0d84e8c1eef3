import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { XMLParser } from 'fast-xml-parser';

/** Results of one test suite. */
export interface TestResults {
  passed: number;
  failed: number;
  skipped: number;
  /** File, name and message of each failed test. */
  failures: string[];
}

interface JestReport {
  numPassedTests: number;
  numFailedTests: number;
  /** Files that could not be loaded, or failed after their tests. They contain no failed test. */
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
    if (failed.length === 0 && status === 'failed') return [describe(file, message)];
    return failed.map(({ fullName, failureMessages }) => describe(`${file}: ${fullName}`, failureMessages.join('\n')));
  });
  const failed = report.numFailedTests + report.numRuntimeErrorTestSuites;
  return { passed: report.numPassedTests, failed, skipped: report.numPendingTests, failures };
}

type JunitSuite = Record<'tests' | 'failures' | 'errors' | 'skipped', string> & { testcase?: JunitCase[] };
type JunitCase = Record<'classname' | 'name', string> & Partial<Record<'failure' | 'error', { message: string }>>;

/** @param xml output of `pytest --junitxml` */
export function junitResults(xml: string): TestResults {
  const isArray = (name: string): boolean => name === 'testcase';
  // Without htmlEntities, line ends remain &#10;.
  const parser = new XMLParser({ ignoreAttributes: false, attributeNamePrefix: '', htmlEntities: true, isArray });
  const { testcase = [], ...counts } = (parser.parse(xml) as { testsuites: { testsuite: JunitSuite } }).testsuites
    .testsuite;
  const failures = testcase.flatMap(({ classname, name, failure, error }) => {
    const problem = failure ?? error;
    return problem === undefined ? [] : [describe(`${classname}: ${name}`, problem.message)];
  });
  const [failed, skipped] = [Number(counts.failures) + Number(counts.errors), Number(counts.skipped)];
  return { passed: Number(counts.tests) - failed - skipped, failed, skipped, failures };
}

/** The first 30 lines of the message, without stack frames in node_modules. */
function describe(test: string, message: string): string {
  const lines = stripVTControlCharacters(message).split('\n');
  const useful = lines.filter((line) => line.trim() !== '' && !/^\s+at .*node_modules/.test(line));
  return [test, ...useful.slice(0, 30).map((line) => `    ${line}`)].join('\n');
}
