import { medianRatio, rounds } from '../../../../tools/bench/rounds';

test('all run in each round, each round begins with another one, and the first round is not counted', async () => {
  const order: string[] = [];
  const entry = (name: string): [string, (round: number) => Promise<string>] => [
    name,
    async (round) => {
      order.push(`${round}${name}`);
      return `${round}${name}`;
    },
  ];
  const seen: string[] = [];
  const results = await rounds(new Map(['a', 'b', 'c'].map(entry)), 2, (round, name) => seen.push(`${round}${name}`));
  expect(order).toEqual(['0a', '0b', '0c', '1b', '1c', '1a', '2c', '2a', '2b']);
  expect(seen).toEqual(order);
  expect([...results]).toEqual([
    ['a', ['1a', '2a']],
    ['b', ['1b', '2b']],
    ['c', ['1c', '2c']],
  ]);
});

test('a failed run ends the rounds', async () => {
  const entries = new Map([['a', () => Promise.reject(new Error('no disk'))]]);
  await expect(rounds(entries, 2)).rejects.toThrow('no disk');
});

test('ratios are made within a round', () => {
  // The second round was slow for both.
  expect(medianRatio([1, 30, 1], [2, 60, 2])).toBe(0.5);
  expect(medianRatio([1], [])).toBeNaN();
});
