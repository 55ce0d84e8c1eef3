import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { announceStack, findLocalStack, type LocalState } from '../../../src/local/state';
import { paths } from '../../../src/core/paths';
import { Scratch } from '../../support/scratch';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A cache in which these stacks were announced, by repository and process. */
function cacheWith(...stacks: [repository: string, pid: number][]): (() => void)[] {
  const cache = join(scratch.directory, expect.getState().currentTestName ?? '');
  process.env['XDG_CACHE_HOME'] = cache;
  return stacks.map(([repository, pid], index) => {
    const directory = join(cache, 'triton-serving', 'local', String(index));
    mkdirSync(directory, { recursive: true });
    const endWith = announceStack(directory, { repository, pid } as LocalState);
    expect(statSync(join(directory, 'state.json')).mode & 0o777).toBe(0o600);
    return () => {
      endWith();
      expect(existsSync(join(directory, 'state.json'))).toBe(false);
    };
  });
}

const ALIVE = process.pid;
/** Greater than any process id of Linux. */
const DEAD = 2 ** 22 + 1;

test.each([
  [
    'the one of this package',
    [
      [paths.modelRepository, ALIVE],
      ['/one', ALIVE],
    ],
    undefined,
    paths.modelRepository,
  ],
  ['the only one', [['/one', ALIVE]], undefined, '/one'],
  [
    'the only one that lives',
    [
      ['/one', ALIVE],
      ['/two', DEAD],
    ],
    undefined,
    '/one',
  ],
  [
    'the one that is named',
    [
      ['/one', ALIVE],
      ['/two', ALIVE],
    ],
    '/two',
    '/two',
  ],
] as [string, [string, number][], string | undefined, string][])('found: %s', (_, stacks, named, expected) => {
  cacheWith(...stacks);
  expect(findLocalStack(named).repository).toBe(expected);
});

test.each([
  ['none runs', [], undefined, /no "npm run local" runs/, /^start it in another terminal: npm run local$/],
  ['what was killed', [['/one', DEAD]], '/one', /no "npm run local" runs/, /npm run local -- --repo \/one$/],
  [
    'several',
    [
      ['/one', ALIVE],
      ['/two', ALIVE],
    ],
    undefined,
    /serves 2 repositories: \/one, \/two/,
    /--repo DIR/,
  ],
  ['another', [['/one', ALIVE]], '/two', /serves \/two; running: \/one$/, /npm run local -- --repo \/two$/],
] as [string, [string, number][], string | undefined, RegExp, RegExp][])(
  'not found: %s',
  (_, stacks, named, message, hint) => {
    cacheWith(...stacks);
    expect(() => findLocalStack(named)).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(message) as string,
        hint: expect.stringMatching(hint) as string,
      }) as Error,
    );
  },
);

test('not found: one that ended in order', () => {
  for (const end of cacheWith(['/one', ALIVE])) end();
  expect(() => findLocalStack()).toThrow(/no "npm run local" runs/);
});
