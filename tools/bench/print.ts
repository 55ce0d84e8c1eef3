import { formatTable } from '../../src/core/format';
import type { Comparison } from './compare';

/** The ways that were compared, each beside the first one. */
export function printComparison(title: string, results: readonly Comparison[]): void {
  print(
    title,
    ['way', 'median', 'times the first'],
    results.map(({ name, median, ratio }) => [name, median.toFixed(2), ratio.toFixed(2)]),
  );
}

/** A table under its title, on stdout. */
export function print(title: string, headings: readonly string[], rows: readonly (readonly string[])[]): void {
  process.stdout.write(`\n${title}\n\n${formatTable(headings, rows)}\n\n`);
}
