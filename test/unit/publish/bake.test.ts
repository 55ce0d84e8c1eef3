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
  expect(text).toBe('bake 29 of 60 s: m: 0% failed, 1 ms; others: 0%, 1 ms; 145 and 290 requests');
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
  ['requests that fail', { failed: 3 }, 'm 2: 75% of 48 requests failed, and 0% of 60 on the other replicas'],
  [
    'slow answers',
    { nanoseconds: 3e6 },
    'm 2: a request takes 3 ms (mean of 22), and 1 ms on the other replicas (mean of 110)',
  ],
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

const TOO_FEW = 'at least 100 of each, and 15 common seconds, are needed';

test('Bake without requests ends as the rules say', () => {
  const run = (bake: Bake) => (): void => {
    while (!bake.isOver) add(bake, pod('r2', 0), pod('r1', 0));
  };
  const bake = makeBake('continue');
  run(bake)();
  expect(bake.record?.outcome).toBe('not judged');
  expect(run(makeBake('stop'))).toThrow(
    `m answered 0 requests, and 0 on the other replicas, in 0 common seconds; ${TOO_FEW}`,
  );
});

test.each([0, 1000])('Bake takes back a release that hangs after %i requests, also with "continue"', (most) => {
  const bake = makeBake('continue');
  const run = (): void => {
    for (let i = 0; !bake.isOver; i += 1) add(bake, pod('r2', Math.min(most, 100 * i)), pod('r1', 100 * i));
  };
  expect(run).toThrow('m 2: no answer for 11.0 s, in which each other replica gave 1100: it hangs');
});

test('Bake does not judge by numbers that are old: no time passes while replicas do not answer, or it is paused', () => {
  const bake = makeBake('stop');
  for (let i = 0; i < 30; i += 1) add(bake, pod('r2', 10 * i), pod('r1', 10 * i));
  bake.add(new Map(), new Map([['b', pod('r1', 310)]]));
  now += 100_000;
  bake.add(new Map([['a', pod('r2', 310)]]), new Map());
  add(bake, pod('r2', 400), pod('r1', 400));
  expect(bake.isOver).toBe(false);
  expect(bake.text).toMatch(/^bake 29 of 60 s: .* 400 and 400 requests$/);
});

test('Bake begins again with another canary', () => {
  const bake = makeBake('stop');
  for (let i = 0; i < 59; i += 1) add(bake, pod('r2', 10 * i), pod('r1', 10 * i));
  const other = (i: number): void => {
    bake.add(new Map([['c', pod('r2', i)]]), new Map([['b', pod('r1', 600 + 10 * i)]]));
    now += 1000;
  };
  for (let i = 0; i < 60; i += 1) other(i);
  expect(bake.isOver).toBe(false);
  expect(() => {
    other(60);
  }).toThrow(`m answered 60 requests, and 620 on the other replicas, in 60 common seconds; ${TOO_FEW}`);
});

test('Bake of a release that only adds models compares the others', () => {
  const run = (rate: number): Bake => {
    const rules = { ...BAKE_DEFAULTS, minutes: 1, withoutTraffic: 'continue' } as const;
    const bake = new Bake(rules, { before: release('r1'), next: release('r2') }, ['added'], () => now);
    for (let i = 0; !bake.isOver; i += 1) add(bake, pod('r2', rate * i), pod('r1', rate * i));
    return bake;
  };
  expect([run(10).record?.outcome, run(0).record?.outcome]).toEqual(['passed', 'not judged']);
});

test('Bake accepts that the first requests are slow', () => {
  const bake = makeBake('stop');
  for (let i = 0; !bake.isOver; i += 1) {
    add(bake, pod('r2', 10 * i, { nanoseconds: 10e6 * i + 90e6 * Math.min(i, 12) }), pod('r1', 10 * i));
  }
  expect(bake.record?.outcome).toBe('passed');
});
