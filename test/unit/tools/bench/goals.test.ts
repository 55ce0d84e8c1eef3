import { bestOf, judge, medianOf, peakOf, ratioTo, type RowResult } from '../../../../tools/bench/sync/goals';
import { ROWS } from '../../../../tools/bench/sync/rows';

function row(times: Record<string, number[]>, rest: Partial<RowResult> = {}): RowResult {
  const samples = new Map(
    Object.entries(times).map(([name, own]) => [
      name,
      own.map((seconds) => ({ seconds, cpuSeconds: seconds / 2, peakBytes: seconds * 1e6 })),
    ]),
  );
  return { name: 'test', title: 'Test', samples, ...rest };
}

test('the best of several settings is the one of the smallest median', () => {
  const result = row({ rclone: [1, 5, 5], 'rclone, tuned': [4, 4, 4], s5cmd: [1, 1, 1] });
  expect(bestOf(result, /^rclone/)).toBe('rclone, tuned');
  expect(bestOf(result, /^(rclone|s5cmd)/)).toBe('s5cmd');
  expect(bestOf(result, /^aws/)).toBe('');
});

test('time is a median, memory the largest', () => {
  const result = row({ 'sync-models': [1, 2, 9] });
  expect(medianOf(result, 'sync-models', 'cpuSeconds')).toBe(1);
  expect(peakOf(result, 'sync-models')).toBe(9e6);
});

test('ratios are ours over theirs', () => {
  expect(ratioTo(row({ 'sync-models': [2, 2], s5cmd: [4, 4] }), 'seconds', 's5cmd')).toBe(0.5);
});

test('a goal is met up to its limit, and not without a number', () => {
  const goals = [1, 1.01, NaN].map((value) => ({ what: String(value), limit: 1, value: () => value }));
  expect(judge(goals, row({})).map(({ what, met }) => [what, met])).toEqual([
    ['1', true],
    ['1.01', false],
    ['NaN', false],
  ]);
});

describe('the rows', () => {
  const judged = (name: string, result: RowResult): Record<string, boolean> => {
    const found = ROWS.find((one) => one.name === name);
    return Object.fromEntries(judge(found?.goals ?? [], result).map(({ what, met }) => [what, met]));
  };
  const peers = { s5cmd: [10], rclone: [30], 'rclone, tuned': [20], 'aws s3 sync': [40] };

  test('compare cold uploads with the best rclone, s5cmd and aws-cli', () => {
    expect(judged('cold-1000', row({ 'sync-models': [12.1], ...peers }))).toEqual({
      'time, of the best rclone': true,
      'time, of aws-cli': false,
    });
    expect(judged('cold-10000', row({ 'sync-models': [5], ...peers }))).toEqual({
      'time, of the best rclone': true,
      'time, of s5cmd': true,
      'peak memory, MB': true,
    });
  });

  test('compare large files with the best of all', () => {
    const figures = { 'peak bytes with quarter files': 10e6 };
    expect(judged('large', row({ 'sync-models': [10.5], ...peers }, { figures }))).toEqual({
      'time, of the best peer': true,
      'processor time, of aws-cli': true,
      'peak memory, MB': true,
      'peak memory, of that with files of a quarter of the size': true,
    });
    expect(judged('large', row({ 'sync-models': [11], ...peers }))).toMatchObject({
      'time, of the best peer': false,
      'peak memory, of that with files of a quarter of the size': false,
    });
  });

  test('count requests', () => {
    const requests = { 'sync-models': { ListObjectsV2: 11, HeadObject: 0, GetObject: 3 } };
    expect(judged('no-op', row({ 'sync-models': [5], ...peers }, { requests }))).toMatchObject({
      'LIST requests': false,
      'HEAD requests': true,
    });
  });

  test('compare one change with nothing changed', () => {
    const times = { 'sync-models': [1.04], 'sync-models, nothing changed': [1] };
    expect(judged('changed', row(times, { figures: { 'files written': 2 } }))).toEqual({
      'time, of the own no-op': true,
      'PUT requests for files, not config.pbtxt': false,
    });
  });
});
