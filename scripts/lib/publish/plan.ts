import type { RepositoryLocation } from './location';
import type { Release } from './manifest';
import type { ListedObject, S3Store } from './s3-store';
import type { WantedModel, WantedObject } from './wanted';

/**
 * What happens to one object:
 *
 * | in the bucket | content | kind            | action    |
 * | ------------- | ------- | --------------- | --------- |
 * | no            |         | any             | `upload`  |
 * | yes           | same    | any             | `keep`    |
 * | yes           | other   | config, labels, trace record | `replace` |
 * | yes           | other   | version folder  | `conflict`|
 */
export type Action = 'upload' | 'keep' | 'replace' | 'conflict';

export interface PlannedObject {
  object: WantedObject;
  action: Action;
  /** ETag of what is there now, for a conditional write. */
  etag?: string;
}

export interface PlannedModel {
  model: WantedModel;
  objects: PlannedObject[];
  config: PlannedObject;
  /** Objects in a version folder of the bucket that the folder here does not have. */
  surplus: string[];
}

/** A plan is data: it is printed, tested, and carried out by apply.ts. */
export interface Plan {
  models: PlannedModel[];
}

/** Whether anything of the model has to be written. */
export function isChanged(planned: PlannedModel): boolean {
  return [...planned.objects, planned.config].some(({ action }) => action !== 'keep');
}

/** Every reason why the plan may not be carried out, as sentences. */
export function conflicts(plan: Plan): string[] {
  return plan.models.flatMap(({ objects, surplus }) => [
    ...objects
      .filter(({ action }) => action === 'conflict')
      .map(({ object }) => `${object.key} is in the bucket with other bytes`),
    ...surplus.map((key) => `${key} is in the bucket, but not in the folder that is published`),
  ]);
}

/**
 * Compares what is wanted with what the bucket holds, by content. Objects that the current release knows are told by
 * the ETag in the listing; for others S3 is asked for its checksum.
 */
export async function makePlan(
  wanted: readonly WantedModel[],
  store: S3Store,
  location: RepositoryLocation,
  release: Release | undefined,
): Promise<Plan> {
  const strip = `${location.prefix}/`;
  const listed = new Map<string, ListedObject>(
    (await store.list(strip)).map((object) => [object.key.slice(strip.length), object]),
  );
  const known = new Map(Object.values(release?.models ?? {}).flatMap(({ objects }) => Object.entries(objects)));

  const sha256 = async (key: string, present: ListedObject): Promise<string | undefined> => {
    const entry = known.get(key);
    return entry?.etag === present.etag && entry.bytes === present.bytes ? entry.sha256 : store.sha256(strip + key);
  };
  const planObject = async (object: WantedObject): Promise<PlannedObject> => {
    const present = listed.get(object.key);
    if (present === undefined) return { object, action: 'upload' };
    const same = present.bytes === object.bytes && (await sha256(object.key, present)) === object.sha256;
    return { object, action: same ? 'keep' : object.immutable ? 'conflict' : 'replace', etag: present.etag };
  };

  const models: PlannedModel[] = [];
  for (const model of wanted) {
    const objects: PlannedObject[] = [];
    for (const object of model.objects) objects.push(await planObject(object));
    models.push({ model, objects, config: await planObject(model.config), surplus: surplusOf(model, listed.keys()) });
  }
  return { models };
}

function surplusOf(model: WantedModel, present: Iterable<string>): string[] {
  const wanted = new Set(model.objects.map(({ key }) => key));
  const versions = new Set(model.objects.filter(({ immutable }) => immutable).map(({ key }) => key.split('/')[1]));
  return [...present].filter((key) => {
    const [name, version] = key.split('/');
    return name === model.name && versions.has(version) && !wanted.has(key);
  });
}
