import { formatTable } from '../../src/core/format';
import type { Comparison } from './compare';

/** Prints a comparison, with the ratio of each entry to the first. */
export function printComparison(title: string, results: readonly Comparison[]): void {
  print(
    title,
    ['way', 'median', 'times the first'],
    results.map(({ name, median, ratio }) => [name, median.toFixed(2), ratio.toFixed(2)]),
  );
}

/** Prints a table with a title to stdout. */
export function print(title: string, headings: readonly string[], rows: readonly (readonly string[])[]): void {
  process.stdout.write(`\n${title}\n\n${formatTable(headings, rows)}\n\n`);
}
