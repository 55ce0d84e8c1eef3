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

/** `maxBatchSize`, `max-batch-size` and `MAX_BATCH_SIZE` are all meant as `max_batch_size`. */
const folded = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, '');

/** Longer names are not typing mistakes of anything, and the comparison takes length times length. */
const LONGEST_NAME = 100;

/** The candidate that `name` was most likely meant to be, if one is near enough to be worth saying. */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > LONGEST_NAME) return undefined;
  const wanted = folded(name);
  let best: string | undefined;
  // One mistake in three letters; of shorter names only another spelling (`-` for `_`, capitals).
  let bestDistance = Math.floor(wanted.length / 3) + 1;
  for (const candidate of candidates) {
    const other = folded(candidate);
    // No fewer than their lengths differ by.
    if (Math.abs(wanted.length - other.length) >= bestDistance) continue;
    const apart = distance(wanted, other);
    if (apart < bestDistance) [best, bestDistance] = [candidate, apart];
  }
  return best;
}

/** A hint for a misspelt name, or undefined where nothing is near: `did you mean "dims"?` */
export function didYouMean(name: string, candidates: Iterable<string>): string | undefined {
  const found = nearest(name, candidates);
  return found === undefined ? undefined : `did you mean ${JSON.stringify(found)}?`;
}
