import { forEachLimited } from '../../src/core/pool';

/** One of the compared ways to do the same work. */
export interface Contestant {
  name: string;
  /** Does `units` of the work. */
  run: () => Promise<void>;
  units: number;
}

export interface Comparison {
  name: string;
  /** Units per second, one value for each repetition. */
  rates: number[];
  median: number;
  /** Median ratio of this rate to that of the first entry in the same repetition. */
  ratio: number;
}

/**
 * Runs the entries alternately, so that other load on the machine affects all of them equally, and compares each with
 * the first entry of the same repetition. An initial round is not counted.
 */
export async function compare(
  contestants: readonly Contestant[],
  repetitions: number,
  onRound: (round: number) => void = () => undefined,
): Promise<Comparison[]> {
  const rates = contestants.map((): number[] => []);
  for (let round = 0; round <= repetitions; round += 1) {
    onRound(round);
    for (const [i, { run, units }] of contestants.entries()) {
      const started = performance.now();
      await run();
      if (round > 0) rates[i]?.push((units * 1000) / (performance.now() - started));
    }
  }
  return contestants.map(({ name }, i) => {
    const own = rates[i] ?? [];
    const ratios = own.map((rate, k) => rate / (rates[0]?.[k] ?? NaN));
    return { name, rates: own, median: median(own), ratio: median(ratios) };
  });
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
