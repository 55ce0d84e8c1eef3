import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { announceStack, findLocalStack, type LocalState } from '../../../src/local/state';
import { paths } from '../../../src/core/paths';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A cache in which these stacks were announced, by repository and process. */
function cacheWith(stacks: Record<string, number>): (() => void)[] {
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

interface Case {
  title: string;
  /** Repository -> process. */
  stacks: Record<string, number>;
  /** The repository that the user named. */
  named?: string;
}

test.each<Case & { found: string }>([
  {
    title: 'the stack of this package',
    stacks: { [paths.modelRepository]: ALIVE, '/one': ALIVE },
    found: paths.modelRepository,
  },
  { title: 'the only stack', stacks: { '/one': ALIVE }, found: '/one' },
  { title: 'the only running stack', stacks: { '/one': ALIVE, '/two': DEAD }, found: '/one' },
  {
    title: 'the stack of the named repository',
    stacks: { '/one': ALIVE, '/two': ALIVE },
    named: '/two',
    found: '/two',
  },
])('findLocalStack returns $title', ({ stacks, named, found }) => {
  cacheWith(stacks);
  expect(findLocalStack(named).repository).toBe(found);
});

test.each<Case & { message: RegExp; hint: RegExp }>([
  {
    title: 'no stack runs',
    stacks: {},
    message: /"npm run local" is not running/,
    hint: /^start it in another terminal: npm run local$/,
  },
  {
    title: 'the stack was killed',
    stacks: { '/one': DEAD },
    named: '/one',
    message: /"npm run local" is not running/,
    hint: /npm run local -- --repo \/one$/,
  },
  {
    title: 'several stacks run and none is named',
    stacks: { '/one': ALIVE, '/two': ALIVE },
    message: /serves 2 repositories: \/one, \/two/,
    hint: /--repo DIR/,
  },
  {
    title: 'another stack runs',
    stacks: { '/one': ALIVE },
    named: '/two',
    message: /does not serve \/two; it serves \/one$/,
    hint: /npm run local -- --repo \/two$/,
  },
])('findLocalStack throws if $title', ({ stacks, named, message, hint }) => {
  cacheWith(stacks);
  expect(() => findLocalStack(named)).toThrow(
    expect.objectContaining({
      message: expect.stringMatching(message) as string,
      hint: expect.stringMatching(hint) as string,
    }) as Error,
  );
});

test('findLocalStack ignores a stack that has ended', () => {
  for (const end of cacheWith({ '/one': ALIVE })) end();
  expect(() => findLocalStack()).toThrow(/"npm run local" is not running/);
});
