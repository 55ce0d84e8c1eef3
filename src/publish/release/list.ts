import type { Asked } from '../../release/ask';
import { FORMAT } from '../../release/format';
import type { S3Store } from '../../s3/store';
import { readFormat } from '../trial/mode';
import { RetainedReleases } from '../trial/snapshot';
import { releaseHistory } from './history';
import { CONFIG_FILE, isReplaceable, isTraceRecord, getModelName, getVersion, getVersions } from '../keys';
import { archiveKey, type RepositoryLocation } from '../../release/location';
import {
  readHead,
  releaseIds,
  type Release,
  type ReleasedModel,
  type ReleasedObject,
  type WeightKind,
} from './release';

/** A release as `npm run releases` shows it. */
export interface ListedRelease {
  id: string;
  createdAt: string;
  origin: string;
  by: string;
  /** Commit of the repository folder, with a `+` if files in it differed from the commit. */
  commit?: string;
  message?: string;
  /** Set if no model was asked (--no-ask). */
  notAsked?: true;
  isCurrent: boolean;
  /** Model -> versions in service. */
  serves: Record<string, number[]>;
  /** Model -> kind of the weights of its served versions; `unknown` if tracing did not record it. */
  weights: Record<string, WeightKind | 'unknown'>;
  /** Model -> how it was asked; `no` if it was not. */
  asked: Record<string, Asked | 'no'>;
  /**
   * Served versions whose files were deleted or replaced in the bucket, as `resnet 1`: rollback refuses the release.
   */
  lost: string[];
  /** Changes since the previous release: `resnet 1 -> 2`, `new bert`, `removed gfpgan`. */
  changes: string[];
}

/** The releases that were current, newest first. */
export async function listReleases(
  store: S3Store,
  location: RepositoryLocation,
  limit: number,
): Promise<ListedRelease[]> {
  if ((await readFormat(store, location)) === FORMAT) {
    const retained = await RetainedReleases.read({ store, location });
    // One more than requested, to compute the changes of the last one.
    const releases = await retained.readAll(retained.ids.slice(0, limit + 1));
    return describeReleases(releases, limit, retained.current?.id, () => []);
  }
  const [head, ids] = await Promise.all([readHead(store, location), releaseIds(store, location)]);
  const releases: Release[] = [];
  // One more than requested, to compute the changes of the last one.
  const history = releaseHistory(store, location, { head: head?.release, ids, most: limit + 1 });
  for await (const release of history) releases.push(release);
  const getLost = await lostVersions(store, location, head?.release);
  return describeReleases(releases, limit, releases[0]?.id, getLost);
}

function describeReleases(
  releases: readonly Release[],
  limit: number,
  current: string | undefined,
  getLost: (release: Release) => string[],
): ListedRelease[] {
  return releases.slice(0, limit).map((release, i) => ({
    id: release.id,
    createdAt: release.createdAt,
    origin: release.origin,
    by: release.by,
    commit: release.commit,
    message: release.message,
    notAsked: release.notAsked,
    isCurrent: release.id === current,
    serves: ofModels(release, ({ served }) => served),
    weights: ofModels(release, getWeightKind),
    asked: ofModels(release, ({ asked }) => asked ?? 'no'),
    lost: getLost(release),
    changes: changesBetween(releases[i + 1], release),
  }));
}

/** @returns a function that gives the versions of a release that rollback could not restore */
async function lostVersions(
  store: S3Store,
  location: RepositoryLocation,
  current: Release | undefined,
): Promise<(release: Release) => string[]> {
  const folder = `${location.prefix}/`;
  const [objects, copies] = await Promise.all([store.list(folder), store.list(archiveKey(location, ''))]);
  const etags = new Map(objects.map(({ key, etag }) => [key.slice(folder.length), etag]));
  const aside = new Set(copies.map(({ key }) => key));
  const isLost = (key: string, { etag, checksum, versionId }: ReleasedObject): boolean => {
    const there = etags.get(key);
    if (there === undefined) return versionId === undefined && !aside.has(archiveKey(location, checksum));
    // The same bytes, written again, may have another ETag.
    const now = current?.models[getModelName(key)]?.objects[key];
    return there !== etag && !(now?.etag === there && now.checksum === checksum);
  };
  return ({ models }) =>
    Object.values(models).flatMap(({ served, objects }) =>
      getVersions(
        Object.entries(objects).flatMap(([key, object]) => {
          const version = getVersion(key);
          return version !== undefined && served.includes(version) && !isReplaceable(key) && isLost(key, object)
            ? [key]
            : [];
        }),
      ),
    );
}

function ofModels<T>({ models }: Release, read: (model: ReleasedModel) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(models).map(([name, model]) => [name, read(model)]));
}

/** `random` if any served version has random weights, `pretrained` if all have pretrained ones. */
export function getWeightKind({
  served,
  weightKinds = {},
}: Pick<ReleasedModel, 'served' | 'weightKinds'>): WeightKind | 'unknown' {
  const kinds = served.map((version) => weightKinds[String(version)]);
  if (kinds.includes('random')) return 'random';
  return kinds.length > 0 && kinds.every((kind) => kind === 'pretrained') ? 'pretrained' : 'unknown';
}

/** Describes the changes of a release. */
export function changesBetween(before: Release | undefined, after: Release): string[] {
  const names = [...new Set([...Object.keys(before?.models ?? {}), ...Object.keys(after.models)])].sort();
  return names.flatMap((name) => {
    const [old, now] = [before?.models[name], after.models[name]];
    if (now === undefined) return [`removed ${name}`];
    const random = getWeightKind(now) === 'random' ? ' (random weights)' : '';
    if (old === undefined) return [`new ${name} ${now.served.join(' ')}${random}`];
    if (old.served.join() !== now.served.join()) {
      return [`${name} ${old.served.join(' ')} -> ${now.served.join(' ')}${random}`];
    }
    const changes = [
      ...changedFiles(name, old, now),
      ...(old.golden?.sha256 === now.golden?.sha256 ? [] : ['golden requests']),
    ];
    return changes.length === 0 ? [] : [`${name}: ${changes.join(' and ')}`];
  });
}

/** Describes the changed files of a model: `1/model.py changed`, `files of 1 replaced`, `version 2 added`. */
function changedFiles(name: string, old: ReleasedModel, now: ReleasedModel): string[] {
  const [before, after] = [toNumbers(old), toNumbers(now)];
  const keys = [...new Set([...Object.keys(old.objects), ...Object.keys(now.objects)])].sort();
  const changed = keys.filter(
    (key) => !isTraceRecord(key) && old.objects[key]?.checksum !== now.objects[key]?.checksum,
  );
  const groups = new Map<number | undefined, string[]>();
  for (const key of changed) groups.set(getVersion(key), [...(groups.get(getVersion(key)) ?? []), key]);
  // The configuration has a digest of the files, so it changes with each of them.
  const config = `${name}/${CONFIG_FILE}`;
  return [...groups].flatMap(([version, files]) => {
    if (version !== undefined && !before.includes(version)) return [`version ${version} added`];
    if (version !== undefined && !after.includes(version)) return [`version ${version} deleted`];
    const relative = files
      .filter((key) => key !== config || changed.length === 1)
      .map((key) => key.slice(name.length + 1));
    if (relative.length > 1 && version !== undefined) return [`files of ${version} replaced`];
    return relative.map((file) => (file === CONFIG_FILE ? 'configuration' : `${file} changed`));
  });
}

const toNumbers = (model: ReleasedModel): number[] => [
  ...new Set(Object.keys(model.objects).flatMap((key) => getVersion(key) ?? [])),
];
