import type { S3Store } from '../s3/store';
import { releaseHistory } from './history';
import { CONFIG_FILE, versionOf } from './keys';
import type { RepositoryLocation } from './location';
import { readHead, releaseIds, type Release, type ReleasedModel } from './release';

/** A release as `npm run releases` shows it. */
export interface ListedRelease {
  id: string;
  createdAt: string;
  origin: string;
  by: string;
  isCurrent: boolean;
  /** Model -> versions in service. */
  serves: Record<string, number[]>;
  /** Against the release before it: `resnet 1 -> 2`, `new bert`, `removed gfpgan`. */
  changes: string[];
}

/** The releases that the repository was at, the newest first. */
export async function listReleases(
  store: S3Store,
  location: RepositoryLocation,
  limit: number,
): Promise<ListedRelease[]> {
  const [head, ids] = await Promise.all([readHead(store, location), releaseIds(store, location)]);
  const releases: Release[] = [];
  // One more, for what the last one changed.
  const history = releaseHistory(store, location, { head: head?.release, ids, most: limit + 1 });
  for await (const release of history) releases.push(release);
  return releases.slice(0, limit).map((release, i) => ({
    id: release.id,
    createdAt: release.createdAt,
    origin: release.origin,
    by: release.by,
    isCurrent: i === 0,
    serves: Object.fromEntries(Object.entries(release.models).map(([name, { served }]) => [name, served])),
    changes: changesBetween(releases[i + 1], release),
  }));
}

/** What a release changed, in words. */
export function changesBetween(before: Release | undefined, after: Release): string[] {
  const names = [...new Set([...Object.keys(before?.models ?? {}), ...Object.keys(after.models)])].sort();
  return names.flatMap((name) => {
    const [old, now] = [before?.models[name], after.models[name]];
    if (now === undefined) return [`removed ${name}`];
    if (old === undefined) return [`new ${name} ${now.served.join(' ')}`];
    if (old.served.join() !== now.served.join()) return [`${name} ${old.served.join(' ')} -> ${now.served.join(' ')}`];
    if (configOf(name, old) !== configOf(name, now)) return [`${name}: configuration`];
    const gone = versionsOf(old).filter((version) => !versionsOf(now).includes(version));
    return gone.length === 0 ? [] : [`${name}: deleted ${gone.join(' ')}`];
  });
}

const versionsOf = (model: ReleasedModel): number[] => [
  ...new Set(Object.keys(model.objects).flatMap((key) => versionOf(key) ?? [])),
];

const configOf = (name: string, model: ReleasedModel): string | undefined =>
  model.objects[`${name}/${CONFIG_FILE}`]?.checksum;
