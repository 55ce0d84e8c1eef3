import { Bake } from '../../../src/publish/bake';
import type { AgentStatistics, ModelCounts } from '../../../src/release/agent-api';
import { BAKE_DEFAULTS } from '../../../src/release/bake';
import type { Manifest } from '../../../src/release/manifest';

const models = { m: { served: [2] } } as unknown as Manifest['models'];
const release = (id: string) => ({ id, models });

let now: number;
const makeBake = (withoutTraffic: 'continue' | 'stop'): Bake =>
  new Bake(
    { ...BAKE_DEFAULTS, minutes: 1, withoutTraffic },
    { before: release('r1'), next: release('r2') },
    ['m'],
    () => now,
  );

const pod = (release: string, answered: number, more: Partial<ModelCounts> = {}): AgentStatistics => {
  const counts = { name: 'm', version: '2', answered, failed: 0, nanoseconds: answered * 1e6, ...more };
  return { release, statistics: [counts] } as unknown as AgentStatistics;
};
/** Adds what two replicas have counted. */
const add = (bake: Bake, newer: AgentStatistics, older: AgentStatistics): void => {
  bake.add(new Map([['a', newer]]), new Map([['b', older]]));
  now += 1000;
};

beforeEach(() => (now = 0));

test('Bake ends after its time, and its record has what was answered since it began', () => {
  const bake = makeBake('stop');
  let text = '';
  for (let i = 0; !bake.isOver; i += 1) {
    expect(now).toBeLessThanOrEqual(60_000);
    if (i === 30) text = bake.text;
    add(bake, pod('r2', 1000 + 5 * i, { failed: 7 }), pod('r1', 10 * i));
  }
  expect(bake.record).toEqual({
    ...{ outcome: 'passed', reason: undefined, seconds: 60 },
    models: {
      m: { newer: { count: 300, failed: 0, milliseconds: 1 }, older: { count: 600, failed: 0, milliseconds: 1 } },
    },
  });
  expect(bake.text).toBe('');
  expect(text).toBe(
    'bake 29.0 s of 1 min 00 s: m 145 requests, 0% failed, 1.00 ms; before: 290 requests, 0% failed, 1.00 ms',
  );
});

test('Bake counts a version from zero that was loaded again, and nothing of another release', () => {
  const bake = makeBake('continue');
  add(bake, pod('r2', 100), pod('r1', 100));
  add(bake, pod('r2', 3), pod('r0', 500));
  add(bake, pod('r2', 4), pod('r1', 600));
  bake.giveUp('the test ends');
  expect(bake.record?.models['m']).toMatchObject({ newer: { count: 4 }, older: { count: 0 } });
});

test.each([
  ['requests that fail', { failed: 3 }, 'm 2: 75% of 16 requests failed, and 0% of 20 before'],
  ['slow answers', { nanoseconds: 3e6 }, 'm 2: a request takes 3.00 ms (mean of 11), and 1.00 ms before (mean of 55)'],
])('Bake names the numbers of %s', (_, each, reason) => {
  const bake = makeBake('stop');
  const run = (): void => {
    for (let i = 0; i < 60; i += 1) {
      const more = Object.fromEntries(Object.entries(each).map(([name, value]) => [name, i * value]));
      add(bake, pod('r2', i, more), pod('r1', 5 * i));
    }
  };
  expect(run).toThrow(`the release answers worse than the one before it: ${reason}`);
  expect(bake.record).toMatchObject({ outcome: 'worse', reason });
});

test('Bake accepts that more requests fail, up to the limit', () => {
  const bake = makeBake('continue');
  for (let i = 0; i <= 60; i += 1) add(bake, pod('r2', 1e5 * i, { failed: 50 * i }), pod('r1', 1e5 * i));
  expect(bake.record?.outcome).toBe('passed');
});

test.each([
  ['continue', 0, 'not judged'],
  ['stop', 0, undefined],
  ['stop', 1, undefined],
  // As if it hangs.
  ['continue', 1, undefined],
] as const)(
  'Bake: %s if a changed model gets no requests, and the other replicas get %i a ms',
  (policy, rate, outcome) => {
    const bake = makeBake(policy);
    const run = (): string | undefined => {
      while (!bake.isOver) add(bake, pod('r2', 0), pod('r1', rate * now));
      return bake.record?.outcome;
    };
    const count = 60_000 * rate;
    if (outcome !== undefined) expect(run()).toBe(outcome);
    else
      expect(run).toThrow(`m answered 0 requests, and ${count} on the other replicas; at least 100 are needed of each`);
  },
);
