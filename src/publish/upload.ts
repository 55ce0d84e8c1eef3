import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { archiveKey, type RepositoryLocation } from '../release/location';
import type { ManifestModel, ReleasedFile } from '../release/manifest';
import { PART_BYTES, PreconditionFailedError, type S3Store, type UploadOptions, type Written } from '../s3/store';
import type { DesiredFile } from './desired';
import { putGolden } from './golden-object';
import { getVersion } from './keys';
import type { Plan } from './plan';

export interface UploadTarget {
  store: S3Store;
  location: RepositoryLocation;
  /** As in head.json: objects that no retained release names may be deleted if they are older. */
  sweptBefore: string;
  signal?: AbortSignal | undefined;
  /** Called while bytes are sent: `bytes` more of `key`. */
  onBytes?: ((key: string, bytes: number) => void) | undefined;
}

type Place = Pick<ReleasedFile, 'key' | 'versionId'>;

/**
 * Writes what no retained release has. Files of versions have the keys of a Triton model repository; files beside the
 * versions are stored by content, so that they change nothing for servers that read the repository before the commit.
 * No object is replaced, because another publisher may name it.
 * @returns the planned models as a manifest names them
 */
export async function uploadModels({ models }: Plan, target: UploadTarget): Promise<Record<string, ManifestModel>> {
  const { store, location, signal } = target;
  const places = new Map<DesiredFile, Place>();
  const files = models.flatMap(({ model, files }) => files.map((planned) => ({ ...planned, name: model.name })));
  await forEachLimited(files, store.concurrency, async ({ file, released, name }) => {
    signal?.throwIfAborted();
    places.set(file, released ?? (await putNew(target, name, file)));
  });
  await forEachLimited(models, store.concurrency, async ({ model }) => {
    if (model.golden !== undefined) await putGolden(store, location, model.golden);
  });
  return Object.fromEntries(
    models.map(({ model }): [string, ManifestModel] => {
      const { name, served, composedOf, config, weights, weightKinds, golden } = model;
      return [
        name,
        {
          ...{ served, composedOf, weights, weightKinds, config },
          files: model.files.map((file) => {
            const { path, bytes, checksum } = file;
            const { key, versionId } = places.get(file) as Place;
            return { path, key, versionId, bytes, checksum };
          }),
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
async function putNew(target: UploadTarget, model: string, file: DesiredFile): Promise<Place> {
  const { store, location, sweptBefore } = target;
  const path = `${model}/${file.path}`;
  let sent = 0;
  const onBytes = (bytes: number): void => {
    target.onBytes?.(path, bytes - sent);
    sent = bytes;
  };
  const byContent = archiveKey(location, file.checksum);
  const keys = [
    ...(getVersion(file.path) === undefined ? [] : [`${location.prefix}/${path}`]),
    byContent,
    `${byContent}.${sweptBefore.replace(/\W/g, '')}`,
  ];
  for (const key of keys) {
    const found = await findOrCreate(store, key, file, onBytes);
    if (found === undefined || (found.modified !== undefined && found.modified.toISOString() < sweptBefore)) continue;
    onBytes(file.bytes);
    const { versionId } = found;
    if (versionId !== undefined) return { key, versionId };
    throw new UserError(`bucket ${store.bucket} does not keep versions of objects`, {
      hint: 'turn on versioning of the bucket: a release names the version of each object',
    });
  }
  throw new PreconditionFailedError(
    `cannot write ${path}: other objects have its keys s3://${store.bucket}/${keys.join(', ')}`,
    { hint: 'run the command again' },
  );
}

/** @returns undefined if the key has other bytes */
async function findOrCreate(
  store: S3Store,
  key: string,
  file: DesiredFile,
  onBytes: (bytes: number) => void,
): Promise<Written | undefined> {
  // The parts of a large file would be sent before S3 refuses it.
  const there = file.bytes > PART_BYTES ? await store.lookUp(key, file.bytes) : undefined;
  if (there !== undefined) return there.checksum === file.checksum ? there : undefined;
  try {
    return await send(store, key, file, { condition: { ifAbsent: true }, onBytes });
  } catch (error) {
    if (error instanceof PreconditionFailedError) return undefined;
    throw error;
  }
}

async function send(store: S3Store, key: string, file: DesiredFile, options: UploadOptions): Promise<Written> {
  const { source, bytes, checksum } = file;
  if ('body' in source) return store.putBytes(key, source.body, options.condition);
  if ('file' in source) return store.putFile(key, { path: source.file, bytes }, { ...options, checksum });
  return store.copy(source.stored, key, { ...options, bytes, checksum });
}
