import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { PartialFailureError, UserError } from '../../core/errors';
import type { Asked } from '../../release/ask';
import type { S3Store } from '../../s3/store';
import { ourName } from '../lock';
import type { Provenance, ReleasedModelInfo, ReleaseInfo } from '../../release/released';
import { FORMAT as AGENT_FORMAT } from '../../release/format';
import { headKey, releaseKey, releasesPrefix, type RepositoryLocation } from '../../release/location';

/** An object of the repository as a release records it. `etag` ties it to a listing of the bucket. */
export interface ReleasedObject {
  bytes: number;
  /** SHA-256 as S3 stores it, base64. Empty if another tool published the object and it was never compared. */
  checksum: string;
  etag: string;
  /** In a bucket with versioning: the id with which the object can be restored after its deletion. */
  versionId?: string;
}

export type { WeightKind } from '../../release/released';

export interface ReleasedModel extends ReleasedModelInfo {
  /**
   * Also a parameter of the served configuration, where it shows which release a server has loaded. Empty if another
   * tool published the model.
   */
  digest: string;
  /** Version -> origin of its weights. */
  weights: Record<string, string>;
  /** Undefined if the model was not asked. */
  asked?: Asked;
  /**
   * Key under the repository prefix -> object. Includes versions that are no longer served but remain in the bucket.
   */
  objects: Record<string, ReleasedObject>;
}

/** The models of the repository, by content. A release is written after the rollout of its models. */
export interface Release extends ReleaseInfo {
  format?: number;
  models: Record<string, ReleasedModel>;
}

/** A release and the ETag of the pointer to it. */
export interface CurrentRelease {
  release: Release;
  etag: string;
}

const FORMAT = 2;

/**
 * Waits before a missing manifest is read again, in ms. In the minutes after versioning was turned on for a bucket, S3
 * may report objects as missing that exist.
 */
const READ_AGAIN_MS = [500, 1000, 2000, 4000];

/** The current release; undefined before the first one. */
export async function readHead(
  store: S3Store,
  location: RepositoryLocation,
  waitsMs: readonly number[] = READ_AGAIN_MS,
): Promise<CurrentRelease | undefined> {
  const key = headKey(location);
  const found = await store.get(key);
  if (found === undefined) return undefined;
  const { release: id } = parse(found.body, `s3://${store.bucket}/${key}`) as { release: string };
  let release = await readRelease(store, location, id);
  for (let i = 0; release === undefined && i < waitsMs.length; i += 1) {
    await sleep(waitsMs[i]);
    release = await readRelease(store, location, id);
  }
  if (release === undefined) {
    throw new UserError(
      `cannot read the current release: s3://${store.bucket}/${releaseKey(location, id)} is missing`,
      {
        hint: `if the bucket was created less than 15 minutes ago, try again later; otherwise restore that object, or delete s3://${store.bucket}/${key}; sync-models then adopts the models in the bucket`,
      },
    );
  }
  return { release, etag: found.etag };
}

/** One release; undefined if its manifest does not exist. */
export async function readRelease(
  store: S3Store,
  location: RepositoryLocation,
  id: string,
): Promise<Release | undefined> {
  const key = releaseKey(location, id);
  const found = await store.get(key);
  return found === undefined ? undefined : (parse(found.body, `s3://${store.bucket}/${key}`) as Release);
}

/** Ids of all releases, newest first. */
export async function releaseIds(store: S3Store, location: RepositoryLocation): Promise<string[]> {
  const folder = `${releasesPrefix(location)}/`;
  const names = (await store.list(`${folder}2`)).map(({ key }) => key.slice(folder.length));
  return names.flatMap((name) => /^(\d{8}T\d{6}\d*Z-[0-9a-f]{8})\.json$/.exec(name)?.[1] ?? []).reverse();
}

export function newRelease(
  content: {
    previous: string | undefined;
    origin: string;
    restores?: string;
    notAsked?: true;
    provenance?: Provenance;
    models: Record<string, ReleasedModel>;
  },
  now: Date = new Date(),
): Release {
  const models = Object.entries(content.models).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    format: FORMAT,
    id: `${now.toISOString().replace(/[-:.]/g, '')}-${randomBytes(4).toString('hex')}`,
    createdAt: now.toISOString(),
    previous: content.previous,
    origin: content.origin,
    by: ourName(),
    ...content.provenance,
    restores: content.restores,
    notAsked: content.notAsked,
    models: Object.fromEntries(models),
  };
}

/** Whether a release is the current one is unknown. */
export class UnknownHeadError extends PartialFailureError {}

/**
 * Makes `release` the current one, if `head` is still current. If the write is not answered, reads whether it was applied.
 * @throws PreconditionFailedError if another publisher wrote the head first
 * @throws UnknownHeadError if the head cannot be read either
 */
export async function writeHead(
  store: S3Store,
  location: RepositoryLocation,
  release: Release,
  head: CurrentRelease | undefined,
): Promise<CurrentRelease> {
  await store.putBytes(releaseKey(location, release.id), Buffer.from(JSON.stringify(release)), { ifAbsent: true });
  const pointer = Buffer.from(`${JSON.stringify({ format: FORMAT, release: release.id })}\n`);
  const condition = head === undefined ? ({ ifAbsent: true } as const) : { ifEtag: head.etag };
  try {
    const { etag } = await store.putBytes(headKey(location), pointer, condition);
    return { release, etag };
  } catch (error) {
    const found = await store.get(headKey(location)).catch((cause: unknown) => {
      const { message } = error as Error;
      throw new UnknownHeadError(`it is unknown whether release ${release.id} is the current one: ${message}`, {
        hint: '"npm run status" shows it when S3 is reachable again; the next sync-models or rollback undoes or finishes the change',
        cause,
      });
    });
    if (found?.body.equals(pointer) !== true) throw error;
    return { release, etag: found.etag };
  }
}

function parse(body: Buffer, where: string): object {
  let content: { format?: unknown };
  try {
    content = JSON.parse(body.toString('utf8')) as { format?: unknown };
  } catch (cause) {
    throw new UserError(`cannot read ${where}: it is not JSON, so this tool did not write it`, {
      hint: 'restore an earlier version of that object',
      cause,
    });
  }
  if (content.format !== FORMAT) {
    throw new UserError(
      `cannot read ${where}: its format is ${String(content.format)}, and this version of the tool reads format ${FORMAT}`,
      {
        hint:
          content.format === AGENT_FORMAT
            ? 'the repository was migrated for replicas with an agent: run the command again'
            : 'update this checkout to the version that wrote the release',
      },
    );
  }
  return content;
}
