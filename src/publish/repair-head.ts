import { UserError } from '../core/errors';
import { nextCommand } from '../core/next-command';
import { RELEASE_ID } from '../release/head';
import {
  filesPrefix,
  formatLocation,
  headKey,
  releaseKey,
  releasesPrefix,
  sweepOf,
  viewKey,
  type RepositoryLocation,
} from '../release/location';
import { keysOf, parseManifest, sha256Hex, type Manifest } from '../release/manifest';
import type { S3Store } from '../s3/store';
import { AnotherPublisherError, getStates, type AgentSource } from './agent-client';
import { newId, RETAINED, type HeadFile } from './head-file';
import type { Bucket } from './releases';

/** Manifests that are read to find out which releases were the current one. */
const NEWEST = 50;

/** The newest manifests, newest first. */
async function readNewest(store: S3Store, location: RepositoryLocation): Promise<Manifest[]> {
  const prefix = `${releasesPrefix(location)}/`;
  const ids = (await store.list(`${prefix}2`)).map(({ key }) => key.slice(prefix.length).replace(/\.json$/, ''));
  const sorted = ids.filter((id) => RELEASE_ID.test(id)).sort();
  const newest = sorted.reverse().slice(0, NEWEST);
  const found = await Promise.all(newest.map((id) => store.get(releaseKey(location, id))));
  return found.flatMap((object) => (object === undefined ? [] : [parseManifest(object.body, headKey(location))]));
}

/**
 * A repository whose head.json is missing has no release yet, or has lost it.
 * @throws UserError if it has lost it; AnotherPublisherError if it has just got it
 */
export async function requireNoReleases(head: HeadFile, { store, location }: Bucket): Promise<void> {
  // Manifests of a first publish that was refused are built on nothing, and the view is written after a commit.
  const isFirst = (await readNewest(store, location)).every(({ base }) => base === 0);
  if (isFirst && (await store.get(viewKey(location))) === undefined) return;
  if ((await head.read()).head !== undefined)
    throw new AnotherPublisherError('another publisher made the first release');
  throw new UserError(`${formatLocation(location)} has releases, but ${headKey(location)} is missing`, {
    hint: `write it again: ${nextCommand('rollback', '--repair')}`,
  });
}

/**
 * Writes head.json again if it is missing or damaged, or older than what an agent has read in it: for the release that
 * the agents have read last, else for the newest one on which another release is built, because every newer one may have
 * been refused. Its generation is higher than every one that an agent may have read.
 */
export async function repairHead(
  head: HeadFile,
  { store, location, agents }: { store: S3Store; location: RepositoryLocation; agents: AgentSource | undefined },
): Promise<{ release: string; generation: number }> {
  const base = await head.read({ mayBeDamaged: true });
  const states = await getStates((await agents?.list()) ?? []);
  const seen = states.flatMap((state) => state?.head ?? []).sort((a, b) => b.generation - a.generation)[0];
  const isOlder = seen !== undefined && seen.generation >= base.generation && seen.release !== base.head?.release;
  const named = base.head && (await findFirst([base.head.release], store, location));
  if (base.head !== undefined && named !== undefined && !isOlder) return base.head;
  const newest = await readNewest(store, location);
  const [last] = [...newest].sort((a, b) => b.base - a.base);
  // Without a previous one, it may be the first release, or one that was refused: then no replica serves anything.
  const wanted = [seen?.release, base.head?.release, last?.previous, last?.id].filter((id) => id !== undefined);
  const found = await findFirst(wanted, store, location);
  if (found === undefined) {
    throw new UserError(`${formatLocation(location)} has no release`, { hint: 'publish one: npm run sync-models' });
  }
  const retained: string[] = [];
  const listed = (await store.list(filesPrefix(location))).map(({ key }) => key);
  const there = new Set(listed);
  for (let id: string | undefined = found.id; id !== undefined && retained.length < RETAINED;) {
    const manifest = await head.readManifest(id);
    if (manifest === undefined) break;
    // The current release stays, so that "status" names what is missing.
    if (id !== found.id && !keysOf(manifest).every((key) => there.has(key))) break;
    retained.unshift(id);
    id = manifest.previous;
  }
  const known = [seen?.generation ?? 0, base.generation, ...newest.map((manifest) => manifest.base + 1)];
  const generation = Math.max(...known) + 1;
  // Larger than that of every prune, which may still delete files.
  const sweep = Math.max(Math.floor(Date.now() / 1000), ...listed.map(sweepOf)) + 1;
  const { id: release, manifestSha256 } = found;
  await head.put({ generation, release, manifestSha256, retained, sweep, writer: newId() }, base.condition);
  return { release, generation };
}

/** The first of these releases whose manifest is there. */
async function findFirst(
  ids: readonly string[],
  store: S3Store,
  location: RepositoryLocation,
): Promise<{ id: string; manifestSha256: string } | undefined> {
  for (const id of ids) {
    const object = await store.get(releaseKey(location, id));
    if (object !== undefined) return { id, manifestSha256: sha256Hex(object.body) };
  }
  return undefined;
}
