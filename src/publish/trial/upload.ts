import { forEachLimited } from '../../core/concurrency';
import { UserError } from '../../core/errors';
import { configText, stepModels, type ModelConfig, type RepositoryModel, type SourceFile } from '../../model';
import type { Manifest, ReleasedFile, ReleasedModel } from '../../release/manifest';
import { checksumOfFile, PreconditionFailedError, type ListedObject, type S3Store } from '../../s3/store';
import { archiveKey, type RepositoryLocation } from '../../release/location';

export interface UploadTarget {
  store: S3Store;
  location: RepositoryLocation;
  /** Manifests of the releases that are kept. Their objects are used again. */
  retained: readonly Manifest[];
  onBytes?: ((key: string, bytes: number) => void) | undefined;
}

/** Times that an object is looked at again after another program wrote it. */
const TRIES = 5;

/**
 * Uploads what no retained release has. Files of versions have the keys of a Triton model repository; files beside the
 * versions are stored by content, so that they change nothing for servers that read the repository before the commit.
 * @returns the models as a manifest names them
 * @throws UserError if a retained release has other bytes under the number of a version
 */
export async function uploadModels(
  models: readonly RepositoryModel[],
  target: UploadTarget,
): Promise<Record<string, ReleasedModel>> {
  const { store, location, retained } = target;
  const known = new Map<string, ReleasedFile[]>();
  for (const file of retained.flatMap((manifest) => Object.values(manifest.models).flatMap(({ files }) => files))) {
    known.set(file.key, [...(known.get(file.key) ?? []), file]);
  }
  const listed = new Map((await store.list(`${location.prefix}/`)).map((object) => [object.key, object]));
  const files: { model: string; file: SourceFile; inVersion: boolean }[] = models.flatMap((model) => [
    ...model.versions.flatMap((version) => version.files.map((file) => ({ model: model.name, file, inVersion: true }))),
    ...model.extraFiles.map((file) => ({ model: model.name, file, inVersion: false })),
  ]);
  const uploads: (() => Promise<void>)[] = [];
  const released = new Map<string, ReleasedFile[]>();
  const conflicts: string[] = [];
  const add = (model: string, file: ReleasedFile): void => {
    released.set(model, [...(released.get(model) ?? []), file]);
  };
  for (const { model, file, inVersion } of files) {
    const checksum = await checksumOfFile(file.path, file.bytes);
    const key = inVersion ? `${location.prefix}/${model}/${file.key}` : archiveKey(location, checksum);
    const same = known.get(key)?.find((one) => one.checksum === checksum);
    if (same !== undefined) add(model, { ...same, path: file.key });
    else if (inVersion && known.has(key)) conflicts.push(`${model}/${file.key}`);
    else {
      uploads.push(async () => {
        const versionId = await put(target, key, { ...file, checksum }, listed.get(key));
        add(model, { path: file.key, key, versionId, bytes: file.bytes, checksum });
      });
    }
  }
  if (conflicts.length > 0) {
    throw new UserError(`cannot change published versions: ${conflicts.sort().join(', ')}`, {
      hint: 'publish the changed files as a new version',
    });
  }
  await forEachLimited(uploads, store.concurrency, (upload) => upload());
  return Object.fromEntries(
    models.map((model) => {
      const own = released.get(model.name) ?? [];
      return [
        model.name,
        describeModel(
          model,
          own.sort((a, b) => (a.path < b.path ? -1 : 1)),
        ),
      ];
    }),
  );
}

/** Creates the object, or replaces one that no retained release names. Earlier versions of it stay in the bucket. */
async function put(
  { store, onBytes }: UploadTarget,
  key: string,
  file: { path: string; bytes: number; checksum: string },
  seen: Pick<ListedObject, 'etag'> | undefined,
): Promise<string> {
  let present = seen;
  for (let tries = 1; ; tries += 1) {
    try {
      const { versionId } = await store.putFile(key, file, {
        condition: present === undefined ? { ifAbsent: true } : { ifEtag: present.etag },
        checksum: file.checksum,
        onBytes: (sent) => onBytes?.(key, sent),
      });
      if (versionId !== undefined) return versionId;
      throw new UserError(`bucket ${store.bucket} does not keep versions of objects`, {
        hint: 'turn on versioning of the bucket: a release names the version of each object',
      });
    } catch (error) {
      if (!(error instanceof PreconditionFailedError) || tries === TRIES) throw error;
      present = (await store.list(key)).find((object) => object.key === key);
    }
  }
}

function describeModel({ config, served }: RepositoryModel, files: ReleasedFile[]): ReleasedModel {
  return { served, composedOf: stepModels(config), config: configText(withoutPolicy(config)), files };
}

function withoutPolicy(config: ModelConfig): ModelConfig {
  const copy = { ...config };
  delete copy.version_policy;
  return copy;
}
