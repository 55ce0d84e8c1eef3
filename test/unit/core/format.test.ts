import {
  firstLines,
  formatBytes,
  formatCount,
  formatDuration,
  formatTable,
  shellWord,
  shortened,
} from '../../../src/core/format';
import { paths } from '../../../src/core/paths';
import { nextCommand, traceCommand } from '../../../src/core/next-command';

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

test('formatTable cuts long texts, but no paths', () => {
  const [text, path] = ['no answer '.repeat(30), '/tmp/'.repeat(30)];
  const [, , row] = formatTable(['text', 'path'], [[text, path]]).split('\n');
  expect(row).toBe(`${text.slice(0, 97)}...  ${path}`);
});

test('formatTable writes control characters of a cell as escapes', () => {
  expect(formatTable(['text', 'n'], [['a\nb\x1b[1m\r', '1']])).toBe(
    'text             n\n---------------  -\na\\nb\\x1b[1m\\x0d  1',
  );
});

test('formatCount, shortened and firstLines shorten text for people', () => {
  expect([0, 1, 2].map((number) => formatCount(number, 'model'))).toEqual(['0 models', '1 model', '2 models']);
  expect(shortened('promote', 7)).toBe('promote');
  expect(shortened('promote', 6)).toBe('pro...');
  const lines = Array.from({ length: 22 }, (_, i) => `line ${i}`);
  expect(firstLines(lines.slice(0, 20))).toEqual(lines.slice(0, 20));
  expect(firstLines(lines)).toEqual([...lines.slice(0, 20), 'and 2 more']);
});

test.each([
  ['model-repo/a_b:1,2@%', 'model-repo/a_b:1,2@%'],
  ['my models', "'my models'"],
  ["it's", `'it'\\''s'`],
  ['', "''"],
])('shellWord(%j)', (word, expected) => {
  expect(shellWord(word)).toBe(expected);
});

test.each([
  ['no words', nextCommand('status'), 'npm run status'],
  ['a word with a space', nextCommand('local', '--repo', '/my models'), "npm run local -- --repo '/my models'"],
  ['a model of this package', traceCommand(`${paths.modelRepository}/bert`), 'npm run trace -- --models bert'],
  ['of another folder', traceCommand("/it's/m"), "npm run trace -- --models m --repo '/it'\\''s'"],
])('nextCommand and traceCommand quote the words of %s', (_, command, expected) => {
  expect(command).toBe(expected);
});
