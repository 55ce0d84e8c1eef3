import { forEachLimited } from '../../core/concurrency';
import { UserError } from '../../core/errors';
import { archiveKey, type RepositoryLocation } from '../../release/location';
import type { ReleasedFile, ManifestModel } from '../../release/manifest';
import {
  checksumOfBytes,
  PART_BYTES,
  PreconditionFailedError,
  S3Error,
  type S3Store,
  type UploadOptions,
  type Written,
} from '../../s3/store';
import { getVersion } from '../keys';
import { RUN_AGAIN } from '../lock';
import { computeChecksum, type DesiredObject } from '../plan/desired';
import { putGolden } from '../release/golden-object';
import type { ReleasePlan } from './plan-release';

export interface UploadTarget {
  store: S3Store;
  location: RepositoryLocation;
  /** As in head.json: objects that no retained release names may be deleted if they are older. */
  sweptBefore: string;
  signal?: AbortSignal | undefined;
  /** Called while bytes are sent: `bytes` more of `key`. */
  onBytes?: ((key: string, bytes: number) => void) | undefined;
}

type Uploaded = Pick<ReleasedFile, 'key' | 'versionId' | 'checksum'>;

/**
 * Writes what no retained release has. Files of versions have the keys of a Triton model repository; files beside the
 * versions are stored by content, so that they change nothing for servers that read the repository before the commit.
 * No object is replaced, because another publisher may name it.
 * @returns the planned models as a manifest names them
 */
export async function uploadModels(
  { plan, released, configs }: ReleasePlan,
  target: UploadTarget,
): Promise<Record<string, ManifestModel>> {
  const { store, location, signal } = target;
  const written = new Map<DesiredObject, ReleasedFile>(released);
  const objects = plan.models.flatMap(({ objects }) => objects).filter(({ action }) => action !== 'keep');
  await forEachLimited(objects, store.concurrency, async ({ object }) => {
    signal?.throwIfAborted();
    const path = object.key.slice(object.key.indexOf('/') + 1);
    written.set(object, { path, bytes: object.bytes, ...(await putNew(target, object)) });
  });
  await forEachLimited(plan.models, store.concurrency, async ({ model }) => {
    if (model.golden !== undefined) await putGolden(store, location, model.golden);
  });
  return Object.fromEntries(
    plan.models.map(({ model }): [string, ManifestModel] => {
      const { name, served, composedOf, weights, weightKinds, golden } = model;
      const files = model.objects.flatMap((object) => {
        const file = written.get(object);
        return file === undefined ? [] : [{ ...file, path: object.key.slice(name.length + 1) }];
      });
      return [
        name,
        {
          ...{ served, composedOf, weights, weightKinds },
          config: configs.get(name) ?? '',
          files: files.sort((a, b) => (a.path < b.path ? -1 : 1)),
          golden: golden && { sha256: golden.sha256, bytes: golden.bytes, requests: golden.requests },
        },
      ];
    }),
  );
}

/**
 * Writes a file under the first of these keys that has no other bytes:
 * 1. a file of a version: its key in a Triton model repository;
 * 2. its content. repairView copies a file of a version from there after the commit;
 * 3. its content, and the time until which objects may be deleted.
 *
 * An object with the same bytes is accepted, unless it is older than that time: a prune may be about to delete it. To replace it
 * does not help, because the new version has the same ETag.
 */
async function putNew(target: UploadTarget, object: DesiredObject): Promise<Uploaded> {
  const { store, location, sweptBefore } = target;
  let sent = 0;
  const onBytes = (bytes: number): void => {
    target.onBytes?.(object.key, bytes - sent);
    sent = bytes;
  };
  const byContent = async (): Promise<string> => archiveKey(location, await requireChecksum(object));
  const keys = [
    ...(getVersion(object.key) === undefined ? [] : [() => `${location.prefix}/${object.key}`]),
    byContent,
    async () => `${await byContent()}.${sweptBefore.replace(/\W/g, '')}`,
  ];
  const tried: string[] = [];
  for (const getKey of keys) {
    const key = await getKey();
    tried.push(key);
    const found = await findOrCreate(store, key, object, onBytes);
    if (found === undefined || (found.modified !== undefined && found.modified.toISOString() < sweptBefore)) continue;
    onBytes(object.bytes);
    const { versionId, checksum } = found;
    if (versionId !== undefined) return { key, versionId, checksum };
    throw new UserError(`bucket ${store.bucket} does not keep versions of objects`, {
      hint: 'turn on versioning of the bucket: a release names the version of each object',
    });
  }
  throw new PreconditionFailedError(
    `cannot write ${object.key}: other objects have its keys s3://${store.bucket}/${tried.join(', ')}`,
    { hint: RUN_AGAIN },
  );
}

/** @returns undefined if the key has other bytes */
async function findOrCreate(
  store: S3Store,
  key: string,
  object: DesiredObject,
  onBytes: (bytes: number) => void,
): Promise<Written | undefined> {
  // The parts of a large file would be sent before S3 refuses it.
  const there = object.bytes > PART_BYTES ? await store.lookUp(key, object.bytes) : undefined;
  if (there !== undefined) return there.checksum === (await requireChecksum(object)) ? there : undefined;
  try {
    return await send(store, key, object, { condition: { ifAbsent: true }, onBytes });
  } catch (error) {
    if (error instanceof PreconditionFailedError) return undefined;
    throw error;
  }
}

async function requireChecksum(object: DesiredObject): Promise<string> {
  const { source } = object;
  const checksum = (await computeChecksum(object)) ?? ('body' in source ? checksumOfBytes(source.body) : undefined);
  if (checksum === undefined) throw new UserError(`cannot copy ${object.key}: it is not in the bucket of the release`);
  return checksum;
}

async function send(store: S3Store, key: string, object: DesiredObject, options: UploadOptions): Promise<Written> {
  const { source, bytes } = object;
  if ('body' in source) return store.putBytes(key, source.body, options.condition);
  if ('file' in source) return store.putFile(key, { path: source.file, bytes }, options);
  const checksum = await requireChecksum(object);
  for (const [i, place] of source.stored.entries()) {
    try {
      return await store.copy(place, key, { ...options, bytes, checksum });
    } catch (error) {
      const isMissing = error instanceof S3Error && error.status === 404;
      if (!isMissing || i === source.stored.length - 1) throw error;
    }
  }
  throw new UserError(`cannot copy ${object.key}: the release names no place of it`);
}
