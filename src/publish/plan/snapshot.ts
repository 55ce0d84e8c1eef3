import { forEachLimited } from '../../core/concurrency';
import type { ListedObject, S3Store } from '../../s3/store';
import { readLock, type LockSnapshot } from '../lock';
import type { RepositoryLocation } from '../../release/location';
import { readHead, type CurrentRelease } from '../release/release';

/** A snapshot of the repository in the bucket. */
export interface RepositorySnapshot {
  lock: LockSnapshot;
  head: CurrentRelease | undefined;
  /** By key under the repository prefix. */
  objects: Map<string, ListedObject>;
}

/**
 * Reads a snapshot, the lock first: a publisher that acquires the unchanged lock afterwards knows that the rest of the
 * snapshot is still valid.
 */
export async function readSnapshot(store: S3Store, location: RepositoryLocation): Promise<RepositorySnapshot> {
  const lock = await readLock(store, location);
  const [head, objects] = await Promise.all([readHead(store, location), listRepository(store, location)]);
  return { lock, head, objects };
}

async function listRepository(store: S3Store, location: RepositoryLocation): Promise<Map<string, ListedObject>> {
  const folder = `${location.prefix}/`;
  const listed = await store.list(folder);
  return new Map(listed.map((object) => [object.key.slice(folder.length), object]));
}

/**
 * Objects that differ from the release. A model that another publisher is activating right now is not drift. The same
 * bytes may have another ETag: with SSE-KMS each write has a new one. So S3 is then asked for the checksum.
 */
export async function findDrift(
  { head, lock, objects }: RepositorySnapshot,
  store: S3Store,
  { prefix }: RepositoryLocation,
): Promise<string[]> {
  const settled = Object.entries(head?.release.models ?? {}).filter(
    ([name]) => lock.heldBy === undefined || !lock.unfinished.switching.includes(name),
  );
  const drift = new Map<string, string>();
  const released = settled.flatMap(([, model]) => Object.entries(model.objects));
  await forEachLimited(released, store.concurrency, async ([key, { etag, bytes, checksum }]) => {
    const present = objects.get(key);
    if (present === undefined) drift.set(key, `${key} is missing`);
    if (present === undefined || (present.etag === etag && present.bytes === bytes)) return;
    const isComparable = present.bytes === bytes && checksum !== '';
    if (isComparable && (await store.checksum(`${prefix}/${key}`, bytes)) === checksum) return;
    drift.set(key, `${key} differs from the release`);
  });
  return released.flatMap(([key]) => drift.get(key) ?? []);
}
