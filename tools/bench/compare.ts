import { forEachLimited } from '../../src/core/pool';

/** One way to do the work that is compared. */
export interface Contestant {
  name: string;
  /** Does the work once; `units` of it per call. */
  run: () => Promise<void>;
  units: number;
}

export interface Comparison {
  name: string;
  /** Units a second, one for each repetition. */
  rates: number[];
  median: number;
  /** Median of this rate over the first contestant's of the same repetition. */
  ratio: number;
}

/**
 * Runs the contestants in turn, again and again, so that whatever else the machine does meets all of them alike, and
 * compares each with the first one repetition by repetition. One round before the first is not counted.
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

/** The middle value; of an even number the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? NaN;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? NaN;
  return (lower + upper) / 2;
}

/** Calls `work` `count` times, `limit` at a time. */
export async function inParallel(count: number, limit: number, work: () => Promise<unknown>): Promise<void> {
  await forEachLimited(Array<undefined>(count).fill(undefined), limit, async () => {
    await work();
  });
}
