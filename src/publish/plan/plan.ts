import { forEachLimited } from '../../core/concurrency';
import type { ListedObject, S3Store } from '../../s3/store';
import { CONFIG_FILE, isReplaceable, getModelName, getVersion, getVersions } from '../keys';
import type { RepositoryLocation } from '../../release/location';
import type { RepositorySnapshot } from './snapshot';
import type { Release, ReleasedModel } from '../release/release';
import { computeChecksum, type DesiredModel, type DesiredObject } from './desired';

/**
 * The action for one object:
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
  object: DesiredObject;
  action: Action;
  /** ETag of the existing object, for a conditional write. */
  etag?: string;
  /** Checksum of the existing object, if it was compared. */
  checksum?: string;
  /** Set if the existing object was written in the seconds before the snapshot. */
  recent?: true;
}

export interface PlannedModel {
  model: DesiredModel;
  /** Versions that the current release serves; undefined if it does not have the model. */
  before: number[] | undefined;
  objects: PlannedObject[];
  config: PlannedObject;
  /** Objects in a published version folder of the bucket that the desired model does not have. */
  extraneous: string[];
  /** The same in a version that was never published: an interrupted or failed publisher left these objects. */
  orphaned: string[];
  /** In the bucket with a configuration, but in no release: another tool published the model. */
  unmanaged: boolean;
}

/** The changes to make. A plan is plain data, so that it can be printed, tested and carried out. */
export interface Plan {
  /** In publishing order: composing models before their ensembles. */
  models: PlannedModel[];
  /** Models to remove from service and from the repository. */
  remove: string[];
  /**
   * Keys to delete once they are no longer served: those of removed models, and with pruning those of versions and
   * files that are no longer desired.
   */
  prune: string[];
  /** Whether the pruned objects are archived beside the repository. */
  archivePruned: boolean;
  /** Pruned versions of the release that no rollback can restore, because the bucket keeps no copy: `resnet 1`. */
  lost: string[];
}

export interface PlanOptions {
  store: S3Store;
  location: RepositoryLocation;
  /** Delete versions and files of the desired models that no longer belong to them. */
  prune: boolean;
  /** Models of the release to remove. */
  remove: readonly string[];
  archiveRemoved: boolean;
  /** Replace objects of published versions, so that there are no conflicts. */
  replacePublished: boolean;
}

/** Every object of a model, its configuration last. */
export const getObjects = ({ objects, config }: Pick<PlannedModel, 'objects' | 'config'>): PlannedObject[] => [
  ...objects,
  config,
];

/** Whether any object of the model must be written, or orphaned objects must be deleted. */
export function isChanged(planned: PlannedModel): boolean {
  return getObjects(planned).some(({ action }) => action !== 'keep') || planned.orphaned.length > 0;
}

/**
 * Whether the golden requests of a model differ from those of the release. Then the model is asked on every replica,
 * even if the replica serves it already.
 */
export const isGoldenChanged = (model: DesiredModel, released: ReleasedModel | undefined): boolean =>
  model.golden?.sha256 !== released?.golden?.sha256;

/** Whether the plan would change a published version of the model. */
export function isConflict({ objects, extraneous }: PlannedModel): boolean {
  return extraneous.length > 0 || objects.some(({ action }) => action === 'conflict');
}

/** Whether the plan would change the bucket or the release. */
export function needsWriting(plan: Plan, { head }: RepositorySnapshot): boolean {
  if (plan.prune.length > 0 || plan.remove.length > 0 || plan.models.some(isChanged)) return true;
  return plan.models.some((planned) => {
    const released = head?.release.models[planned.model.name];
    if (isGoldenChanged(planned.model, released)) return true;
    return getObjects(planned).some(({ object, etag }) => released?.objects[object.key]?.etag !== etag);
  });
}

/** Every reason why the plan must not be carried out. */
export function conflicts(plan: Plan): { key: string; reason: string }[] {
  return plan.models.flatMap(({ objects, extraneous }) => [
    ...objects
      .filter(({ action }) => action === 'conflict')
      .map(({ object }) => ({ key: object.key, reason: 'is in the bucket with other bytes' })),
    ...extraneous.map((key) => ({ key, reason: 'is in the bucket, but not in the folder that is published' })),
  ]);
}

/**
 * Compares the desired state with the bucket, by content. For objects in the release, the ETag in the listing
 * identifies the content; for other objects S3 is asked for the checksum. File times are ignored.
 */
export async function makePlan(
  desired: readonly DesiredModel[],
  seen: RepositorySnapshot,
  options: PlanOptions,
): Promise<Plan> {
  const byModel = keysByModel(seen.objects);
  const planners = desired.map((model) => new ModelPlanner(model, byModel.get(model.name) ?? [], seen, options));
  const compared = planners.flatMap((planner) =>
    [...planner.model.objects, planner.model.config].map((object) => ({ planner, object })),
  );
  const planned = new Map<DesiredObject, PlannedObject>();
  await forEachLimited(compared, options.store.concurrency, async ({ planner, object }) => {
    planned.set(object, await planner.planObject(object));
  });
  const prune = [
    ...options.remove.flatMap((name) => byModel.get(name) ?? []),
    ...(options.prune ? planners.flatMap((planner) => planner.unwanted()) : []),
  ];
  return {
    models: planners.map((planner) => planner.result((object) => planned.get(object) as PlannedObject)),
    remove: [...options.remove],
    archivePruned: options.archiveRemoved,
    prune,
    lost: options.archiveRemoved ? [] : lostVersions(prune, seen.head?.release),
  };
}

/** In a bucket with versioning the release records the version id with which a deleted object can be restored. */
function lostVersions(prune: readonly string[], release: Release | undefined): string[] {
  return getVersions(
    prune.filter((key) => {
      const released = release?.models[getModelName(key)]?.objects[key];
      return !isReplaceable(key) && released !== undefined && released.versionId === undefined;
    }),
  );
}

class ModelPlanner {
  private readonly released: ReleasedModel | undefined;
  /** Versions of the release; undefined means all versions, because another tool published the model. */
  private readonly releasedVersions: ReadonlySet<number | undefined> | undefined;
  private readonly wantedKeys: ReadonlySet<string>;
  private readonly wantedVersions: ReadonlySet<number | undefined>;

  constructor(
    readonly model: DesiredModel,
    private readonly present: readonly string[],
    private readonly seen: RepositorySnapshot,
    private readonly options: PlanOptions,
  ) {
    this.released = seen.head?.release.models[model.name];
    this.wantedKeys = new Set([...model.objects, model.config].map(({ key }) => key));
    this.wantedVersions = new Set(model.objects.flatMap(({ key }) => getVersion(key) ?? []));
    this.releasedVersions = this.isUnmanaged()
      ? undefined
      : new Set(Object.keys(this.released?.objects ?? {}).map(getVersion));
  }

  async planObject(object: DesiredObject): Promise<PlannedObject> {
    const present = this.seen.objects.get(object.key);
    if (present === undefined) return { object, action: 'upload' };
    const { etag } = present;
    if (object.etag === etag && object.bytes === present.bytes) return { object, action: 'keep', etag };
    const checksum = present.bytes === object.bytes ? await this.checksumInBucket(object.key, present) : undefined;
    if (checksum !== undefined && checksum === (await computeChecksum(object))) {
      return { object, action: 'keep', etag, checksum };
    }
    const replaceable = isReplaceable(object.key) || !this.isCommitted(object.key);
    return { object, action: replaceable ? 'replace' : 'conflict', etag, recent: present.recent };
  }

  result(planned: (object: DesiredObject) => PlannedObject): PlannedModel {
    const extra = this.present.filter(
      (key) => !isReplaceable(key) && this.wantedVersions.has(getVersion(key)) && !this.wantedKeys.has(key),
    );
    return {
      model: this.model,
      before: this.released?.served,
      objects: this.model.objects.map(planned),
      config: planned(this.model.config),
      extraneous: extra.filter((key) => this.isCommitted(key)),
      orphaned: extra.filter((key) => !this.isCommitted(key)),
      unmanaged: this.isUnmanaged(),
    };
  }

  /** Keys in the model's folder of the bucket that no longer belong to the model. */
  unwanted(): string[] {
    return this.present.filter((key) => !this.wantedKeys.has(key) && !this.wantedVersions.has(getVersion(key)));
  }

  /** Whether the object's version was published, so that replicas may load it at any time. */
  private isCommitted(key: string): boolean {
    return !this.options.replacePublished && (this.releasedVersions?.has(getVersion(key)) ?? true);
  }

  private isUnmanaged(): boolean {
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

function keysByModel(objects: ReadonlyMap<string, ListedObject>): Map<string, string[]> {
  const byModel = new Map<string, string[]>();
  for (const key of objects.keys()) {
    const keys = byModel.get(getModelName(key));
    if (keys === undefined) byModel.set(getModelName(key), [key]);
    else keys.push(key);
  }
  return byModel;
}
