import { createHash } from 'node:crypto';
import { forEachLimited } from '../core/concurrency';
import { getName, type Bucket } from './bucket';
import { checksumOfParts, splitIntoParts, sha256, type PartRange } from './checksum';
import { FileChangedError, isOutOfRoom, PreconditionFailedError, S3Error } from './errors';
import {
  abortOthers,
  abortUpload,
  checkKept,
  completeUpload,
  createUpload,
  listParts,
  uploadPart,
  getUploads,
  isWriteCollision,
  runMultipart,
  type StoredPart,
} from './multipart';
import {
  checkObject,
  conditionHeaders,
  headInBucket,
  headObject,
  isRefused,
  preconditionFailed,
  getVersionId,
  type ObjectHead,
} from './objects';
import { header, quoted } from './requester';
import { WAIT_FOR_WRITER, type UploadSource } from './source';
import type { PutCondition, Written } from './types';

export interface UploadOptions {
  condition?: PutCondition;
  /** Expected checksum of the content. */
  checksum?: string;
  /** Whether to look for an unfinished upload of the same key, to resume it; default: true. */
  resume?: boolean;
  /** Receives the number of bytes of this object that S3 has so far. */
  onBytes?: (sent: number) => void;
}

/**
 * Errors that mean that an existing upload cannot be resumed, because another program or another version of this one
 * began it.
 */
const UNFIT = ['InvalidPart', 'InvalidPartOrder', 'InvalidRequest', 'EntityTooSmall', 'BadDigest'];

/** Writes an object that fits into one request. `body` must not change until the promise settles. */
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
      what: `write ${getName(bucket, key)}`,
      method: 'PUT',
      key,
      headers: { 'x-amz-checksum-sha256': checksum, ...bucket.encryption, ...conditionHeaders(condition) },
      body,
      bodySha256: digest,
      read: (answer) => {
        checkKept(header(answer.headers, 'x-amz-checksum-sha256'), checksum);
        return writtenAs(quoted(header(answer.headers, 'etag')), checksum, getVersionId(answer));
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
 * Writes an object in parts. Resumes an unfinished upload: parts that S3 already has are read and compared, not sent
 * again. Other unfinished uploads of the same key are aborted.
 */
export function putParts(bucket: Bucket, key: string, source: UploadSource, options: UploadOptions): Promise<Written> {
  return runMultipart(bucket, key, () => resumeOrBegin(bucket, key, source, options));
}

async function resumeOrBegin(
  bucket: Bucket,
  key: string,
  source: UploadSource,
  options: UploadOptions,
): Promise<Written> {
  const earlier = options.resume === false ? undefined : await findEarlier(bucket, key);
  if (earlier !== undefined) {
    try {
      return await putInto(bucket, key, source, options, earlier);
    } catch (error) {
      if (!(error instanceof S3Error)) throw error;
      if (!UNFIT.includes(error.code) && !isDamaged(earlier, source, error)) throw error;
      await abortUpload(bucket, { key, id: earlier.id });
    }
  }
  const id = await createUpload(bucket, key);
  return putInto(bucket, key, source, options, { id, parts: new Map() });
}

/**
 * Whether S3 had all parts before this run, so an earlier run failed to complete the upload too: a server may have lost a
 * part, and would refuse every later run. S3 also reports this code with status 200.
 */
const isDamaged = ({ parts }: Earlier, { bytes }: UploadSource, { code }: S3Error): boolean =>
  code === 'InternalError' && parts.size === splitIntoParts(bytes).length;

interface Earlier {
  id: string;
  parts: Map<number, StoredPart>;
}

/** The upload to resume: the newest unfinished one whose checksums are SHA-256 or not reported. Aborts the others. */
async function findEarlier(bucket: Bucket, key: string): Promise<Earlier | undefined> {
  const uploads = await getUploads(bucket, key);
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
  source: UploadSource,
  options: UploadOptions,
  { id, parts: stored }: Earlier,
): Promise<Written> {
  const parts = splitIntoParts(source.bytes);
  const digests: Buffer[] = [];
  const sent: StoredPart[] = [];
  let bytes = 0;
  // Without a condition the object is not asked for.
  let present: Promise<ObjectHead | undefined> | undefined;
  const send = (part: PartRange): Promise<void> =>
    bucket.buffers.lend(part.bytes, async (buffer) => {
      // Beside the last part, so that the completion need not wait for it.
      if (part.number === parts.length && options.condition !== undefined) present = headInBucket(bucket, key);
      present?.catch(() => undefined); // complete() reports the error.
      const body = await source.read(part.start, buffer);
      // S3 verifies them, too.
      const digest = source.digests?.[part.number - 1] ?? sha256(body);
      digests[part.number - 1] = digest;
      const known = sameContent(stored.get(part.number), body, digest);
      sent[part.number - 1] = known ?? (await uploadPart(bucket, key, id, { number: part.number, body, digest }));
      bytes += part.bytes;
      options.onBytes?.(bytes);
    });
  try {
    await forEachLimited(parts, bucket.buffers.parts, send);
    await source.verify();
    const checksum = checksumOfParts(digests);
    refuseOtherContent(bucket, key, checksum, options.checksum);
    return await complete(bucket, key, id, sent, { checksum, condition: options.condition }, present);
  } catch (failure) {
    // S3 refuses a part that no longer has its digest.
    const error: unknown = await source.verify().then(
      () => failure,
      (changed: unknown) => changed,
    );
    // Abort uploads that cannot be resumed. After a network failure the upload stays open for the next run to resume.
    if (error instanceof FileChangedError || error instanceof PreconditionFailedError || isWriteCollision(error))
      await abortUpload(bucket, { key, id });
    // The parts would use up space that other writes need, even the lock. Errors of the abort are ignored, so that the
    // lack of space is reported.
    if (isOutOfRoom(error)) await abortUpload(bucket, { key, id }).catch(() => undefined);
    throw error;
  }
}

/** The stored part, if it has the same content: by SHA-256, or by MD5 on servers that do not store SHA-256. */
function sameContent(stored: StoredPart | undefined, body: Uint8Array, digest: Buffer): StoredPart | undefined {
  if (stored?.bytes !== body.byteLength) return undefined;
  const sha256 = digest.toString('base64');
  const same =
    stored.sha256 === undefined
      ? stored.etag.replaceAll('"', '') === createHash('md5').update(body).digest('hex')
      : stored.sha256 === sha256;
  return same ? { ...stored, sha256 } : undefined;
}

/**
 * Completes the upload. If an answer was lost, checks whether the object was written.
 * @param present the object that the upload replaces, if it was asked for already
 */
export async function complete(
  bucket: Bucket,
  key: string,
  id: string,
  parts: readonly StoredPart[],
  { checksum, condition }: { checksum: string; condition: PutCondition },
  present?: Promise<ObjectHead | undefined>,
): Promise<Written> {
  const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
  const ours = await lookBeforeWriting(bucket, key, bytes, checksum, condition, present);
  if (ours !== undefined) {
    await abortUpload(bucket, { key, id });
    return ours;
  }
  try {
    const known = parts.every(({ sha256 }) => sha256 !== undefined) ? checksum : undefined;
    const { etag, versionId } = await completeUpload(bucket, key, id, parts, { checksum: known, condition });
    return writtenAs(etag, checksum, versionId);
  } catch (error) {
    // The object tells whether the other write met or prevented ours. If neither, a new upload may succeed.
    if (isWriteCollision(error)) {
      const written = await lookBeforeWriting(bucket, key, bytes, checksum, condition);
      if (written === undefined) throw error;
      await abortUpload(bucket, { key, id });
      return written;
    }
    const lost = error instanceof S3Error && error.code === 'NoSuchUpload';
    if (!lost && !isRefused(error, condition)) throw error;
    const written = await acceptOurs(bucket, key, bytes, checksum, error);
    await abortUpload(bucket, { key, id });
    return written;
  }
}

/**
 * Checks the condition itself, because not every server supports conditions on requests other than PUT.
 * @returns the existing object if it already has our content
 * @throws PreconditionFailedError
 */
export async function lookBeforeWriting(
  bucket: Bucket,
  key: string,
  bytes: number,
  checksum: string,
  condition: PutCondition,
  present?: Promise<ObjectHead | undefined>,
): Promise<Written | undefined> {
  if (condition === undefined) return undefined;
  const there = await (present ?? headObject(bucket, key));
  const met = 'ifAbsent' in condition ? there === undefined : there?.etag === condition.ifEtag;
  if (met) return undefined;
  const checked = there?.bytes === bytes ? await checkObject(bucket, key, bytes) : undefined;
  if (checked?.checksum === checksum) return checked;
  throw preconditionFailed(bucket, key);
}

/** Handles a write that was refused or whose answer was lost. Succeeds if the existing object has our content. */
export async function acceptOurs(
  bucket: Bucket,
  key: string,
  bytes: number,
  checksum: string,
  error: S3Error,
): Promise<Written> {
  const there = await checkObject(bucket, key, bytes);
  if (there?.checksum === checksum) return there;
  throw error.code === 'NoSuchUpload' ? error : preconditionFailed(bucket, key, error);
}

function refuseOtherContent(bucket: Bucket, key: string, checksum: string, expected: string | undefined): void {
  if (expected === undefined || expected === checksum) return;
  throw new FileChangedError(
    `cannot write ${getName(bucket, key)}: the content changed after its checksum was computed`,
    {
      hint: WAIT_FOR_WRITER,
    },
  );
}

export function writtenAs(etag: string, checksum: string, versionId: string | undefined): Written {
  return { etag, checksum, versionId };
}
