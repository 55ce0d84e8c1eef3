import { median, medianRatio, rounds } from '../../../tools/bench/compare';

test('rounds starts each round with another entry and does not count the first round', async () => {
  const order: string[] = [];
  const entry = (name: string): [string, () => Promise<string>] => [name, async () => name];
  const results = await rounds(new Map(['a', 'b', 'c'].map(entry)), 2, (round, name) => order.push(`${round}${name}`));
  expect(order).toEqual(['0a', '0b', '0c', '1b', '1c', '1a', '2c', '2a', '2b']);
  expect([...results.values()]).toEqual([['a', 'a'], ['b', 'b'], ['c', 'c']]); // prettier-ignore
});

test('median of even and odd counts; medianRatio compares values of the same round', () => {
  expect([median([3, 1, 2]), median([4, 1, 3, 2])]).toEqual([2, 2.5]);
  expect(medianRatio([1, 30, 1], [2, 60, 2])).toBe(0.5);
  expect(medianRatio([1], [])).toBeNaN();
});
