/** Bytes for people: `91.2 MB` (powers of 1000, as disks and networks are counted). */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 2 : 1)} ${units[unit]}`;
}

/** Milliseconds for people: `12 ms`, `3.4 s`, `2 min 05 s`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
}

/** `1 model`, `2 models`. */
export const formatCount = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;

/** The first 20 lines and the number of the others, because a repository may have thousands. */
export function firstLines(lines: readonly string[]): string[] {
  const more = lines.length - MOST_LINES;
  return more > 0 ? [...lines.slice(0, MOST_LINES), `and ${more} more`] : [...lines];
}

const MOST_LINES = 20;

/** A text in at most `columns` columns (3 or more): `promote stag...`. */
export function shortened(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, columns - 3)}...`;
}

/** A word for a shell command, in quotes if it needs them. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Writes control characters as `\x1b`, except line breaks and tabs, so that texts of servers cannot control a terminal. */
export const escapeControls = (text: string): string =>
  text.replace(/(?![\n\t])\p{Cc}/gu, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`);

/** The longest text of a table cell. A command prints a longer one, such as an error, below its table. */
export const LONGEST_CELL = 100;

/** Also writes line breaks as `\n`, which would break a table, and cuts long texts, but no paths. */
function inOneLine(text: string, longest: number): string {
  const line = escapeControls(text).replaceAll('\n', '\\n').replaceAll('\t', '\\x09');
  return line.includes(' ') ? shortened(line, longest) : line;
}

/** Rows as a table with one line of headings; columns of numbers are aligned right. */
export function formatTable(
  headings: readonly string[],
  cells: readonly (readonly string[])[],
  longest = LONGEST_CELL,
): string {
  const rows = cells.map((row) => row.map((cell) => inOneLine(cell, longest)));
  const widths = headings.map((heading, i) => Math.max(heading.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const numeric = headings.map(
    (_, i) => rows.length > 0 && rows.every((row) => /^[\d.,]+( \S+)?$|^$|^-$/.test(row[i] ?? '')),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => (numeric[i] === true ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  return [line(headings), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}
