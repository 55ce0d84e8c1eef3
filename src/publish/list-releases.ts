import { CONFIG_FILE } from '../model/paths';
import { formatDuration } from '../core/format';
import { bakeKey, parseBake, type BakeRecord } from '../release/bake';
import { FormatError } from '../release/format';
import { bakesPrefix } from '../release/location';
import type { Manifest, ManifestModel, WeightKind } from '../release/manifest';
import { Releases, type Bucket } from './releases';

export interface ListedRelease extends Pick<
  Manifest,
  'id' | 'createdAt' | 'origin' | 'by' | 'commit' | 'message' | 'notAsked'
> {
  isCurrent: boolean;
  /** Model -> versions in service. */
  serves: Record<string, number[]>;
  /** Model -> kind of the weights of its served versions; `unknown` if tracing did not record it. */
  weights: Record<string, WeightKind | 'unknown'>;
  /** Changes since the previous release: `resnet 1 -> 2`, `new bert`, `removed gfpgan`. */
  changes: string[];
  /** How it answered beside the release before, if that was compared. */
  bake?: BakeRecord | undefined;
}

/** The retained releases, and those that did not pass their bake, newest first. */
export async function listReleases(bucket: Bucket, limit: number): Promise<ListedRelease[]> {
  const { store, location } = bucket;
  const releases = await Releases.read(bucket);
  const bakes = (await store.list(bakesPrefix(location))).map(({ key }) => key);
  const compared = bakes.map((key) => key.slice(bakesPrefix(location).length, -'.json'.length));
  const oldest = releases.ids.at(-1) ?? '';
  const ids = [...new Set([...releases.ids, ...compared.filter((id) => id > oldest)])].sort().reverse().slice(0, limit);
  const listed = ids.map(async (id): Promise<ListedRelease[]> => {
    const [bake, release] = await Promise.all([
      compared.includes(id) ? store.get(bakeKey(location, id)) : undefined,
      releases.read(id),
    ]);
    if (release === undefined) return [];
    const record = bake && readRecord(bake.body, bakeKey(location, id));
    // Of a publisher that ended after its bake and before its commit.
    if (!releases.ids.includes(id) && (record?.outcome ?? 'passed') === 'passed') return [];
    const { createdAt, origin, by, commit, message, notAsked, previous } = release;
    return [
      {
        ...{ id, createdAt, origin, by, commit, message, notAsked },
        isCurrent: id === releases.current?.id,
        serves: ofModels(release, ({ served }) => served),
        weights: ofModels(release, getWeightKind),
        changes: changesBetween(previous === undefined ? undefined : await releases.read(previous), release),
        bake: record,
      },
    ];
  });
  return (await Promise.all(listed)).flat();
}

/** Nothing depends on a record, so a damaged one is like none. */
function readRecord(body: Buffer, key: string): BakeRecord | undefined {
  try {
    return parseBake(body, key);
  } catch (error) {
    if (error instanceof FormatError) return undefined;
    throw error;
  }
}

/** `passed after 5 min 00 s and 1204 requests`, or what it did not pass. */
export function describeBake({ outcome, reason, seconds, models }: BakeRecord): string {
  const requests = Object.values(models).reduce((sum, { newer }) => sum + newer.count, 0);
  const why = reason === undefined ? '' : `: ${reason}`;
  return `${outcome} after ${formatDuration(seconds * 1000)} and ${requests} requests${why}`;
}

function ofModels<T>({ models }: Manifest, read: (model: ManifestModel) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(models).map(([name, model]) => [name, read(model)]));
}

/** `random` if any served version has random weights, `pretrained` if all have pretrained ones. */
export function getWeightKind({
  served,
  weightKinds = {},
}: Pick<ManifestModel, 'served' | 'weightKinds'>): WeightKind | 'unknown' {
  const kinds = served.map((version) => weightKinds[String(version)]);
  if (kinds.includes('random')) return 'random';
  return kinds.length > 0 && kinds.every((kind) => kind === 'pretrained') ? 'pretrained' : 'unknown';
}

export function changesBetween(before: Manifest | undefined, after: Manifest): string[] {
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
      ...changedFiles(old, now),
      ...(old.golden?.checksum === now.golden?.checksum ? [] : ['golden requests']),
    ];
    return changes.length === 0 ? [] : [`${name}: ${changes.join(' and ')}`];
  });
}

/** The changed files of a model: `1/model.py`, `config.pbtxt`, `3 files`. */
function changedFiles(old: ManifestModel, now: ManifestModel): string[] {
  const [before, after] = [old, now].map(
    ({ config, files }) => new Map([[CONFIG_FILE, config], ...files.map((one) => [one.path, one.checksum] as const)]),
  ) as [Map<string, string>, Map<string, string>];
  const changed = [...new Set([...before.keys(), ...after.keys()])].filter((key) => before.get(key) !== after.get(key));
  return changed.length > 3 ? [`${changed.length} files`] : changed.sort();
}
