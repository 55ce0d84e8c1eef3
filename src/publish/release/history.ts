import type { S3Store } from '../../s3/store';
import type { RepositoryLocation } from '../location';
import { readRelease, type Release } from './release';

/** Manifests that are read at a time. */
const AT_ONCE = 16;

/** Among so many newer manifests the one after a release is looked for, before the whole history is read. */
const NEWER = 8;

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
 * it is not among them. Ends where a manifest is gone, or comes again.
 */
export async function* releaseHistory(
  store: S3Store,
  location: RepositoryLocation,
  { head, ids, most = Infinity }: HistoryOptions,
): AsyncGenerator<Release, void> {
  const reading = new Map<string, Promise<Release | undefined>>();
  const yielded = new Set<string>();
  let left = most;
  let atOnce = most === Infinity ? 1 : AT_ONCE;
  for (let release = head; release !== undefined && left > 0 && !yielded.has(release.id); left -= 1) {
    yielded.add(release.id);
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

/** Whether the repository was ever at a release, as far as anything tells. */
export async function wasReleased(
  store: S3Store,
  location: RepositoryLocation,
  release: Release,
  { head, ids }: Pick<HistoryOptions, 'head' | 'ids'>,
): Promise<boolean> {
  // Without a pointer nobody can tell.
  if (head === undefined || head.id === release.id || head.previous === release.id) return true;
  // Who made the next manifest found it current. That one is usually the next newer one.
  const newer = ids.slice(0, Math.max(0, ids.indexOf(release.id))).reverse();
  for (const id of newer.slice(0, NEWER)) {
    if ((await readRelease(store, location, id))?.previous === release.id) return true;
  }
  // A clock may have been wrong, or many publishers died: only the whole history tells for sure.
  let first: Release | undefined;
  for await (const one of releaseHistory(store, location, { head, ids })) {
    if (one.id === release.id) return true;
    // Every release has one successor, and another one came after that.
    if (one.id === release.previous) return false;
    first = one;
  }
  // What is older than the history, because a manifest or the pointer was deleted, nobody can tell.
  return release.previous !== undefined || first?.previous !== undefined;
}
