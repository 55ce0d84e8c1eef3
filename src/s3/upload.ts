import { createHash } from 'node:crypto';
import { forEachLimited } from '../core/pool';
import { nameOf, type Bucket } from './bucket';
import { checksumOfParts, partsOf, sha256, type Part } from './checksum';
import { FileChanged, isOutOfRoom, PreconditionFailed, S3Error } from './errors';
import {
  abortOthers,
  abortUpload,
  checkKept,
  completeUpload,
  createUpload,
  listParts,
  uploadPart,
  uploadsOf,
  type StoredPart,
} from './multipart';
import { checkObject, conditionHeaders, headObject, isRefused, preconditionFailed, versionIdOf } from './objects';
import { header, quoted } from './requester';
import type { Source } from './source';
import type { PutCondition, Written } from './types';

export interface UploadOptions {
  condition?: PutCondition;
  /** What the content has to be. */
  checksum?: string;
  /** Bytes of this object that S3 has by now. */
  onBytes?: (sent: number) => void;
}

/** Parts of one object under way at a time; how many are in memory is for Buffers to say. */
const PARTS_AT_A_TIME = 8;

/** Unfit to go on with an upload that somebody else, or another version of this code, began. */
const UNFIT = ['InvalidPart', 'InvalidPartOrder', 'InvalidRequest', 'EntityTooSmall', 'BadDigest'];

/** Writes an object that fits into one request. `body` must stay as it is until this settles. */
export async function putObject(
  bucket: Bucket,
  key: string,
  body: Uint8Array,
  { condition, checksum: expected, onBytes }: UploadOptions,
): Promise<Written> {
  const digest = sha256(body);
  const checksum = digest.toString('base64');
  refuseOtherContent(bucket, key, checksum, expected);
  try {
    const written = await bucket.requester.send({
      what: `write ${nameOf(bucket, key)}`,
      method: 'PUT',
      key,
      headers: { 'x-amz-checksum-sha256': checksum, ...conditionHeaders(condition) },
      body,
      bodySha256: digest,
      read: (answer) => {
        checkKept(header(answer.headers, 'x-amz-checksum-sha256'), checksum);
        return writtenAs(quoted(header(answer.headers, 'etag')), checksum, versionIdOf(answer));
      },
    });
    onBytes?.(body.byteLength);
    return written;
  } catch (error) {
    if (!isRefused(error, condition)) throw error;
    return acceptOurs(bucket, key, body.byteLength, checksum, error);
  }
}

/**
 * Writes an object in parts. Parts that an earlier run has sent are read and compared, not sent again; other
 * unfinished uploads of the same key are given up.
 */
export async function putParts(bucket: Bucket, key: string, source: Source, options: UploadOptions): Promise<Written> {
  const earlier = await findEarlier(bucket, key);
  if (earlier !== undefined) {
    try {
      return await putInto(bucket, key, source, options, earlier);
    } catch (error) {
      if (!(error instanceof S3Error) || !UNFIT.includes(error.code)) throw error;
      await abortUpload(bucket, { key, id: earlier.id });
    }
  }
  const id = await createUpload(bucket, key);
  return putInto(bucket, key, source, options, { id, parts: new Map() });
}

interface Earlier {
  id: string;
  parts: Map<number, StoredPart>;
}

/** The unfinished upload to go on with: the last one that keeps the same checksums. */
async function findEarlier(bucket: Bucket, key: string): Promise<Earlier | undefined> {
  const uploads = await uploadsOf(bucket, key);
  const fit = uploads
    .filter(({ algorithm }) => algorithm === undefined || algorithm === 'SHA256')
    .sort((a, b) => (a.initiated < b.initiated ? 1 : -1));
  const [last] = fit;
  await abortOthers(bucket, key, last?.id, uploads);
  if (last === undefined) return undefined;
  try {
    return { id: last.id, parts: new Map((await listParts(bucket, last)).map((part) => [part.number, part])) };
  } catch (error) {
    if (error instanceof S3Error && error.code === 'NoSuchUpload') return undefined;
    throw error;
  }
}

async function putInto(
  bucket: Bucket,
  key: string,
  source: Source,
  options: UploadOptions,
  { id, parts: stored }: Earlier,
): Promise<Written> {
  const parts = partsOf(source.bytes);
  const digests: Buffer[] = [];
  const sent: StoredPart[] = [];
  let bytes = 0;
  const send = (part: Part): Promise<void> =>
    bucket.buffers.lend(part.bytes, async (buffer) => {
      const body = await source.read(part.start, buffer);
      const digest = sha256(body);
      digests[part.number - 1] = digest;
      const known = sameContent(stored.get(part.number), body, digest);
      sent[part.number - 1] = known ?? (await uploadPart(bucket, key, id, { number: part.number, body, digest }));
      bytes += part.bytes;
      options.onBytes?.(bytes);
    });
  try {
    await forEachLimited(parts, PARTS_AT_A_TIME, send);
    await source.verify();
    const checksum = checksumOfParts(digests);
    refuseOtherContent(bucket, key, checksum, options.checksum);
    return await complete(bucket, key, id, sent, { checksum, condition: options.condition });
  } catch (error) {
    // What no later run can go on with is not left behind. After a failure of the network the next run goes on.
    if (error instanceof FileChanged || error instanceof PreconditionFailed) await abortUpload(bucket, { key, id });
    // Parts would take the room that others need, down to the lock. That there is none is what has to be told.
    if (isOutOfRoom(error)) await abortUpload(bucket, { key, id }).catch(() => undefined);
    throw error;
  }
}

/** The part, if S3 has it already: by its SHA-256, or its MD5 on servers that do not keep the former. */
function sameContent(stored: StoredPart | undefined, body: Uint8Array, digest: Buffer): StoredPart | undefined {
  if (stored?.bytes !== body.byteLength) return undefined;
  const sha256 = digest.toString('base64');
  const same =
    stored.sha256 === undefined
      ? stored.etag.replaceAll('"', '') === createHash('md5').update(body).digest('hex')
      : stored.sha256 === sha256;
  return same ? { ...stored, sha256 } : undefined;
}

/** Puts the parts together, once. An answer that was lost is looked up. */
export async function complete(
  bucket: Bucket,
  key: string,
  id: string,
  parts: readonly StoredPart[],
  { checksum, condition }: { checksum: string; condition: PutCondition },
): Promise<Written> {
  const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
  const ours = await lookBeforeWriting(bucket, key, bytes, checksum, condition);
  if (ours !== undefined) {
    await abortUpload(bucket, { key, id });
    return ours;
  }
  try {
    const known = parts.every(({ sha256 }) => sha256 !== undefined) ? checksum : undefined;
    const { etag, versionId } = await completeUpload(bucket, key, id, parts, { checksum: known, condition });
    return writtenAs(etag, checksum, versionId);
  } catch (error) {
    const lost = error instanceof S3Error && error.code === 'NoSuchUpload';
    if (!lost && !isRefused(error, condition)) throw error;
    const written = await acceptOurs(bucket, key, bytes, checksum, error);
    await abortUpload(bucket, { key, id });
    return written;
  }
}

/**
 * Looks at the condition itself, because not every server knows conditions of anything but a PUT.
 * @returns what is there, if it has our content already
 * @throws PreconditionFailed
 */
export async function lookBeforeWriting(
  bucket: Bucket,
  key: string,
  bytes: number,
  checksum: string,
  condition: PutCondition,
): Promise<Written | undefined> {
  if (condition === undefined) return undefined;
  const there = await headObject(bucket, key);
  const met = 'ifAbsent' in condition ? there === undefined : there?.etag === condition.ifEtag;
  if (met) return undefined;
  const checked = there?.bytes === bytes ? await checkObject(bucket, key, bytes) : undefined;
  if (checked?.checksum === checksum) return writtenAs(checked.etag, checksum, checked.versionId);
  throw preconditionFailed(bucket, key);
}

/** A write was refused, or its answer was lost: if what is there has our content, it is done. */
export async function acceptOurs(
  bucket: Bucket,
  key: string,
  bytes: number,
  checksum: string,
  error: S3Error,
): Promise<Written> {
  const there = await checkObject(bucket, key, bytes);
  if (there?.checksum === checksum) return writtenAs(there.etag, checksum, there.versionId);
  throw error.code === 'NoSuchUpload' ? error : preconditionFailed(bucket, key, error);
}

function refuseOtherContent(bucket: Bucket, key: string, checksum: string, expected: string | undefined): void {
  if (expected === undefined || expected === checksum) return;
  throw new FileChanged(`cannot write ${nameOf(bucket, key)}: the content changed since its checksum was taken`, {
    hint: 'run it again when nothing writes to the file any more',
  });
}

export function writtenAs(etag: string, checksum: string, versionId: string | undefined): Written {
  return { etag, checksum, ...(versionId === undefined ? {} : { versionId }) };
}
