import { median, medianRatio, rounds } from '../../../tools/bench/compare';
import { summarize } from '../../../tools/bench/preview';
import { evaluate, type Measurement } from '../../../tools/bench/sync-report';
import { SCENARIOS } from '../../../tools/bench/sync-scenarios';

describe('compare', () => {
  test('rounds starts each round with another entry and does not count the first round', async () => {
    const order: string[] = [];
    const entry = (name: string): [string, () => Promise<string>] => [name, async () => name];
    const results = await rounds(new Map(['a', 'b', 'c'].map(entry)), 2, (round, name) =>
      order.push(`${round}${name}`),
    );
    expect(order).toEqual(['0a', '0b', '0c', '1b', '1c', '1a', '2c', '2a', '2b']);
    expect([...results.values()]).toEqual([['a', 'a'], ['b', 'b'], ['c', 'c']]); // prettier-ignore
  });

  test('median of even and odd counts; medianRatio compares values of the same round', () => {
    expect([median([3, 1, 2]), median([4, 1, 3, 2])]).toEqual([2, 2.5]);
    expect(medianRatio([1, 30, 1], [2, 60, 2])).toBe(0.5);
    expect(medianRatio([1], [])).toBeNaN();
  });
});

test('summarize subtracts the start of the providers in each round', () => {
  const samples = (...seconds: number[]) => seconds.map((one) => ({ seconds: one + 1, fromProgramSeconds: one }));
  const rows = { empty: samples(1, 2, 1), providers: samples(3, 5, 1), staging: samples(4, 8, 2) };
  const result = summarize(new Map(Object.entries(rows)));
  expect(result.beyondProviders).toEqual({ stagingSeconds: 2, emptySeconds: 1, ratio: 2 });
  expect(result.whole).toEqual({ stagingSeconds: 3, emptySeconds: 2, ratio: 1.5 });
  expect(result.overProviders).toEqual({ stagingSeconds: 5, providersSeconds: 4, ratio: 1.5 });
});

describe('sync', () => {
  const measurement = (times: Record<string, number[]>, rest: Partial<Measurement> = {}): Measurement => {
    const samples = (seconds: number[]) =>
      seconds.map((one) => ({ seconds: one, cpuSeconds: one / 2, peakBytes: one * 1e6 }));
    const entries = Object.entries(times).map(([name, seconds]) => [name, samples(seconds)] as const);
    return { name: 'test', title: 'Files <a> & "b"', samples: new Map(entries), ...rest };
  };
  const others = { s5cmd: [10], rclone: [30], 'rclone, tuned': [20], 'aws s3 sync': [40] };

  test.each<{ name: string; time: number; rest: Partial<Measurement>; met: boolean[] }>([
    { name: 'cold-1000', time: 12.1, rest: {}, met: [true, false] },
    {
      name: 'large',
      time: 10.5,
      rest: { figures: { 'peak bytes with quarter files': 1e7 } },
      met: [true, true, true, true],
    },
    { name: 'large', time: 11, rest: {}, met: [false, true, true, false] },
  ])('the goals of $name with $time s', ({ name, time, rest, met }) => {
    const goals = SCENARIOS.find((one) => one.name === name)?.goals ?? [];
    const times = { 'sync-models': [time], ...others };
    expect(evaluate(goals, measurement(times, rest)).map((goal) => goal.met)).toEqual(met);
  });
});
