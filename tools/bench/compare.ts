import { formatTable } from '../../src/core/format';
import { forEachLimited } from '../../src/core/concurrency';

export interface BenchOptions {
  /** Counted rounds of each comparison. */
  repetitions: number;
  /** A tenth of the bytes, files and replicas, to try the benchmark. */
  quick: boolean;
}

/**
 * Runs the entries alternately in rounds, so that other load on the machine affects all of them equally. Each round
 * starts with a different entry, so that side effects of a run (a warm disk, a busy server) do not always affect the
 * same successor. An initial round is not counted.
 * @returns one result for each counted round, by name
 */
export async function rounds<T>(
  entries: ReadonlyMap<string, (round: number) => Promise<T>>,
  repetitions: number,
  onRun: (round: number, name: string) => void = () => undefined,
): Promise<Map<string, T[]>> {
  const names = [...entries.keys()];
  const results = new Map(names.map((name): [string, T[]] => [name, []]));
  for (let round = 0; round <= repetitions; round += 1) {
    for (let i = 0; i < names.length; i += 1) {
      const name = names[(i + round) % names.length] as string;
      onRun(round, name);
      const result = await entries.get(name)?.(round);
      if (round > 0) results.get(name)?.push(result as T);
    }
  }
  return results;
}

interface Comparison {
  name: string;
  /** Units per second, one value for each repetition. */
  rates: number[];
  median: number;
  /** Median ratio of this rate to that of the first entry in the same repetition. */
  ratio: number;
}

/** Compares the rates of several ways to do the same work, which has `units` units. */
export async function compareRates(
  ways: Record<string, () => Promise<unknown>>,
  units: number,
  repetitions: number,
  onRun?: (round: number, name: string) => void,
): Promise<Comparison[]> {
  const entries = Object.entries(ways).map(([name, run]): [string, () => Promise<number>] => [
    name,
    async () => {
      const started = performance.now();
      await run();
      return (units * 1000) / (performance.now() - started);
    },
  ]);
  const results = [...(await rounds(new Map(entries), repetitions, onRun))];
  const first = results[0]?.[1] ?? [];
  return results.map(([name, rates]) => ({ name, rates, median: median(rates), ratio: medianRatio(rates, first) }));
}

/** The median; for an even number of values the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? NaN;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? NaN;
  return (lower + upper) / 2;
}

/** Median of the ratios of `values` to `others` in the same round. */
export function medianRatio(values: readonly number[], others: readonly number[]): number {
  return median(values.map((value, i) => value / (others[i] ?? NaN)));
}

/** Calls `work` `count` times, at most `limit` calls at once. */
export async function inParallel(count: number, limit: number, work: () => Promise<unknown>): Promise<void> {
  await forEachLimited(Array<undefined>(count).fill(undefined), limit, async () => {
    await work();
  });
}

/** Prints a comparison, with the ratio of each entry to the first. */
export function printComparison(title: string, results: readonly Comparison[]): void {
  print(
    title,
    ['way', 'median', 'times the first'],
    results.map(({ name, median, ratio }) => [name, median.toFixed(2), ratio.toFixed(2)]),
  );
}

export function print(title: string, headings: readonly string[], rows: readonly (readonly string[])[]): void {
  process.stdout.write(`\n${title}\n\n${formatTable(headings, rows)}\n\n`);
}
