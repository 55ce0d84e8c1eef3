import { UserError } from '../core/errors';
import { forEachLimited } from '../core/concurrency';
import { getName, type Bucket } from './bucket';
import { checksumOfParts, PART_BYTES, splitIntoParts, sha256, type PartRange } from './checksum';
import { FileChangedError, S3Error } from './errors';
import { encodeKey, encodeText } from './endpoint';
import { abortUpload, runMultipart, copyPart, createUpload, type StoredPart } from './multipart';
import { checkObject, conditionHeaders, getObject, headObject, isRefused, getVersionId, readRange } from './objects';
import { quoted, readXml } from './requester';
import type { UploadSource } from './source';
import type { Written } from './types';
import { acceptOurs, complete, lookBeforeWriting, putObject, putParts, writtenAs, type UploadOptions } from './upload';
import { childText } from './xml';

/** The object to copy. */
export interface CopySource {
  bucket: Bucket;
  key: string;
  versionId?: string;
}

export interface CopyOptions extends UploadOptions {
  bytes: number;
  checksum: string;
}

/** Parts that S3 copies at a time. */
const PARTS_AT_A_TIME = 16;

/**
 * Copies an object within S3, in the same parts as an upload would have.
 * @throws UserError if the copy does not have the expected checksum; the copy is then removed
 */
export async function copyObject(
  bucket: Bucket,
  source: CopySource,
  key: string,
  options: CopyOptions,
): Promise<Written> {
  const { bytes, checksum, condition } = options;
  // Not every server supports conditions on copies, so check the condition first.
  const ours = await lookBeforeWriting(bucket, key, bytes, checksum, condition);
  if (ours !== undefined) return ours;
  if (bytes <= PART_BYTES) return copyWhole(bucket, source, key, options);
  return runMultipart(bucket, key, () => copyInParts(bucket, source, key, options));
}

async function copyWhole(bucket: Bucket, source: CopySource, key: string, options: CopyOptions): Promise<Written> {
  const { bytes, checksum, condition } = options;
  try {
    const { written, kept } = await bucket.requester.send({
      what: `copy ${getText(source)} to ${getName(bucket, key)}`,
      method: 'PUT',
      key,
      headers: {
        'x-amz-copy-source': getHeader(source),
        'x-amz-checksum-algorithm': 'SHA256',
        ...bucket.encryption,
        ...conditionHeaders(condition),
      },
      copiedBytes: bytes,
      read: (answer) => {
        const root = readXml(answer, 'CopyObjectResult');
        return {
          written: writtenAs(quoted(childText(root, 'ETag')), checksum, getVersionId(answer)),
          kept: childText(root, 'ChecksumSHA256') ?? '',
        };
      },
    });
    if (kept === checksum) return written;
    if ((await checkObject(bucket, key, bytes))?.checksum === checksum) return written;
    await removeWrong(bucket, key, written);
    throw otherContent(source);
  } catch (error) {
    // AWS copies nothing to keys for which a policy requires conditions.
    if (error instanceof S3Error && error.status === 501) return copyThroughHere(bucket, source, key, options);
    if (!isRefused(error, condition, true)) throw error;
    return acceptOurs(bucket, key, bytes, checksum, error);
  }
}

async function copyInParts(bucket: Bucket, source: CopySource, key: string, options: CopyOptions): Promise<Written> {
  const { checksum, condition } = options;
  const id = await createUpload(bucket, key);
  try {
    const parts = await copyParts(bucket, source, key, id, options);
    if (parts !== undefined) {
      const found = checksumOfParts(parts.map(({ sha256 }) => Buffer.from(sha256, 'base64')));
      if (found !== checksum) throw otherContent(source);
      return await complete(bucket, key, id, parts, { checksum, condition });
    }
  } catch (error) {
    // Unfinished copies are never resumed, so delete the copied parts.
    await abortUpload(bucket, { key, id }).catch(() => undefined);
    throw error;
  }
  await abortUpload(bucket, { key, id });
  return copyThroughHere(bucket, source, key, options);
}

type CopiedPart = StoredPart & { sha256: string };

/** @returns undefined if the server cannot copy parts or does not report their SHA-256 */
async function copyParts(
  bucket: Bucket,
  source: CopySource,
  key: string,
  id: string,
  { bytes, onBytes }: CopyOptions,
): Promise<CopiedPart[] | undefined> {
  let done = 0;
  const copy = async (part: PartRange): Promise<CopiedPart | undefined> => {
    const copied = await copyPart(bucket, key, id, { ...part, source: getHeader(source) });
    if (copied !== undefined) onBytes?.((done += part.bytes));
    return copied;
  };
  const [first, ...others] = splitIntoParts(bytes) as [PartRange, ...PartRange[]];
  const copied: (CopiedPart | undefined)[] = [];
  try {
    copied.push(await copy(first));
  } catch (error) {
    if (error instanceof S3Error && error.status === 501) return undefined;
    throw error;
  }
  if (copied[0] === undefined) return undefined;
  await forEachLimited(others, PARTS_AT_A_TIME, async (part) => {
    copied[part.number - 1] = await copy(part);
  });
  const parts = copied.filter((part) => part !== undefined);
  return parts.length === copied.length ? parts : undefined;
}

/**
 * Downloads the object and uploads it again, in the parts of an ordinary upload. Used if S3 itself cannot copy, because
 * the server lacks the operation or the two buckets belong to different servers or accounts.
 * @throws UserError if the content does not have the expected checksum
 */
export async function copyThroughHere(
  bucket: Bucket,
  source: CopySource,
  key: string,
  options: CopyOptions,
): Promise<Written> {
  const { bytes, checksum } = options;
  const { bucket: from, versionId } = source;
  if (bytes <= PART_BYTES) {
    const got = await getObject(from, source.key, { bytes, versionId });
    if (got === undefined || sha256(got.body).toString('base64') !== checksum) throw otherContent(source);
    return putObject(bucket, key, got.body, options);
  }
  const pieces: UploadSource = {
    bytes,
    read: async (start, buffer) => {
      const count = await readRange(from, source.key, start, buffer, { versionId });
      if (count !== buffer.byteLength) throw otherContent(source);
      return buffer;
    },
    verify: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  try {
    return await putParts(bucket, key, pieces, options);
  } catch (error) {
    throw error instanceof FileChangedError ? otherContent(source) : error;
  }
}

/**
 * Deletes the copy that was just written, unless another writer has overwritten it. A publisher for agents may not delete
 * versions; then the copy stays, and no release names it.
 */
async function removeWrong(bucket: Bucket, key: string, { etag, versionId }: Written): Promise<void> {
  // Not every server supports conditions on deletes, so check the ETag first.
  if ((await headObject(bucket, key))?.etag !== etag) return;
  try {
    await bucket.requester.send({
      what: `delete ${getName(bucket, key)}`,
      method: 'DELETE',
      key,
      query: versionId === undefined ? undefined : { versionId },
      headers: versionId === undefined ? { 'if-match': etag } : {},
      read: () => undefined,
    });
  } catch (error) {
    const isForbidden = error instanceof S3Error && error.status === 403;
    if (!isForbidden && !isRefused(error, { ifEtag: etag })) throw error;
  }
}

function otherContent(source: CopySource): UserError {
  return new UserError(`cannot copy ${getText(source)}: its content does not match its recorded checksum`, {
    hint: 'publish the model again from its files',
  });
}

const getText = ({ bucket, key }: CopySource): string => getName(bucket, key);

function getHeader({ bucket, key, versionId }: CopySource): string {
  return `${encodeText(bucket.name)}/${encodeKey(key)}${versionId === undefined ? '' : `?versionId=${encodeText(versionId)}`}`;
}
