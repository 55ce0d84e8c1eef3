import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cleanup } from '../../src/core/cleanup';
import { forEachLimited } from '../../src/core/concurrency';
import { formatTable } from '../../src/core/format';

export interface BenchOptions {
  /** Counted rounds of each comparison. */
  repetitions: number;
  /** A tenth of the bytes and replicas, to try the benchmark. */
  quick: boolean;
}

/** Runs `work` in a temporary folder. Afterwards runs the steps that `work` deferred to `undo`, and removes the folder. */
export async function inScratch<T>(work: (directory: string, undo: Cleanup) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), 'triton-serving-bench-'));
  const undo = new Cleanup();
  undo.defer(() => rmSync(directory, { recursive: true, force: true }));
  try {
    return await work(directory, undo);
  } finally {
    await undo.run();
  }
}

/**
 * Compares several ways to do the same work, which has `units` units, and prints units per second and their ratio to the
 * first way. The ways take turns, so that other load on the machine affects all of them equally. An initial round is not
 * counted.
 */
export async function compareRates(
  title: string,
  ways: Readonly<Record<string, () => Promise<unknown>>>,
  units: number,
  repetitions: number,
  onRound: (round: number) => void,
): Promise<void> {
  const rates = Object.keys(ways).map((name) => ({ name, values: [] as number[] }));
  for (let round = 0; round <= repetitions; round += 1) {
    onRound(round);
    for (const { name, values } of rates) {
      const started = performance.now();
      await ways[name]?.();
      if (round > 0) values.push((units * 1000) / (performance.now() - started));
    }
  }
  const first = rates[0]?.values ?? [];
  const rows = rates.map(({ name, values }) => [
    name,
    median(values).toFixed(2),
    median(values.map((value, round) => value / (first[round] ?? NaN))).toFixed(2),
  ]);
  print(title, ['way', 'median', 'times the first'], rows);
}

/** The median; for an even number of values the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? NaN;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? NaN;
  return (lower + upper) / 2;
}

/** Calls `work` `count` times, at most `limit` calls at once. */
export async function inParallel(count: number, limit: number, work: () => Promise<unknown>): Promise<void> {
  await forEachLimited(Array<undefined>(count).fill(undefined), limit, async () => {
    await work();
  });
}

export function print(title: string, headings: readonly string[], rows: readonly (readonly string[])[]): void {
  process.stdout.write(`\n${title}\n\n${formatTable(headings, rows)}\n\n`);
}
