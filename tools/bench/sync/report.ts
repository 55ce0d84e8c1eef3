import { formatBytes, formatTable } from '../../../src/core/format';
import { OURS } from './contestants';
import { medianOf, peakOf, ratioTo, type JudgedGoal, type RowResult } from './goals';

/** One row of the benchmark with its goals. */
export interface JudgedRow extends RowResult {
  goals: JudgedGoal[];
}

/** The row as tables for the terminal. */
export function rowText(row: JudgedRow): string {
  const tables = [contestantTable(row), ...(row.goals.length === 0 ? [] : [goalTable(row)])];
  return [row.title, ...tables].join('\n\n');
}

function contestantTable(row: JudgedRow): string {
  const headings = ['program', 'time', 'processor time', 'peak memory', 'sync-models takes'];
  if (row.requests !== undefined) headings.push('requests');
  if (row.noticed !== undefined) headings.push('saw the change');
  const rows = [...row.samples.keys()].map((name) => {
    const cells = [
      name,
      formatSeconds(medianOf(row, name, 'seconds')),
      formatSeconds(medianOf(row, name, 'cpuSeconds')),
      formatBytes(peakOf(row, name)),
      name === OURS ? '' : `${ratioTo(row, 'seconds', name).toFixed(2)} x`,
    ];
    if (row.requests !== undefined) cells.push(formatCounts(row.requests[name]));
    if (row.noticed !== undefined) cells.push(formatNoticed(row.noticed[name]));
    return cells;
  });
  return formatTable(headings, rows);
}

function goalTable({ goals }: JudgedRow): string {
  return formatTable(
    ['goal', 'at most', 'reached', ''],
    goals.map(({ what, limit, value, met }) => [
      what,
      formatNumber(limit),
      formatNumber(value),
      met ? 'met' : 'NOT MET',
    ]),
  );
}

/** Formats seconds with three digits. */
export function formatSeconds(seconds: number): string {
  return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
}

function formatNumber(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

/** `10 ListObjectsV2, 2 GetObject`, the most frequent first. */
function formatCounts(counts: Record<string, number> | undefined): string {
  const entries = Object.entries(counts ?? {}).sort(([, a], [, b]) => b - a);
  return entries.map(([operation, count]) => `${count} ${operation}`).join(', ');
}

function formatNoticed(noticed: boolean | undefined): string {
  return noticed === undefined ? '' : noticed ? 'yes' : 'no';
}

/** The row in the format of the results file: the values of each round, by tool. */
export function rowJson({ samples, ...rest }: JudgedRow): object {
  const columns = [...samples].map(([name, own]) => [
    name,
    {
      seconds: own.map(({ seconds }) => rounded(seconds, 4)),
      cpuSeconds: own.map(({ cpuSeconds }) => rounded(cpuSeconds, 4)),
      peakBytes: own.map(({ peakBytes }) => peakBytes),
    },
  ]);
  return { ...rest, contestants: Object.fromEntries(columns) as object };
}

const rounded = (value: number, digits: number): number => Number(value.toFixed(digits));
