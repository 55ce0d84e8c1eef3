import { randomBytes } from 'node:crypto';
import { UserError } from '../errors';
import { releasesPrefix, type RepositoryLocation } from './location';
import type { S3Store } from './s3-store';
import type { WantedModel, WantedObject } from './wanted';

/** What is known of one object of the repository. `etag` ties it to what a listing shows. */
export interface ReleasedObject {
  bytes: number;
  /** base64 */
  sha256: string;
  etag: string;
}

/** A release: the models of the repository, by content, at one moment. */
export interface Release {
  format: 1;
  /** Sorts by time: `20261120T113254Z-1f2e3d4c`. */
  id: string;
  createdAt: string;
  models: Record<string, ReleasedModel>;
}

export interface ReleasedModel {
  served: number[];
  /** Version -> where its weights come from. */
  weights: Record<string, string>;
  /** Key under the repository prefix -> content. */
  objects: Record<string, ReleasedObject>;
}

/** The release that the repository is at, and the ETag of its pointer; undefined before the first one. */
export async function currentRelease(
  store: S3Store,
  location: RepositoryLocation,
): Promise<{ release: Release; etag: string } | undefined> {
  const key = currentKey(location);
  const found = await store.get(key);
  if (found === undefined) return undefined;
  return { release: parseRelease(found.body.toString('utf8'), `s3://${store.bucket}/${key}`), etag: found.etag };
}

/** The release after `models` were published on top of `previous`; models not among them stay as they were. */
export function nextRelease(
  previous: Release | undefined,
  models: readonly WantedModel[],
  etags: ReadonlyMap<string, string>,
  now: Date = new Date(),
): Release {
  const describe = (object: WantedObject): [string, ReleasedObject] => [
    object.key,
    { bytes: object.bytes, sha256: object.sha256, etag: etags.get(object.key) ?? '' },
  ];
  const published = models.map((model): [string, ReleasedModel] => [
    model.name,
    {
      served: model.served,
      weights: model.weights,
      objects: Object.fromEntries([...model.objects, model.config].map(describe)),
    },
  ]);
  const all = { ...previous?.models, ...Object.fromEntries(published) };
  return {
    format: 1,
    id: `${now.toISOString().replace(/[-:]|\.\d+/g, '')}-${randomBytes(4).toString('hex')}`,
    createdAt: now.toISOString(),
    models: Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/** Where the release `id` is kept for good. */
export function releaseKey(location: RepositoryLocation, id: string): string {
  return `${releasesPrefix(location)}/${id}.json`;
}

/** The pointer to the release that the repository is at: a copy of its manifest. */
export function currentKey(location: RepositoryLocation): string {
  return `${releasesPrefix(location)}/current.json`;
}

function parseRelease(text: string, where: string): Release {
  let release: { format?: unknown };
  try {
    release = JSON.parse(text) as { format?: unknown };
  } catch (cause) {
    throw new UserError(`${where} is not JSON: it was not written by this tool`, { cause });
  }
  if (release.format !== 1) {
    throw new UserError(`${where} has format ${String(release.format)}, and this version of the tool reads 1`, {
      hint: 'update this checkout',
    });
  }
  return release as Release;
}
