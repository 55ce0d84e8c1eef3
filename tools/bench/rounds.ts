import { median } from './compare';

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

/** Median of the ratios of `values` to `others` in the same round. */
export function medianRatio(values: readonly number[], others: readonly number[]): number {
  return median(values.map((value, i) => value / (others[i] ?? NaN)));
}
