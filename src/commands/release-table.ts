import { formatTable, shortened } from '../core/format';
import type { ListedRelease } from '../publish/list-releases';

/** A terminal with at least this many columns has room for longer names. */
const WIDE = 120;

/** Minimum width of the column `changes`, however narrow the terminal is. */
const LEAST_CHANGES = 14;

/** Digits of a commit hash that are shown, as in git's abbreviated hashes. */
const COMMIT_DIGITS = 7;

/**
 * Formats releases as a table for a terminal of `columns` columns. Long values are shortened; of ids the last part is
 * shown, which `npm run rollback` accepts too. A narrow table has no commits and messages.
 */
export function releaseTable(found: readonly ListedRelease[], columns: number): string {
  const isWide = columns >= WIDE;
  const most = isWide ? { by: 16, from: 32 } : { by: 9, from: 20 };
  const headings = ['', 'release', 'UTC', 'by', ...(isWide ? ['commit'] : []), 'from'];
  const rows = found.map(({ id, isCurrent, createdAt, by, origin, commit = '', message, notAsked }) => [
    isCurrent ? '*' : '',
    shortId(id),
    createdAt.slice(0, 19).replace('T', ' '),
    shortened(by, most.by),
    ...(isWide ? [commit.replace(/^[0-9a-f]+/, (hash) => hash.slice(0, COMMIT_DIGITS))] : []),
    shortened(
      `${notAsked ? 'not asked: ' : ''}${isWide ? originOrMessage(origin, message) : shortOrigin(origin)}`,
      most.from,
    ),
  ]);
  const taken = formatTable(headings, rows).split('\n')[1]?.length ?? 0;
  const room = Math.max(LEAST_CHANGES, columns - taken - 2);
  return formatTable(
    [...headings, 'changes'],
    rows.map((row, i) => [...row, fitted(found[i]?.changes ?? [], room)]),
  );
}

/**
 * A message is more informative than "sync-models", but the origin of a rollback or promotion is more informative than
 * its message.
 */
const originOrMessage = (origin: string, message: string | undefined): string =>
  message !== undefined && origin.startsWith('sync-models ') ? message : shortOrigin(origin);

/** `20261120T113254123Z-1f2e3d4c` -> `1f2e3d4c`: the rest is the time of the release, which has a column of its own. */
const shortId = (id: string): string => /[^-]*$/.exec(id)?.[0] ?? id;

/** `sync-models`, `rollback to 1f2e3d4c`, `promoted from s3://bucket/models, 1f2e3d4c`. */
function shortOrigin(origin: string): string {
  return origin
    .replace(/^(sync-models) .*/, '$1')
    .replace(/, release (?=\d)/, ', ')
    .replace(/\b\d{8}T\d+Z-([0-9a-f]{8})\b/, '$1');
}

/** As many changes as fit into the columns, and the number of the others. */
function fitted(changes: readonly string[], columns: number): string {
  for (let count = changes.length; count > 0; count -= 1) {
    const rest = changes.length - count;
    const text = changes.slice(0, count).join(', ') + (rest === 0 ? '' : `, ${rest} more`);
    if (text.length <= columns) return text;
  }
  return changes.length > 1 ? `${changes.length} changes` : shortened(changes.join(), columns);
}
