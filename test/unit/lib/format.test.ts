import { formatBytes, formatDuration, formatTable } from '../../../scripts/lib/format';

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1000, '1.00 kB'],
  [91_200_000, '91.2 MB'],
  [999_600_000, '1.00 GB'],
  [5.3e12, '5.30 TB'],
])('formatBytes(%d) = %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test.each([
  [12.4, '12 ms'],
  [3449, '3.4 s'],
  [59_940, '59.9 s'],
  [125_000, '2 min 05 s'],
])('formatDuration(%d) = %s', (milliseconds, text) => {
  expect(formatDuration(milliseconds)).toBe(text);
});

test('formatTable aligns numbers right and leaves no trailing blanks', () => {
  expect(
    formatTable(
      ['model', 'bytes', 'note'],
      [
        ['a', '1 B', 'x'],
        ['bert', '10 B', ''],
      ],
    ),
  ).toBe(['model  bytes  note', '-----  -----  ----', 'a        1 B  x', 'bert    10 B'].join('\n'));
});
