import { headKey, keptPrefix, type RepositoryLocation } from '../release/location';
import { forEachLimited } from '../core/concurrency';
import type { Head } from '../release/head';
import { filesOf, type Manifest } from '../release/manifest';
import type { S3Store } from '../s3/store';
import { AnotherPublisherError } from './agent-client';
import type { HeadFile } from './head-file';
import { getVersion } from './keys';
import type { Releases } from './releases';

/** The newest releases that a prune retains, and the time for which it retains every release. */
const RELEASES = 5;
const DAY_MS = 24 * 3600 * 1000;
const RETAINED_MS = 7 * DAY_MS;
/** Objects that are deleted before head.json is read again. */
const BATCH = 1000;

/** What a prune would do. */
export interface PrunePlan {
  /** Ids, oldest first. */
  retained: string[];
  sweptBefore: string;
  /** Objects that no retained release names, by their full keys. */
  orphans: { key: string; etag: string; bytes: number }[];
}

/**
 * Chooses the releases to retain: the current one, the newest ones, and those of the last week. Objects that none of
 * them names are deleted if they are older than a day, by S3's clock, so that another publisher can go on that has
 * uploaded them for its release.
 * @param retained the releases that head.json retains, newest first
 */
export async function planPrune(
  { base, current }: Releases,
  retained: readonly Manifest[],
  store: S3Store,
  location: RepositoryLocation,
): Promise<PrunePlan> {
  const now = await serverTime(store, location);
  const listed = [
    ...(await store.list(`${location.prefix}/`)).filter(
      ({ key }) => getVersion(key.slice(key.indexOf('/', location.prefix.length + 1) + 1)) !== undefined,
    ),
    ...(await store.list(keptPrefix(location))),
  ];
  const kept = retained.filter(
    ({ id, createdAt }, i) => id === current?.id || i < RELEASES || Date.parse(createdAt) > now - RETAINED_MS,
  );
  const sweptBefore = new Date(
    Math.max(now - DAY_MS, Date.parse(base.head?.sweptBefore ?? '1970-01-01')),
  ).toISOString();
  const files = kept.flatMap((release) => namedFiles(release, location));
  const named = new Set(files.map(({ key }) => key));
  const old = listed.filter(({ key, modified }) => !named.has(key) && modified.toISOString() < sweptBefore);
  const copies = await findCopies(old, files, store);
  return {
    retained: kept.map(({ id }) => id).reverse(),
    sweptBefore,
    orphans: old.filter(({ key }) => !copies.has(key)).map(({ key, etag, bytes }) => ({ key, etag, bytes })),
  };
}

/** The time by S3's clock: when head.json was written, and its age. */
async function serverTime(store: S3Store, location: RepositoryLocation): Promise<number> {
  const [listed] = await store.list(headKey(location));
  const found = await store.get(headKey(location));
  return (listed?.modified.getTime() ?? 0) + (found?.ageMs ?? 0);
}

/** The files of a release, each with its place in the view for servers without an agent. */
const namedFiles = ({ models }: Manifest, { prefix }: RepositoryLocation) =>
  Object.entries(models).flatMap(([name, model]) =>
    filesOf(model).map(({ key, path, checksum }) => ({ key, checksum, place: `${prefix}/${name}/${path}` })),
  );

/** The objects that are copies of files stored under another key. Other bytes in such a place are not. */
async function findCopies(
  objects: readonly { key: string; bytes: number }[],
  files: ReturnType<typeof namedFiles>,
  store: S3Store,
): Promise<Set<string>> {
  const places = new Set(files.map(({ place }) => place));
  const contents = new Set(files.map(({ place, checksum }) => `${checksum} ${place}`));
  const copies = new Set<string>();
  const inPlace = objects.filter(({ key }) => places.has(key));
  await forEachLimited(inPlace, store.concurrency, async ({ key, bytes }) => {
    if (contents.has(`${await store.checksum(key, bytes)} ${key}`)) copies.add(key);
  });
  return copies;
}

/**
 * Deletes what a plan names. head.json first says which releases are retained and from when on an object may be named,
 * so that a publisher that has planned with others cannot commit. Only the newest versions are deleted, so the prune can
 * be undone while the bucket keeps earlier versions.
 * @throws AnotherPublisherError if another publisher changes head.json while objects are deleted
 */
export async function prune(
  { base }: Releases,
  { retained, sweptBefore, orphans }: PrunePlan,
  { head, store, writer }: { head: HeadFile; store: S3Store; writer: string },
): Promise<void> {
  const now = base.head as Head;
  if (orphans.length === 0 && retained.join() === now.retained.join()) return;
  const next = { ...now, retained, sweptBefore, writer, generation: base.generation + 1 };
  await head.replaceOnce(base, next);
  for (let i = 0; i < orphans.length; i += BATCH) {
    if ((await head.read()).generation !== next.generation) {
      throw new AnotherPublisherError('another publisher changed head.json, so not everything was deleted');
    }
    await store.delete(orphans.slice(i, i + BATCH));
  }
}
