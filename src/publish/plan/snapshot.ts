import type { ListedObject, S3Store } from '../../s3/store';
import { seeLock, type SeenLock } from '../lock';
import type { RepositoryLocation } from '../location';
import { readHead, type Head, type Release } from '../release/release';

/** The repository in the bucket at one moment. */
export interface SeenRepository {
  lock: SeenLock;
  head: Head | undefined;
  /** By key under the repository prefix. */
  objects: Map<string, ListedObject>;
}

/**
 * Reads the lock first: whoever takes it then, unchanged, knows that the rest is still as it was read.
 * @param onHead gets the current release, before the listing is complete
 */
export async function lookAt(
  store: S3Store,
  location: RepositoryLocation,
  onHead: (release: Release | undefined) => void = () => undefined,
): Promise<SeenRepository> {
  const lock = await seeLock(store, location);
  const reading = readHead(store, location).then((head) => {
    onHead(head?.release);
    return head;
  });
  // What goes wrong there is told by `reading`.
  const expected = reading.then(
    (head) => keysOf(head?.release, location),
    () => [],
  );
  const [head, objects] = await Promise.all([reading, listRepository(store, location, expected)]);
  return { lock, head, objects };
}

async function listRepository(
  store: S3Store,
  location: RepositoryLocation,
  expected: Promise<string[]>,
): Promise<Map<string, ListedObject>> {
  const folder = `${location.prefix}/`;
  const listed = await store.list(folder, expected);
  return new Map(listed.map((object) => [object.key.slice(folder.length), object]));
}

/** Keys of what a release has, sorted. */
function keysOf(release: Release | undefined, { prefix }: RepositoryLocation): string[] {
  const keys = Object.values(release?.models ?? {}).flatMap(({ objects }) => Object.keys(objects));
  return keys.map((key) => `${prefix}/${key}`).sort();
}
