import { describeUnless, REQUIRE_ALL } from '../../support/describe-unless';

const environment = process.env;
beforeEach(() => {
  process.env = { ...environment };
});
afterEach(() => {
  jest.restoreAllMocks();
  process.env = environment;
});

/** What it hands to Jest: `describe`, `skip`, or a test and its error. */
function declared(reason: string | undefined): string[] {
  const calls: string[] = [];
  const note = (what: string) => (() => calls.push(what)) as unknown as jest.Describe;
  jest.spyOn(process.stderr, 'write').mockReturnValue(true);
  jest.spyOn(globalThis, 'describe').mockImplementation(note('describe'));
  Object.assign(globalThis.describe, { skip: note('skip') });
  jest.spyOn(globalThis, 'test').mockImplementation(((title: string, body: () => void) => {
    try {
      body();
      calls.push(`${title}: passed`);
    } catch (error) {
      calls.push(`${title}: ${(error as Error).message}`);
    }
  }) as unknown as jest.It);
  describeUnless(reason, 'the plugin', () => undefined);
  return calls;
}

test('tests that can run do', () => {
  process.env[REQUIRE_ALL] = '1';
  expect(declared(undefined)).toEqual(['describe']);
});

test('tests that cannot run are left out', () => {
  process.env[REQUIRE_ALL] = '';
  expect(declared('it is not installed')).toEqual(['skip']);
});

test('where CI requires all tests, one that cannot run fails', () => {
  process.env[REQUIRE_ALL] = '1';
  expect(declared('it is not installed')).toEqual([
    expect.stringMatching(/^the plugin can run here: .*cannot run these tests: it is not installed$/),
  ]);
});
