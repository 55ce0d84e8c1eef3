import type { S3Store } from '../../s3/store';
import type { RepositoryLocation } from '../../release/location';
import { readRelease, type Release } from './release';

/** Maximum number of manifests that are read in parallel. */
const AT_ONCE = 16;

/** Number of newer manifests that are searched for the successor of a release, before the whole history is read. */
const NEWER = 8;

export interface HistoryOptions {
  /** The current release, at which the history starts. */
  head: Release | undefined;
  /** Ids of all manifests, newest first. They tell which manifests to prefetch. */
  ids: readonly string[];
  /** Maximum number of releases. If undefined, the number of prefetched manifests grows step by step. */
  most?: number;
}

/**
 * Yields the releases that were current, newest first. Omits a manifest whose publisher was killed before the head
 * pointed to it. Ends at a manifest that is missing or repeated.
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
      // Prefetch the manifests that probably follow; without that, each read would wait for the one before.
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

/** Whether a release was ever current, as far as the manifests show. */
export async function wasReleased(
  store: S3Store,
  location: RepositoryLocation,
  release: Release,
  { head, ids }: Pick<HistoryOptions, 'head' | 'ids'>,
): Promise<boolean> {
  // Without a head pointer this cannot be verified.
  if (head === undefined || head.id === release.id || head.previous === release.id) return true;
  // A manifest that names the release as `previous` proves that it was current. It is usually the next newer manifest.
  const newer = ids.slice(0, Math.max(0, ids.indexOf(release.id))).reverse();
  for (const id of newer.slice(0, NEWER)) {
    if ((await readRelease(store, location, id))?.previous === release.id) return true;
  }
  // A clock may have been wrong, or many publishers may have been killed. Only the whole history is conclusive.
  let first: Release | undefined;
  for await (const one of releaseHistory(store, location, { head, ids })) {
    if (one.id === release.id) return true;
    // A release has one successor, and the history has another successor of this predecessor.
    if (one.id === release.previous) return false;
    first = one;
  }
  // Releases older than the history cannot be verified: a manifest or the head pointer was deleted.
  return release.previous !== undefined || first?.previous !== undefined;
}
