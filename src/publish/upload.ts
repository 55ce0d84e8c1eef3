import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { fileKey, type RepositoryLocation } from '../release/location';
import type { ManifestModel, ReleasedFile } from '../release/manifest';
import { PART_BYTES, PreconditionFailedError, type S3Store, type UploadOptions } from '../s3/store';
import type { DesiredFile } from './desired';
import type { Plan } from './plan';

export interface UploadTarget {
  store: S3Store;
  location: RepositoryLocation;
  /** As in head.json. */
  sweep: number;
  signal?: AbortSignal | undefined;
  /** Called while bytes are sent: `bytes` more of `key`. */
  onBytes?: ((key: string, bytes: number) => void) | undefined;
}

/**
 * Writes what no retained release has, by content: so no one sees it before the commit, and no object is replaced.
 * @returns the planned models as a manifest names them
 */
export async function uploadModels({ models }: Plan, target: UploadTarget): Promise<Record<string, ManifestModel>> {
  const { store, signal } = target;
  const keys = new Map<string, string>();
  const files = models.flatMap(({ model, files }) => files.map((planned) => ({ ...planned, name: model.name })));
  const byContent = new Map(files.map((planned) => [planned.file.checksum, planned]));
  await forEachLimited([...byContent.values()], store.concurrency, async ({ file, released, name }) => {
    signal?.throwIfAborted();
    keys.set(file.checksum, released?.key ?? (await putNew(target, `${name}/${file.path}`, file)));
  });
  const release = ({ path, bytes, checksum }: DesiredFile): ReleasedFile => ({
    ...{ path, bytes, checksum },
    key: keys.get(checksum) as string,
  });
  return Object.fromEntries(
    models.map(({ model }): [string, ManifestModel] => {
      const { name, served, composedOf, config, weights, weightKinds, compiled, golden } = model;
      return [
        name,
        {
          ...{ served, composedOf, weights, weightKinds, compiled, config },
          files: model.files.map(release),
          golden: golden && release(golden),
        },
      ];
    }),
  );
}

/** @param path for progress and messages */
async function putNew(target: UploadTarget, path: string, file: DesiredFile): Promise<string> {
  const { store, location, sweep } = target;
  const key = fileKey(location, file.checksum, sweep);
  let sent = 0;
  const onBytes = (bytes: number): void => {
    target.onBytes?.(path, bytes - sent);
    sent = bytes;
  };
  // The parts of a large file would be sent before S3 refuses it.
  const there = file.bytes > PART_BYTES ? await store.checksum(key, file.bytes) : undefined;
  try {
    if (there === undefined) await send(store, key, file, { condition: { ifAbsent: true }, onBytes });
    if (there === undefined || there === file.checksum) {
      onBytes(file.bytes);
      return key;
    }
  } catch (error) {
    if (error instanceof UserError) error.message = `${path}: ${error.message}`;
    if (!(error instanceof PreconditionFailedError)) throw error;
  }
  throw new PreconditionFailedError(`cannot write ${path}: s3://${store.bucket}/${key} has other bytes`, {
    hint: 'delete that object, which no publisher wrote, and run the command again',
  });
}

async function send(store: S3Store, key: string, file: DesiredFile, options: UploadOptions): Promise<unknown> {
  const { source, bytes, checksum } = file;
  if ('body' in source) return store.putBytes(key, source.body, options.condition);
  if ('file' in source) return store.putFile(key, { path: source.file, bytes }, { ...options, checksum });
  return store.copy(source.stored, key, { ...options, bytes, checksum });
}
