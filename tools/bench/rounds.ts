import { median } from './compare';

/**
 * Runs the entries in turn, round after round, so that whatever else the machine does meets all of them alike. Each
 * round begins with another one: what a run leaves behind (a warm disk, a busy server) must not always meet the same
 * next one. A round before the first is not counted.
 * @returns by name, one result for each counted round
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

/** Median of `values` over `others`, each divided by the one of the same round. */
export function medianRatio(values: readonly number[], others: readonly number[]): number {
  return median(values.map((value, i) => value / (others[i] ?? NaN)));
}
