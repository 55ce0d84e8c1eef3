import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { getName, type Bucket } from './bucket';
import { checksumOfBytes, checksumOfParts, partBytesFor, splitIntoParts, sha256 } from './checksum';
import { PreconditionFailedError, S3Error } from './errors';
import { type WireResponse, header, quoted, S3RequestError } from './requester';
import { SinkError } from './send-request';
import type { PutCondition, TakeBytes } from './types';
import { MalformedXmlError } from './xml';

/** Metadata of an object, from HEAD. */
export interface ObjectHead {
  bytes: number;
  etag: string;
  /** SHA-256 as S3 stores it, which depends on the parts in which the object was uploaded. */
  sha256: string | undefined;
  versionId: string | undefined;
  /** Last-Modified. */
  modified: Date;
}

const MODE = { 'x-amz-checksum-mode': 'ENABLED' };

/**
 * @returns undefined if the object does not exist
 * @throws S3Error, also if the bucket does not exist
 */
export async function headObject(bucket: Bucket, key: string): Promise<ObjectHead | undefined> {
  const head = await headInBucket(bucket, key);
  // The answer to HEAD has no body that could report a missing bucket. GET throws if the bucket is missing.
  if (head === undefined) await readRange(bucket, key, 0, Buffer.alloc(1));
  return head;
}

/** The same for a bucket that is known to exist, in one request. */
export async function headInBucket(bucket: Bucket, key: string): Promise<ObjectHead | undefined> {
  try {
    return await bucket.requester.send({
      what: `read the metadata of ${getName(bucket, key)}`,
      method: 'HEAD',
      key,
      headers: MODE,
      read: ({ headers }) => ({
        bytes: getLength(headers),
        etag: quoted(header(headers, 'etag')),
        sha256: header(headers, 'x-amz-checksum-sha256'),
        versionId: getVersionId({ headers }),
        modified: new Date(header(headers, 'last-modified') ?? 0),
      }),
    });
  } catch (error) {
    if (!(error instanceof S3Error) || error.status !== 404) throw error;
    return undefined;
  }
}

export interface GotObject {
  body: Buffer;
  etag: string;
  ageMs: number;
}

/**
 * Reads a whole object. Its content is verified against its stored checksum, if the object was uploaded in one part.
 * @param options `bytes`: expected size, for the deadline
 * @returns undefined if the object does not exist
 */
export async function getObject(
  bucket: Bucket,
  key: string,
  { bytes = 0, versionId }: { bytes?: number; versionId?: string } = {},
): Promise<GotObject | undefined> {
  return unlessMissing(
    bucket.requester.send({
      what: `read ${getName(bucket, key)}`,
      method: 'GET',
      key,
      query: getVersionQuery(versionId),
      headers: MODE,
      answerBytes: bytes,
      read: (answer) => {
        checkBody(answer);
        return { body: answer.body, etag: quoted(header(answer.headers, 'etag')), ageMs: getAge(answer) };
      },
    }),
  );
}

/** A part of an object. */
export interface RangeToRead {
  start: number;
  /** At least 1. */
  bytes: number;
  /** ETag that the object must have. */
  etag?: string | undefined;
  /** Version to read. */
  versionId?: string | undefined;
}

/**
 * Reads a part of an object and passes the bytes on as they arrive. If the connection fails, only the rest is requested
 * again. `take` is never called before its last promise has settled, and has settled when this function ends.
 * @returns how many bytes were read, fewer than requested only at the end of the object; undefined if the object does not
 *   exist
 * @throws S3Error, or the error of `take`
 */
export async function streamRange(
  bucket: Bucket,
  key: string,
  { start, bytes, etag, versionId }: RangeToRead,
  take: TakeBytes,
): Promise<number | undefined> {
  let count = 0;
  let taking: Promise<void> | undefined;
  const reading = bucket.requester.send({
    what: `read ${getName(bucket, key)}`,
    method: 'GET',
    key,
    query: getVersionQuery(versionId),
    get headers(): Readonly<Record<string, string>> {
      const range = `bytes=${start + count}-${start + bytes - 1}`;
      return etag === undefined ? { range } : { range, 'if-match': etag };
    },
    answerBytes: bytes,
    sink: {
      get at() {
        return start + count;
      },
      get leftBytes() {
        return bytes - count;
      },
      take: (chunk) => {
        count += chunk.byteLength;
        // A connection can fail while it waits. The bytes of the next connection then wait too.
        const current = taking === undefined ? take(chunk) : taking.then(() => take(chunk));
        taking = current;
        const end = (): void => {
          if (taking === current) taking = undefined;
        };
        current?.then(end, () => undefined);
        return current;
      },
    },
    read: () => count,
  });
  const result = await unlessMissing(reading).catch(async (error: unknown) => {
    await taking?.catch(() => undefined);
    if (error instanceof SinkError) throw error.cause;
    if (!(error instanceof S3Error)) throw error;
    // The object ends before the range, or the connection failed after the last byte.
    if (error.status === 416 || (count === bytes && error.code !== 'RangeIgnored')) return count;
    throw error;
  });
  await taking;
  return result;
}

/** The same into memory, from `start` on. */
export function readRange(
  bucket: Bucket,
  key: string,
  start: number,
  buffer: Buffer,
  of: Pick<RangeToRead, 'etag' | 'versionId'> = {},
): Promise<number | undefined> {
  let at = 0;
  return streamRange(bucket, key, { ...of, start, bytes: buffer.byteLength }, (chunk) => {
    at += chunk.copy(buffer, at);
    return undefined;
  });
}

const getVersionQuery = (versionId: string | undefined): Record<string, string> | undefined =>
  versionId === undefined ? undefined : { versionId };

async function unlessMissing<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof S3Error && (error.code === 'NoSuchKey' || error.code === 'NoSuchVersion')) return undefined;
    throw error;
  }
}

function checkBody({ headers, body }: WireResponse): void {
  const kept = header(headers, 'x-amz-checksum-sha256');
  if (kept === undefined || kept.includes('-')) return;
  if (kept !== sha256(body).toString('base64')) {
    throw new S3RequestError({
      code: 'BadDigest',
      text: 'the received bytes do not match the checksum that S3 stores',
    });
  }
}

/** Age by the server's clock only. An object without these dates counts as new. */
function getAge({ headers }: WireResponse): number {
  const age = Date.parse(header(headers, 'date') ?? '') - Date.parse(header(headers, 'last-modified') ?? '');
  return Number.isNaN(age) ? 0 : Math.max(0, age);
}

/** Version id in an answer. S3 sends "null" for buckets without versioning. */
export function getVersionId({ headers }: Pick<WireResponse, 'headers'>): string | undefined {
  const version = header(headers, 'x-amz-version-id');
  return version === 'null' || version === '' ? undefined : version;
}

/** An object's state, with the checksum that it would have if S3Store had uploaded it. */
export interface Checked {
  bytes: number;
  etag: string;
  checksum: string;
  versionId: string | undefined;
  modified: Date;
}

/**
 * The object's state and checksum. Uses the checksum that S3 stores if the object was uploaded in the parts that
 * S3Store uses; otherwise computes it from the bytes.
 * @returns undefined if the object does not exist
 */
export async function checkObject(bucket: Bucket, key: string, expectedBytes?: number): Promise<Checked | undefined> {
  const head = await headObject(bucket, key);
  if (head === undefined) return undefined;
  const { bytes, etag, versionId, modified } = head;
  if (expectedBytes !== undefined && bytes !== expectedBytes) {
    // The content differs for sure, so its bytes are not read. This text equals no checksum.
    return { bytes, etag, versionId, modified, checksum: `${bytes} bytes` };
  }
  const kept = await comparable(bucket, key, head);
  return { bytes, etag, versionId, modified, checksum: kept ?? (await checksumFromBytes(bucket, key, head)) };
}

/** The stored checksum, if the object was uploaded in the parts that S3Store uses. */
async function comparable(bucket: Bucket, key: string, head: ObjectHead): Promise<string | undefined> {
  if (head.sha256 === undefined) return undefined;
  const [, count] = head.sha256.split('-');
  const parts = splitIntoParts(head.bytes).length;
  if (parts === 1) return count === undefined ? head.sha256 : undefined;
  if (count !== String(parts)) return undefined;
  // The same number of parts can still have other sizes.
  return (await firstPartBytes(bucket, key)) === partBytesFor(head.bytes) ? head.sha256 : undefined;
}

function getLength(headers: WireResponse['headers']): number {
  const length = header(headers, 'content-length');
  if (length === undefined) throw new MalformedXmlError('the answer has no Content-Length');
  return Number(length);
}

/** Size of the first part of the upload; undefined if the server does not report it. */
async function firstPartBytes(bucket: Bucket, key: string): Promise<number | undefined> {
  try {
    return await bucket.requester.send({
      what: `read the metadata of ${getName(bucket, key)}`,
      method: 'HEAD',
      key,
      query: { partNumber: '1' },
      read: ({ headers }) => getLength(headers),
    });
  } catch {
    return undefined;
  }
}

async function checksumFromBytes(bucket: Bucket, key: string, { bytes, etag }: ObjectHead): Promise<string> {
  if (bytes === 0) return checksumOfBytes(Buffer.alloc(0));
  const digests: Buffer[] = [];
  await forEachLimited(splitIntoParts(bytes), bucket.buffers.parts, async (part) => {
    await bucket.buffers.lend(part.bytes, async (buffer) => {
      if ((await readRange(bucket, key, part.start, buffer, { etag })) !== part.bytes)
        throw changedWhileRead(bucket, key);
      digests[part.number - 1] = sha256(buffer);
    });
  });
  return checksumOfParts(digests);
}

export function changedWhileRead(bucket: Bucket, key: string): UserError {
  return new UserError(`cannot read ${getName(bucket, key)}: it changed while it was read`, {
    hint: 'run the command again',
  });
}

export function conditionHeaders(condition: PutCondition): Record<string, string> {
  if (condition === undefined) return {};
  return 'ifAbsent' in condition ? { 'if-none-match': '*' } : { 'if-match': condition.ifEtag };
}

/**
 * Whether S3 refused a write because of its condition.
 * @param copies whether the write is a copy; NoSuchKey then means the source object
 */
export function isRefused(error: unknown, condition: PutCondition, copies = false): error is S3Error {
  if (condition === undefined || !(error instanceof S3Error)) return false;
  if (error.status === 412 || error.code === 'ConditionalRequestConflict') return true;
  // The object to replace no longer exists.
  return !copies && 'ifEtag' in condition && error.code === 'NoSuchKey';
}

export function preconditionFailed(bucket: Bucket, key: string, cause?: unknown): PreconditionFailedError {
  return new PreconditionFailedError(`cannot write ${getName(bucket, key)}: another program wrote it in the meantime`, {
    hint: 'check its present content, then run the command again',
    cause,
  });
}
