import { randomBytes } from 'node:crypto';
import { UserError } from '../../core/errors';
import type { ReleasedGolden } from '../../model/golden';
import type { S3Store } from '../../s3/store';
import { ourName } from '../lock';
import type { Provenance } from './provenance';
import { headKey, releaseKey, releasesPrefix, type RepositoryLocation } from '../location';

/** What is known of one object of the repository. `etag` ties it to what a listing shows. */
export interface ReleasedObject {
  bytes: number;
  /** SHA-256 as S3 keeps it, base64; empty for what somebody else published and nobody had to compare yet. */
  checksum: string;
  etag: string;
  /** In a bucket with versioning: how to get it back once it was deleted. */
  versionId?: string;
}

/**
 * How replicas were asked before the release: golden requests, or zeros where there are none. `impossible`: requests
 * cannot be sent one by one.
 */
export type Asked = 'golden' | 'zeros' | 'zeros failed' | 'impossible';

/** Whether weights were trained or drawn at random. */
export type WeightKind = 'pretrained' | 'random';

export interface ReleasedModel {
  /** Versions that config.pbtxt has Triton serve, ascending. */
  served: number[];
  /** Stands in the served configuration too, which tells which release a server has loaded; empty: not from us. */
  digest: string;
  /** Models that an ensemble is made of. */
  composedOf: string[];
  /** Version -> where its weights come from. */
  weights: Record<string, string>;
  /** Version -> kind of its weights, where the tracing noted it. */
  weightKinds?: Record<string, WeightKind>;
  /** The object with its golden requests, beside the repository. */
  golden?: ReleasedGolden;
  /** Undefined: it was not asked. */
  asked?: Asked;
  /** Key under the repository prefix -> content. Versions that are no longer served, but still there, included. */
  objects: Record<string, ReleasedObject>;
}

/** A release: the models of the repository, by content, once every replica served them. */
export interface Release extends Provenance {
  format: typeof FORMAT;
  /** Sorts by time: `20261120T113254Z-1f2e3d4c`. */
  id: string;
  createdAt: string;
  /** The release before it. */
  previous?: string;
  /** What made it: `sync-models`, `rollback to ID`, `promoted from s3://...`. */
  origin: string;
  /** Who made it: `user@host`. */
  by: string;
  /** Of a rollback: the release that it went back to. */
  restores?: string;
  /** Set where nothing was asked, by --no-ask. */
  notAsked?: true;
  models: Record<string, ReleasedModel>;
}

/** A release and the ETag of the pointer to it. */
export interface Head {
  release: Release;
  etag: string;
}

const FORMAT = 2;

/** The release that the repository is at; undefined before the first one. */
export async function readHead(store: S3Store, location: RepositoryLocation): Promise<Head | undefined> {
  const key = headKey(location);
  const found = await store.get(key);
  if (found === undefined) return undefined;
  const { release: id } = parse(found.body, `s3://${store.bucket}/${key}`) as { release: string };
  const release = await readRelease(store, location, id);
  if (release === undefined) {
    throw new UserError(`s3://${store.bucket}/${releaseKey(location, id)} is missing, and the repository is at it`, {
      hint: `restore that object, or delete s3://${store.bucket}/${key} to have what is in the bucket taken as it is`,
    });
  }
  return { release, etag: found.etag };
}

/** One release; undefined when there is none of that id. */
export async function readRelease(
  store: S3Store,
  location: RepositoryLocation,
  id: string,
): Promise<Release | undefined> {
  const key = releaseKey(location, id);
  const found = await store.get(key);
  return found === undefined ? undefined : (parse(found.body, `s3://${store.bucket}/${key}`) as Release);
}

/** Ids of all releases, the newest first. */
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
    ...(content.previous === undefined ? {} : { previous: content.previous }),
    origin: content.origin,
    by: ourName(),
    ...content.provenance,
    ...(content.restores === undefined ? {} : { restores: content.restores }),
    ...(content.notAsked === undefined ? {} : { notAsked: content.notAsked }),
    models: Object.fromEntries(models),
  };
}

/**
 * Makes `release` the one that the repository is at, if it still is at `head`.
 * @throws PreconditionFailed when somebody else was faster
 */
export async function writeHead(
  store: S3Store,
  location: RepositoryLocation,
  release: Release,
  head: Head | undefined,
): Promise<Head> {
  await store.putBytes(releaseKey(location, release.id), Buffer.from(JSON.stringify(release)), { ifAbsent: true });
  const pointer = Buffer.from(`${JSON.stringify({ format: FORMAT, release: release.id })}\n`);
  const condition = head === undefined ? ({ ifAbsent: true } as const) : { ifEtag: head.etag };
  const { etag } = await store.putBytes(headKey(location), pointer, condition);
  return { release, etag };
}

function parse(body: Buffer, where: string): object {
  let content: { format?: unknown };
  try {
    content = JSON.parse(body.toString('utf8')) as { format?: unknown };
  } catch (cause) {
    throw new UserError(`${where} is not JSON: it was not written by this tool`, { cause });
  }
  if (content.format !== FORMAT) {
    throw new UserError(`${where} has format ${String(content.format)}, and this version of the tool reads ${FORMAT}`, {
      hint: 'update this checkout',
    });
  }
  return content;
}
