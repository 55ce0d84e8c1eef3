import { forEachLimited } from '../../core/pool';
import { checksumOfFile, type ListedObject, type S3Store } from '../../s3/store';
import { CONFIG_FILE, isReplaceable, modelOf, versionOf, versionsOf } from '../keys';
import type { RepositoryLocation } from '../location';
import type { SeenRepository } from './snapshot';
import type { Release, ReleasedModel } from '../release/release';
import type { WantedModel, WantedObject } from './desired';

/**
 * What happens to one object:
 *
 * | in the bucket | content | kind                                  | action     |
 * | ------------- | ------- | ------------------------------------- | ---------- |
 * | no            |         | any                                   | `upload`   |
 * | yes           | same    | any                                   | `keep`     |
 * | yes           | other   | config, labels, trace record          | `replace`  |
 * | yes           | other   | in a version that was never published | `replace`  |
 * | yes           | other   | in a published version                | `conflict`, or `replace` with `replacePublished` |
 */
export type Action = 'upload' | 'keep' | 'replace' | 'conflict';

export interface PlannedObject {
  object: WantedObject;
  action: Action;
  /** ETag of what is there now, for a conditional write. */
  etag?: string;
  /** What is there now, where it was compared. */
  checksum?: string;
  /** What is there now was written just before. */
  recent?: true;
}

export interface PlannedModel {
  model: WantedModel;
  /** Versions in service by the release now; undefined for a model that it does not have. */
  before: number[] | undefined;
  objects: PlannedObject[];
  config: PlannedObject;
  /** Objects in a published version folder of the bucket that the folder here does not have. */
  surplus: string[];
  /** The same in a version that was never published: what a publisher left that was interrupted or failed. */
  leftovers: string[];
  /** In the bucket with a configuration, but in no release: published by somebody else's means. */
  foreign: boolean;
}

/** A plan is data: it is printed, tested, and carried out. */
export interface Plan {
  /** In the order in which to publish them: what an ensemble is made of before the ensemble. */
  models: PlannedModel[];
  /** Models to be taken out of service and out of the repository. */
  remove: string[];
  /** Keys to be deleted once nothing serves them: of removed models, and with pruning of versions no longer wanted. */
  prune: string[];
  /** Whether copies of those stay beside the repository. */
  keepPruned: boolean;
  /** Released versions among those of which the bucket keeps nothing, `resnet 1`: no rollback can restore them. */
  lost: string[];
}

export interface PlanOptions {
  store: S3Store;
  location: RepositoryLocation;
  /** Delete what the release has and the wanted models do not. */
  prune: boolean;
  /** Models that the release has, and that are to be removed. */
  remove: readonly string[];
  keepRemoved: boolean;
  /** Objects of published versions are replaced: there are no conflicts. */
  replacePublished: boolean;
}

/** Every object of a model, its configuration last. */
export const objectsOf = ({ objects, config }: Pick<PlannedModel, 'objects' | 'config'>): PlannedObject[] => [
  ...objects,
  config,
];

/** Whether anything of the model has to be written. */
export function isChanged(planned: PlannedModel): boolean {
  return objectsOf(planned).some(({ action }) => action !== 'keep') || planned.leftovers.length > 0;
}

/** Whether a model has other golden requests than the release: they are asked then, also of what is served already. */
export const isGoldenChanged = (model: WantedModel, released: ReleasedModel | undefined): boolean =>
  model.golden?.sha256 !== released?.golden?.sha256;

/** Whether a published version of it would be changed. */
export function isConflict({ objects, surplus }: PlannedModel): boolean {
  return surplus.length > 0 || objects.some(({ action }) => action === 'conflict');
}

/** Whether the bucket or the release would be another one afterwards. */
export function needsWriting(plan: Plan, { head }: SeenRepository): boolean {
  if (plan.prune.length > 0 || plan.remove.length > 0 || plan.models.some(isChanged)) return true;
  return plan.models.some((planned) => {
    const released = head?.release.models[planned.model.name];
    if (isGoldenChanged(planned.model, released)) return true;
    return objectsOf(planned).some(({ object, etag }) => released?.objects[object.key]?.etag !== etag);
  });
}

/** Every reason why the plan may not be carried out. */
export function conflicts(plan: Plan): { key: string; reason: string }[] {
  return plan.models.flatMap(({ objects, surplus }) => [
    ...objects
      .filter(({ action }) => action === 'conflict')
      .map(({ object }) => ({ key: object.key, reason: 'is in the bucket with other bytes' })),
    ...surplus.map((key) => ({ key, reason: 'is in the bucket, but not in the folder that is published' })),
  ]);
}

/**
 * Compares what is wanted with what the bucket holds, by content. Of objects that the release knows the ETag in the
 * listing tells the content; for others S3 is asked for its checksum. Times of files are never looked at.
 */
export async function makePlan(
  wanted: readonly WantedModel[],
  seen: SeenRepository,
  options: PlanOptions,
): Promise<Plan> {
  const byModel = keysByModel(seen.objects);
  const planners = wanted.map((model) => new ModelPlanner(model, byModel.get(model.name) ?? [], seen, options));
  const compared = planners.flatMap((planner) =>
    [...planner.model.objects, planner.model.config].map((object) => ({ planner, object })),
  );
  const planned = new Map<WantedObject, PlannedObject>();
  await forEachLimited(compared, 32, async ({ planner, object }) => {
    planned.set(object, await planner.planObject(object));
  });
  const prune = [
    ...options.remove.flatMap((name) => byModel.get(name) ?? []),
    ...(options.prune ? planners.flatMap((planner) => planner.unwanted()) : []),
  ];
  return {
    models: planners.map((planner) => planner.result((object) => planned.get(object) as PlannedObject)),
    remove: [...options.remove],
    keepPruned: options.keepRemoved,
    prune,
    lost: options.keepRemoved ? [] : lostVersions(prune, seen.head?.release),
  };
}

/** Of a bucket with versioning the release knows how to get a deleted object back. */
function lostVersions(prune: readonly string[], release: Release | undefined): string[] {
  return versionsOf(
    prune.filter((key) => {
      const released = release?.models[modelOf(key)]?.objects[key];
      return !isReplaceable(key) && released !== undefined && released.versionId === undefined;
    }),
  );
}

class ModelPlanner {
  private readonly released: ReleasedModel | undefined;
  /** Versions that a release has; undefined: all, as somebody else published the model. */
  private readonly releasedVersions: ReadonlySet<number | undefined> | undefined;
  private readonly wantedKeys: ReadonlySet<string>;
  /** Versions that are wanted. */
  private readonly wantedVersions: ReadonlySet<number | undefined>;

  constructor(
    readonly model: WantedModel,
    private readonly present: readonly string[],
    private readonly seen: SeenRepository,
    private readonly options: PlanOptions,
  ) {
    this.released = seen.head?.release.models[model.name];
    this.wantedKeys = new Set([...model.objects, model.config].map(({ key }) => key));
    this.wantedVersions = new Set(model.objects.flatMap(({ key }) => versionOf(key) ?? []));
    this.releasedVersions = this.isForeign()
      ? undefined
      : new Set(Object.keys(this.released?.objects ?? {}).map(versionOf));
  }

  async planObject(object: WantedObject): Promise<PlannedObject> {
    const present = this.seen.objects.get(object.key);
    if (present === undefined) return { object, action: 'upload' };
    const { etag } = present;
    if (object.etag === etag && object.bytes === present.bytes) return { object, action: 'keep', etag };
    const checksum = present.bytes === object.bytes ? await this.checksumInBucket(object.key, present) : undefined;
    if (checksum !== undefined && checksum === (await checksumOf(object))) {
      return { object, action: 'keep', etag, checksum };
    }
    const replaceable = isReplaceable(object.key) || !this.isCommitted(object.key);
    const recent = present.recent === true ? { recent: true as const } : {};
    return { object, action: replaceable ? 'replace' : 'conflict', etag, ...recent };
  }

  result(planned: (object: WantedObject) => PlannedObject): PlannedModel {
    const extra = this.present.filter(
      (key) => !isReplaceable(key) && this.wantedVersions.has(versionOf(key)) && !this.wantedKeys.has(key),
    );
    return {
      model: this.model,
      before: this.released?.served,
      objects: this.model.objects.map(planned),
      config: planned(this.model.config),
      surplus: extra.filter((key) => this.isCommitted(key)),
      leftovers: extra.filter((key) => !this.isCommitted(key)),
      foreign: this.isForeign(),
    };
  }

  /** What lies in the model's folder of the bucket and is not part of it any more. */
  unwanted(): string[] {
    return this.present.filter((key) => !this.wantedKeys.has(key) && !this.wantedVersions.has(versionOf(key)));
  }

  /** Whether the object's version was published, so that servers may load from it at any time. */
  private isCommitted(key: string): boolean {
    return !this.options.replacePublished && (this.releasedVersions?.has(versionOf(key)) ?? true);
  }

  private isForeign(): boolean {
    return this.released === undefined && this.seen.objects.has(`${this.model.name}/${CONFIG_FILE}`);
  }

  private async checksumInBucket(key: string, present: ListedObject): Promise<string | undefined> {
    const known = this.released?.objects[key];
    if (known !== undefined && known.checksum !== '' && known.etag === present.etag && known.bytes === present.bytes) {
      return known.checksum;
    }
    const { store, location } = this.options;
    return store.checksum(`${location.prefix}/${key}`, present.bytes);
  }
}

/** Files are hashed once; what is under way or done is kept here. */
const hashed = new WeakMap<WantedObject, Promise<string>>();

/** The object's checksum; of a file it is computed. */
export function checksumOf(object: WantedObject): Promise<string> | string | undefined {
  if (object.checksum !== undefined || !('file' in object.source)) return object.checksum;
  const known = hashed.get(object) ?? checksumOfFile(object.source.file, object.bytes);
  hashed.set(object, known);
  return known;
}

/** For so long others wait for their turn. */
const SLICE_MS = 4;

/**
 * Hashes the files that the release has under the same name and of the same size: they will have to be compared, and
 * there is time while the bucket is listed. What goes wrong shows when they are.
 */
export async function hashAhead(models: readonly WantedModel[], release: Release | undefined): Promise<void> {
  let slice = performance.now();
  for (const { name, objects } of models) {
    const released = release?.models[name]?.objects ?? {};
    for (const object of objects) {
      if (released[object.key]?.bytes !== object.bytes) continue;
      try {
        await checksumOf(object);
      } catch {
        return;
      }
      if (performance.now() - slice < SLICE_MS) continue;
      await new Promise(setImmediate);
      slice = performance.now();
    }
  }
}

function keysByModel(objects: ReadonlyMap<string, ListedObject>): Map<string, string[]> {
  const byModel = new Map<string, string[]>();
  for (const key of objects.keys()) {
    const keys = byModel.get(modelOf(key));
    if (keys === undefined) byModel.set(modelOf(key), [key]);
    else keys.push(key);
  }
  return byModel;
}
