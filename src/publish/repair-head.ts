import { UserError } from '../core/errors';
import { nextCommand } from '../core/next-command';
import { RELEASE_ID } from '../release/head';
import { formatLocation, headKey, releaseKey, releasesPrefix, type RepositoryLocation } from '../release/location';
import { parseManifest, sha256Hex, type Manifest } from '../release/manifest';
import type { S3Store } from '../s3/store';
import { AgentClient, type AgentSource } from './agent-client';
import { newId, RETAINED, type HeadFile } from './head-file';

/** Manifests that are read to find out which releases were the current one. */
const NEWEST = 50;

/** The newest manifests, newest first. */
async function readNewest(
  store: S3Store,
  location: RepositoryLocation,
): Promise<{ manifest: Manifest; manifestSha256: string }[]> {
  const prefix = `${releasesPrefix(location)}/`;
  const ids = (await store.list(`${prefix}2`)).map(({ key }) => key.slice(prefix.length).replace(/\.json$/, ''));
  const newest = ids
    .filter((id) => RELEASE_ID.test(id))
    .sort()
    .reverse()
    .slice(0, NEWEST);
  const found = await Promise.all(newest.map((id) => store.get(releaseKey(location, id))));
  return found.flatMap((object) =>
    object === undefined
      ? []
      : [{ manifest: parseManifest(object.body, headKey(location)), manifestSha256: sha256Hex(object.body) }],
  );
}

/**
 * A repository whose head.json is missing has no release yet, or has lost it.
 * @throws UserError if it has lost it
 */
export async function requireNoReleases(store: S3Store, location: RepositoryLocation): Promise<void> {
  const newest = await readNewest(store, location);
  // Manifests of a first publish that was refused are built on nothing.
  if (newest.every(({ manifest }) => manifest.base === 0)) return;
  throw lostHead(location);
}

export const lostHead = (location: RepositoryLocation): UserError =>
  new UserError(`${formatLocation(location)} has releases, but ${headKey(location)} is missing`, {
    hint: `write it again: ${nextCommand('rollback', '--repair')}`,
  });

/**
 * Writes head.json again if it is missing: for the newest release that an agent has read in it, else for the newest one on which another
 * release is built, because the newest manifest may be that of a release that was refused. Its generation is higher than
 * every one that an agent may have read.
 */
export async function repairHead(
  head: HeadFile,
  { store, location, agents }: { store: S3Store; location: RepositoryLocation; agents: AgentSource | undefined },
): Promise<{ release: string; generation: number }> {
  const base = await head.read();
  if (base.head !== undefined) return base.head;
  const newest = await readNewest(store, location);
  const states = await Promise.all(
    ((await agents?.list()) ?? []).map((agent) => new AgentClient(agent).getState().catch(() => undefined)),
  );
  const heads = states.flatMap((state) => state?.head ?? []).sort((a, b) => b.generation - a.generation);
  const before = new Set(newest.map(({ manifest }) => manifest.previous));
  const found =
    newest.find(({ manifest }) => manifest.id === heads[0]?.release) ??
    newest.find(({ manifest }) => before.has(manifest.id)) ??
    newest[0];
  if (found === undefined) {
    throw new UserError(`${formatLocation(location)} has no release`, { hint: 'publish one: npm run sync-models' });
  }
  const retained: string[] = [];
  for (let id: string | undefined = found.manifest.id; id !== undefined && retained.length < RETAINED;) {
    const manifest = await head.readManifest(id);
    if (manifest === undefined) break;
    retained.unshift(id);
    id = manifest.previous;
  }
  const generation = Math.max(heads[0]?.generation ?? 0, ...newest.map(({ manifest }) => manifest.base + 1)) + 1;
  const { manifestSha256 } = found;
  const release = found.manifest.id;
  // Objects that no retained release names may be about to be deleted.
  const sweptBefore = new Date().toISOString();
  await head.replaceOnce(base, { generation, release, manifestSha256, retained, sweptBefore, writer: newId() });
  return { release, generation };
}
