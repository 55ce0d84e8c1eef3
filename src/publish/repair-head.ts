import { UserError } from '../core/errors';
import { nextCommand } from '../core/next-command';
import { FormatError } from '../release/format';
import { RELEASE_ID } from '../release/head';
import {
  filesPrefix,
  formatLocation,
  headKey,
  releaseKey,
  releasesPrefix,
  sweepOf,
  viewKey,
} from '../release/location';
import { keysOf, sha256Hex, type Manifest } from '../release/manifest';
import { AgentClient, AnotherPublisherError, type AgentSource } from './agent-client';
import { newId, RETAINED, type HeadFile } from './head-file';
import type { Bucket } from './releases';

/** Ids that a message names. */
const NEWEST = 5;

/**
 * A repository whose head.json is missing has no release yet, or has lost it: then view.json is there, which is written
 * after the first commit.
 * @throws UserError if it has lost it; AnotherPublisherError if it has just got it
 */
export async function requireNoReleases(head: HeadFile, { store, location }: Bucket): Promise<void> {
  if ((await store.get(viewKey(location))) === undefined) return;
  if ((await head.read()).head !== undefined)
    throw new AnotherPublisherError('another publisher made the first release');
  throw new UserError(`${formatLocation(location)} has releases, but ${headKey(location)} is missing`, {
    hint: `write it again: ${nextCommand('rollback', '--repair')}`,
  });
}

export interface RepairOptions extends Bucket {
  /** Each of them must answer. */
  agents: AgentSource | undefined;
  /** The release that head.json is to name. Default: the one that the agents have read in it last. */
  id?: string | undefined;
}

/**
 * Writes head.json again if it is missing or damaged, or older than what an agent has read in it. It never chooses a
 * release that no agent has read in head.json, because that may be one which the replicas refused.
 */
export async function repairHead(
  head: HeadFile,
  { store, location, agents, id }: RepairOptions,
): Promise<{ release: string; generation: number }> {
  const base = await head.read({ mayBeDamaged: true });
  const found = (await agents?.list()) ?? [];
  const states = await Promise.all(found.map((agent) => new AgentClient(agent).getState()));
  const read = states.flatMap((state) => state.head ?? []).filter(({ generation }) => generation > 0);
  const [seen] = read.sort((a, b) => b.generation - a.generation);
  const isOlder = seen !== undefined && seen.generation >= base.generation && seen.release !== base.head?.release;
  const release = id ?? (isOlder ? seen.release : (base.head ?? seen)?.release);
  const next = nextCommand('rollback', 'ID', '--repair');
  if (release === undefined) {
    throw new UserError(`no replica has read ${headKey(location)}, so the release must be named`, {
      hint: `${next}; newest manifests, with those of refused releases: ${await newestIds({ store, location })}`,
    });
  }
  const manifest = await store.get(releaseKey(location, release));
  if (manifest === undefined) {
    throw new UserError(`${formatLocation(location)} has no manifest of release ${release}`, {
      hint: `restore the objects of ${releasesPrefix(location)}/ from their versions, or name another release: ${next}; newest manifests: ${await newestIds({ store, location })}`,
    });
  }
  const isNewest = base.generation >= (seen?.generation ?? 0);
  if (base.head !== undefined && release === base.head.release && isNewest) return base.head;
  const listed = (await store.list(filesPrefix(location))).map(({ key }) => key);
  const now = Math.floor(Date.now() / 1000);
  // Generations and sweeps grow by one, so the time in seconds is larger than each that an agent or a prune may have.
  const generation = Math.max(now, base.generation + 1, (seen?.generation ?? 0) + 1);
  const sweep = Math.max(now, ...listed.map((key) => sweepOf(key) + 1));
  const retained = await completeReleases(release, head, new Set(listed));
  const content = { generation, release, manifestSha256: sha256Hex(manifest.body), retained, sweep, writer: newId() };
  await head.put(content, base.condition);
  return { release, generation };
}

/** The release, and those before it as far as nothing of them is missing or damaged; oldest first. */
async function completeReleases(current: string, head: HeadFile, files: ReadonlySet<string>): Promise<string[]> {
  const complete = [current];
  for (
    let { previous } = (await head.readManifest(current)) as Manifest;
    previous !== undefined && complete.length < RETAINED;
  ) {
    const manifest = await head.readManifest(previous).catch((error: unknown) => {
      if (error instanceof FormatError) return undefined;
      throw error;
    });
    if (manifest === undefined || !keysOf(manifest).every((key) => files.has(key))) break;
    complete.unshift(manifest.id);
    ({ previous } = manifest);
  }
  return complete;
}

async function newestIds({ store, location }: Bucket): Promise<string> {
  const prefix = `${releasesPrefix(location)}/`;
  const ids = (await store.list(`${prefix}2`)).map(({ key }) => key.slice(prefix.length).replace(/\.json$/, ''));
  const newest = ids
    .filter((id) => RELEASE_ID.test(id))
    .sort()
    .reverse()
    .slice(0, NEWEST);
  return newest.join(', ') || 'none';
}
