import { CONFIG_FILE } from '../model/paths';
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
}

/** The retained releases, newest first. */
export async function listReleases(bucket: Bucket, limit: number): Promise<ListedRelease[]> {
  const releases = await Releases.read(bucket);
  // One more than requested, to compute the changes of the last one.
  const found = await releases.readAll(releases.ids.slice(0, limit + 1));
  return found.slice(0, limit).map((release, i) => {
    const { id, createdAt, origin, by, commit, message, notAsked } = release;
    return {
      ...{ id, createdAt, origin, by, commit, message, notAsked },
      isCurrent: id === releases.current?.id,
      serves: ofModels(release, ({ served }) => served),
      weights: ofModels(release, getWeightKind),
      changes: changesBetween(found[i + 1], release),
    };
  });
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
