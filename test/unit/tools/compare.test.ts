import { compare, inParallel, median } from '../../../tools/bench/compare';

test.each([
  [[3], 3],
  [[3, 1, 2], 2],
  [[4, 1, 3, 2], 2.5],
])('median of %p', (values, expected) => {
  expect(median(values)).toBe(expected);
});

test('contestants run in turn, and the first round is not counted', async () => {
  const order: string[] = [];
  const contestant = (name: string) => ({ name, units: 1, run: async () => void order.push(name) });
  const results = await compare([contestant('a'), contestant('b')], 2);
  expect(order).toEqual(['a', 'b', 'a', 'b', 'a', 'b']);
  expect(results.map(({ rates }) => rates.length)).toEqual([2, 2]);
  expect(results[0]?.ratio).toBe(1);
});

test('inParallel does the whole work and no more at a time than it may', async () => {
  let running = 0;
  let most = 0;
  let done = 0;
  await inParallel(10, 3, async () => {
    most = Math.max(most, (running += 1));
    await new Promise((resolve) => setTimeout(resolve, 1));
    running -= 1;
    done += 1;
  });
  expect([done, most]).toEqual([10, 3]);
});
