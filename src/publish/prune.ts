import { filesPrefix, sweepOf, type RepositoryLocation } from '../release/location';
import type { Head } from '../release/head';
import { keysOf, type Manifest } from '../release/manifest';
import type { S3Store } from '../s3/store';
import type { HeadFile } from './head-file';
import type { Releases } from './releases';

/** The newest releases that a prune retains, and the time for which it retains every release. */
const RELEASES = 5;
const RETAINED_MS = 7 * 24 * 3600 * 1000;

export interface PrunePlan {
  /** Ids, oldest first. */
  retained: string[];
  /** Files that no retained release names, by their full keys. */
  orphans: { key: string; bytes: number }[];
}

/**
 * Chooses the releases to retain: the current one, the newest ones, and those of the last week. Files that none of them
 * names are deleted.
 * @param retained the releases that head.json retains, newest first
 */
export async function planPrune(
  { base, current }: Releases,
  retained: readonly Manifest[],
  store: S3Store,
  location: RepositoryLocation,
): Promise<PrunePlan> {
  const kept = retained.filter(
    ({ id, createdAt }, i) => id === current?.id || i < RELEASES || Date.parse(createdAt) > Date.now() - RETAINED_MS,
  );
  const named = new Set(kept.flatMap(keysOf));
  const isOld = (key: string): boolean => sweepOf(key) <= (base.head?.sweep ?? 0);
  return {
    retained: kept.map(({ id }) => id).reverse(),
    orphans: (await store.list(filesPrefix(location))).filter(({ key }) => !named.has(key) && isOld(key)),
  };
}

/**
 * Deletes what a plan names. First, head.json gets the retained releases and the number of the next prune: a publisher
 * that has planned before cannot commit, and later ones write other keys than those that are deleted.
 */
export async function prune(
  { base }: Releases,
  { retained, orphans }: PrunePlan,
  { head, store, writer }: { head: HeadFile; store: S3Store; writer: string },
): Promise<void> {
  const now = base.head as Head;
  if (orphans.length === 0 && retained.join() === now.retained.join()) return;
  await head.put({ ...now, retained, sweep: now.sweep + 1, writer, generation: base.generation + 1 }, base.condition);
  await store.delete(orphans.map(({ key }) => ({ key })));
}
