/** Number of single-character insertions, deletions and substitutions between two words (Levenshtein). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitution, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** Folds `maxBatchSize`, `max-batch-size`, `MAX_BATCH_SIZE` and `max_batch_size` to the same name. */
const folded = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, '');

/** Longer names are not misspellings, and the comparison takes time proportional to the product of both lengths. */
const LONGEST_NAME = 100;

/** The candidate that `name` most likely stands for, if one is near enough. */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > LONGEST_NAME) return undefined;
  const wanted = folded(name);
  let best: string | undefined;
  // One mistake per three letters. A shorter name may only differ in spelling (`-` for `_`, capitals).
  let bestDistance = Math.floor(wanted.length / 3) + 1;
  for (const candidate of candidates) {
    const other = folded(candidate);
    // The distance is at least the difference of the lengths.
    if (Math.abs(wanted.length - other.length) >= bestDistance) continue;
    const apart = distance(wanted, other);
    if (apart < bestDistance) [best, bestDistance] = [candidate, apart];
  }
  return best;
}

/** A hint for a misspelt name, or undefined if no candidate is near: `did you mean "dims"?` */
export function didYouMean(name: string, candidates: Iterable<string>): string | undefined {
  const found = nearest(name, candidates);
  return found === undefined ? undefined : `did you mean ${JSON.stringify(found)}?`;
}
