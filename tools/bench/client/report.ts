import { formatTable } from '../../../src/core/format';
import { median } from '../compare';
import { medianRatio } from '../rounds';
import { OURS, PERF_ANALYZER, type Cell, type Sample } from './contestants';

/** The samples of each tool, one for each round. */
export interface CellResult extends Cell {
  samples: Map<string, Sample[]>;
}

const rates = (result: CellResult, name: string): number[] =>
  (result.samples.get(name) ?? []).map(({ requestsPerSecond }) => requestsPerSecond);

/** Forms of NVIDIA's Python client, the fastest in this cell first. */
function peers(result: CellResult): string[] {
  const names = [...result.samples.keys()].filter((name) => name !== OURS && name !== PERF_ANALYZER);
  return names.sort((a, b) => median(rates(result, b)) - median(rates(result, a)));
}

/** Ratio of our requests per second to those of another tool in the same round. */
const ratioTo = (result: CellResult, name: string): number => medianRatio(rates(result, OURS), rates(result, name));

/**
 * A row for each cell: requests per second, and the ratios to the fastest form of tritonclient and to perf_analyzer.
 */
export function cellTable(results: readonly CellResult[]): string {
  const number = (value: number, digits = value < 100 ? 1 : 0): string =>
    Number.isNaN(value) ? '-' : value.toFixed(digits);
  const rows = results.map((result) => {
    const [best = ''] = peers(result);
    const of = (name: string, field: keyof Sample): string =>
      number(median((result.samples.get(name) ?? []).map((sample) => sample[field])));
    return [
      `${result.protocol}, ${result.elements === 16 ? '16 numbers' : '3 MB'}, ${result.concurrency} at a time`,
      of(OURS, 'requestsPerSecond'),
      of(best, 'requestsPerSecond'),
      best.replace('tritonclient, ', ''),
      of(PERF_ANALYZER, 'requestsPerSecond'),
      number(ratioTo(result, best), 2),
      number(ratioTo(result, PERF_ANALYZER), 2),
    ];
  });
  return formatTable(
    ['requests a second', 'ours', 'tritonclient', 'its form', 'perf_analyzer', 'of it', 'of that'],
    rows,
  );
}

/** A cell in the format of the results file. */
export function cellJson(result: CellResult): object {
  const { protocol, elements, concurrency, samples } = result;
  const [best = ''] = peers(result);
  const ratio = { [best]: ratioTo(result, best), [PERF_ANALYZER]: ratioTo(result, PERF_ANALYZER) };
  return { protocol, elements, concurrency, ratio, samples: Object.fromEntries(samples) };
}
