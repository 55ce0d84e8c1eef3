import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { keptKey, type RepositoryLocation } from '../release/location';
import type { ManifestModel, ReleasedFile } from '../release/manifest';
import { PART_BYTES, PreconditionFailedError, type S3Store, type UploadOptions, type Written } from '../s3/store';
import type { DesiredFile } from './desired';
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
  const { store, signal } = target;
  const places = new Map<DesiredFile, Place>();
  const files = models.flatMap(({ model, files }) => files.map((planned) => ({ ...planned, name: model.name })));
  await forEachLimited(files, store.concurrency, async ({ file, released, name }) => {
    signal?.throwIfAborted();
    places.set(file, released ?? (await putNew(target, name, file)));
  });
  const release = (file: DesiredFile): ReleasedFile => {
    const { path, bytes, checksum } = file;
    const { key, versionId } = places.get(file) as Place;
    return { path, key, versionId, bytes, checksum };
  };
  return Object.fromEntries(
    models.map(({ model }): [string, ManifestModel] => {
      const { name, served, composedOf, config, weights, weightKinds, golden } = model;
      return [
        name,
        {
          ...{ served, composedOf, weights, weightKinds, config },
          files: model.files.map(release),
          golden: golden && release(golden),
        },
      ];
    }),
  );
}

/**
 * Writes a file of a version at its place in the model repository. If other bytes have that place, or if a prune may be
 * about to delete the same bytes there, and for files beside the versions, writes it by its content.
 */
async function putNew(target: UploadTarget, model: string, file: DesiredFile): Promise<Place> {
  const { store, location, sweptBefore } = target;
  const path = `${model}/${file.path}`;
  let sent = 0;
  const onBytes = (bytes: number): void => {
    target.onBytes?.(path, bytes - sent);
    sent = bytes;
  };
  const put = async (key: string, since = ''): Promise<Place | undefined> => {
    const found = await findOrCreate(store, key, file, onBytes);
    if (found === undefined || (found.modified !== undefined && found.modified.toISOString() < since)) return undefined;
    onBytes(file.bytes);
    const { versionId } = found;
    if (versionId !== undefined) return { key, versionId };
    throw new UserError(`bucket ${store.bucket} does not keep versions of objects`, {
      hint: 'turn on versioning of the bucket: a release names the version of each object',
    });
  };
  const inPlace =
    getVersion(file.path) === undefined ? undefined : await put(`${location.prefix}/${path}`, sweptBefore);
  const key = keptKey(location, file.checksum, sweptBefore);
  const place = inPlace ?? (await put(key));
  if (place !== undefined) return place;
  throw new PreconditionFailedError(`cannot write ${path}: s3://${store.bucket}/${key} has other bytes`, {
    hint: 'delete that object, which no publisher wrote, and run the command again',
  });
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
