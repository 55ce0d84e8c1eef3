import type { S3Store } from '../s3/store';
import type { RepositoryLocation } from './location';
import { readRelease, type Release } from './release';

/** Manifests that are read at a time. */
const AT_ONCE = 16;

export interface HistoryOptions {
  /** Where the history ends: the release that the repository is at. */
  head: Release | undefined;
  /** Of all manifests there are, the newest first: tells which to read before they are asked for. */
  ids: readonly string[];
  /** How many releases will be asked for; unless given, more and more are read ahead. */
  most?: number;
}

/**
 * The releases that the repository was at, the newest first. A manifest whose publisher was killed before it pointed to
 * it is not among them. Ends where a manifest is gone.
 */
export async function* releaseHistory(
  store: S3Store,
  location: RepositoryLocation,
  { head, ids, most = Infinity }: HistoryOptions,
): AsyncGenerator<Release, void> {
  const reading = new Map<string, Promise<Release | undefined>>();
  let left = most;
  let atOnce = most === Infinity ? 1 : AT_ONCE;
  for (let release = head; release !== undefined && left > 0; left -= 1) {
    yield release;
    const { previous } = release;
    if (previous === undefined || left === 1) return;
    if (!reading.has(previous)) {
      // Those that probably come next are read with it: one by one each would wait for the one before.
      const at = ids.indexOf(previous);
      const next = at < 0 ? [previous] : ids.slice(at, at + Math.min(atOnce, left - 1));
      for (const id of next) {
        const found = readRelease(store, location, id);
        found.catch(() => undefined);
        reading.set(id, found);
      }
      atOnce = Math.min(2 * atOnce, AT_ONCE);
    }
    release = await reading.get(previous);
    reading.delete(previous);
  }
}

/**
 * Whether the repository was ever at a release, as far as its history goes back. Every release has one successor: when
 * the one before it is met, and another one came after that, it never was.
 */
export async function wasReleased(release: Release, history: AsyncIterable<Release>): Promise<boolean> {
  let first: Release | undefined;
  for await (const one of history) {
    if (one.id === release.id) return true;
    if (one.id === release.previous) return false;
    first = one;
  }
  // What is older than the history, because a manifest or the pointer was deleted, nobody can tell.
  return release.previous !== undefined || first?.previous !== undefined;
}
