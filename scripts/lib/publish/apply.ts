import { createHash } from 'node:crypto';
import { UserError } from '../errors';
import { forEachLimited } from '../pool';
import type { RepositoryLocation } from './location';
import { currentKey, nextRelease, releaseKey, type Release } from './manifest';
import { isChanged, type Plan, type PlannedObject } from './plan';
import { MAXIMUM_PUT_BYTES, PreconditionFailed, type S3Store, type PutCondition } from './s3-store';

const CONCURRENT_UPLOADS = 8;

export interface ApplyOptions {
  store: S3Store;
  location: RepositoryLocation;
  previous: { release: Release; etag: string } | undefined;
  onUploaded?: (key: string, bytes: number) => void;
}

/**
 * Carries out a plan without conflicts. The order is what keeps readers safe: all files of a model first, its
 * config.pbtxt, which names the versions to serve, last; what an ensemble is made of before the ensemble. Whoever
 * reads the bucket meanwhile sees each model as it was or as it will be.
 * @returns the release, a new one only if something changed
 */
export async function applyPlan(plan: Plan, options: ApplyOptions): Promise<Release> {
  const { previous } = options;
  const etags = new Map<string, string>();
  const write = async (planned: PlannedObject): Promise<void> => {
    etags.set(planned.object.key, await writeObject(planned, options));
  };
  requireUploadable(plan);
  await forEachLimited(
    plan.models.flatMap(({ objects }) => objects),
    CONCURRENT_UPLOADS,
    write,
  );
  for (const { config } of plan.models) await write(config);

  const unchanged = previous !== undefined && !plan.models.some(isChanged) && isKnown(plan, previous.release);
  return unchanged ? previous.release : recordRelease(plan, etags, options);
}

/** Keeps an object in the repository's folder, which Triton needs to take an empty repository for a directory. */
export async function ensurePlaceholder(store: S3Store, location: RepositoryLocation): Promise<void> {
  const body = Buffer.from('This object lets Triton start on a repository that holds no model yet.\n');
  try {
    await store.putBytes(`${location.prefix}/.keep`, body, sha256(body), { ifAbsent: true });
  } catch (error) {
    if (!(error instanceof PreconditionFailed)) throw error;
  }
}

async function writeObject(planned: PlannedObject, { store, location, onUploaded }: ApplyOptions): Promise<string> {
  const { object, action, etag } = planned;
  if (action === 'keep') return etag ?? '';
  const key = `${location.prefix}/${object.key}`;
  const condition: PutCondition = etag === undefined ? { ifAbsent: true } : { ifEtag: etag };
  try {
    const written =
      'body' in object.source
        ? await store.putBytes(key, object.source.body, object.sha256, condition)
        : await store.putFile(key, object.source.file, object.bytes, object.sha256, condition);
    onUploaded?.(object.key, object.bytes);
    return written;
  } catch (error) {
    if (!(error instanceof PreconditionFailed)) throw error;
    // Another publisher was first, or an earlier attempt of ours arrived and only its answer was lost.
    const [now] = (await store.list(key)).filter((listed) => listed.key === key);
    if (now !== undefined && (await store.sha256(key)) === object.sha256) return now.etag;
    throw new UserError(`${object.key}: another publisher wrote it while this one was running`, {
      hint: 'run it again to publish on top of what is there now',
      cause: error,
    });
  }
}

async function recordRelease(plan: Plan, etags: ReadonlyMap<string, string>, options: ApplyOptions): Promise<Release> {
  const { store, location, previous } = options;
  const models = plan.models.map(({ model }) => model);
  const release = nextRelease(previous?.release, models, etags);
  const body = Buffer.from(`${JSON.stringify(release, null, 2)}\n`);
  await store.putBytes(releaseKey(location, release.id), body, sha256(body), { ifAbsent: true });
  try {
    const condition: PutCondition = previous === undefined ? { ifAbsent: true } : { ifEtag: previous.etag };
    await store.putBytes(currentKey(location), body, sha256(body), condition);
  } catch (error) {
    if (!(error instanceof PreconditionFailed)) throw error;
    throw new UserError('another publisher finished a release while this one was running', {
      hint: 'run it again to publish on top of it',
      cause: error,
    });
  }
  return release;
}

/** Whether the release already describes every model of the plan, byte by byte. */
function isKnown(plan: Plan, release: Release): boolean {
  return plan.models.every(({ model, objects, config }) => {
    const entries = release.models[model.name]?.objects ?? {};
    const planned = [...objects, config];
    return (
      Object.keys(entries).length === planned.length &&
      planned.every(
        ({ object, etag }) => entries[object.key]?.etag === etag && entries[object.key]?.sha256 === object.sha256,
      )
    );
  });
}

function requireUploadable(plan: Plan): void {
  const large = plan.models.flatMap(({ objects }) => objects).find(({ object }) => object.bytes > MAXIMUM_PUT_BYTES);
  if (large !== undefined) {
    throw new UserError(
      `${large.object.key} has ${large.object.bytes} bytes; up to ${MAXIMUM_PUT_BYTES} can be published`,
    );
  }
}

function sha256(body: Buffer): string {
  return createHash('sha256').update(body).digest('base64');
}
