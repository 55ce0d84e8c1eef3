import { UserError } from '../errors';
import type { S3Store } from '../s3/store';
import { change, type ChangeOptions, type Changed } from './change';
import { CONFIG_FILE, isSwitched, versionOf } from './keys';
import { keptKey, removedKey, type RepositoryLocation } from './location';
import { readHead, readRelease, releaseIds, type Release, type ReleasedModel, type ReleasedObject } from './release';
import { composingFirst, type StoredPlace, type WantedModel, type WantedObject } from './wanted';

/**
 * Brings the repository and the servers back to a release: its configurations, and from what is still in the bucket.
 * Models that came after it are taken out of service; their bytes stay beside the repository.
 * @param id undefined: the release before the one that the repository is at
 */
export async function rollBack(id: string | undefined, options: ChangeOptions): Promise<Changed> {
  const release = await findRelease(id, options);
  const models = modelsOf(release, (key, object) => ({
    source: { stored: placesOf(options.location, key, object) },
    etag: object.etag,
  }));
  return change(
    (current) =>
      Promise.resolve({
        models,
        remove: Object.keys(current?.models ?? {}).filter((name) => release.models[name] === undefined),
        keepRemoved: true,
        prune: false,
        origin: `rollback to ${release.id}`,
      }),
    options,
  );
}

/** What a release has in service, as it is to be published. Versions that it only kept are left out. */
export function modelsOf(
  release: Release,
  origin: (key: string, object: ReleasedObject) => Pick<WantedObject, 'source' | 'etag'>,
): WantedModel[] {
  const toWanted = (name: string, released: ReleasedModel): WantedModel => {
    const { served, digest, composedOf, weights } = released;
    const objects = Object.entries(released.objects).flatMap(([key, object]): WantedObject[] => {
      const version = versionOf(key);
      if (version !== undefined && !served.includes(version)) return [];
      const { bytes, checksum } = object;
      // What nobody had to compare has no checksum: S3 is asked for it when it is needed.
      return [{ key, bytes, ...origin(key, object), ...(checksum === '' ? {} : { checksum }) }];
    });
    const config = objects.find(({ key }) => key === `${name}/${CONFIG_FILE}`);
    if (config === undefined) throw new UserError(`release ${release.id} has no configuration of ${name}`);
    return {
      name,
      served,
      digest,
      composedOf,
      weights,
      config,
      objects: objects.filter((object) => object !== config),
    };
  };
  return composingFirst(Object.entries(release.models).map(([name, released]) => toWanted(name, released)));
}

/** Where the bytes of an object of a release may still be, in this bucket. */
function placesOf(location: RepositoryLocation, key: string, { checksum, versionId }: ReleasedObject): StoredPlace[] {
  if (isSwitched(key)) return [{ key: keptKey(location, checksum) }];
  return [
    { key: removedKey(location, key) },
    ...(versionId === undefined ? [] : [{ key: `${location.prefix}/${key}`, versionId }]),
  ];
}

async function findRelease(
  id: string | undefined,
  { store, location }: { store: S3Store; location: RepositoryLocation },
): Promise<Release> {
  const head = await readHead(store, location);
  const where = `s3://${store.bucket}/${location.prefix}`;
  if (head === undefined) {
    throw new UserError(`${where} has no release yet`, { hint: 'publish one: npm run sync-models' });
  }
  const wanted = id ?? head.release.previous;
  if (wanted === undefined) {
    throw new UserError(`${head.release.id} is the first release of ${where}: there is none before it`);
  }
  const found = await readRelease(store, location, wanted);
  if (found !== undefined) return found;
  const ids = await releaseIds(store, location);
  const [only, ...others] = ids.filter((one) => one.includes(wanted));
  if (only !== undefined && others.length === 0) return (await readRelease(store, location, only)) as Release;
  throw new UserError(`${where} has ${only === undefined ? 'no' : 'more than one'} release "${wanted}"`, {
    hint: `the newest are: ${ids.slice(0, 5).join(', ')}; "npm run releases" lists all`,
  });
}
