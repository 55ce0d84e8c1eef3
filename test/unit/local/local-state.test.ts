import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { announceStack, findLocalStack, type LocalState } from '../../../src/local/state';
import { paths } from '../../../src/core/paths';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** Repository -> process. */
type Stacks = Record<string, number>;

/** A cache in which these stacks were announced. */
function cacheWith(stacks: Stacks): (() => void)[] {
  const cache = join(scratch.directory, expect.getState().currentTestName ?? '');
  process.env['XDG_CACHE_HOME'] = cache;
  return Object.entries(stacks).map(([repository, pid], index) => {
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

test.each<[what: string, stacks: Stacks, named: string | undefined, found: string]>([
  ['the stack of this package', { [paths.modelRepository]: ALIVE, '/one': ALIVE }, undefined, paths.modelRepository],
  ['the only stack', { '/one': ALIVE }, undefined, '/one'],
  ['the only running stack', { '/one': ALIVE, '/two': DEAD }, undefined, '/one'],
  ['the stack of the named repository', { '/one': ALIVE, '/two': ALIVE }, '/two', '/two'],
])('findLocalStack returns %s', (_, stacks, named, found) => {
  cacheWith(stacks);
  expect(findLocalStack(named).repository).toBe(found);
});

const NONE = /"npm run local" is not running/;
test.each<[when: string, stacks: Stacks, named: string | undefined, message: RegExp, hint: RegExp]>([
  ['no stack runs', {}, undefined, NONE, /^start it in another terminal: npm run local$/],
  ['the stack was killed', { '/one': DEAD }, '/one', NONE, /npm run local -- --repo \/one$/],
  [
    'several stacks run and none is named',
    { '/one': ALIVE, '/two': ALIVE },
    undefined,
    /serves 2 repositories: \/one, \/two/,
    /--repo DIR/,
  ],
  [
    'another stack runs',
    { '/one': ALIVE },
    '/two',
    /does not serve \/two; it serves \/one$/,
    /npm run local -- --repo \/two$/,
  ],
])('findLocalStack throws if %s', (_, stacks, named, message, hint) => {
  cacheWith(stacks);
  const error: unknown = expect.objectContaining({
    message: expect.stringMatching(message) as string,
    hint: expect.stringMatching(hint) as string,
  });
  expect(() => findLocalStack(named)).toThrow(error as Error);
});

test('findLocalStack ignores a stack that has ended', () => {
  for (const end of cacheWith({ '/one': ALIVE })) end();
  expect(() => findLocalStack()).toThrow(NONE);
});
