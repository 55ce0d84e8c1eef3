import { getName, type Bucket } from './bucket';
import type { PartRange } from './checksum';
import { S3Error } from './errors';
import { decodeKey } from './list';
import { conditionHeaders, getVersionId } from './objects';
import { header, quoted, readXml, S3RequestError } from './requester';
import type { PutCondition } from './types';
import { childrenNamed, childText, escapeXml, MalformedXmlError, type XmlElement } from './xml';

/** An unfinished multipart upload. */
export interface OpenUpload {
  key: string;
  id: string;
  /** Undefined if the server does not report it. */
  algorithm: string | undefined;
  initiated: string;
}

/** An uploaded part. */
export interface StoredPart {
  number: number;
  bytes: number;
  etag: string;
  /** Base64; undefined if the server does not store it. */
  sha256: string | undefined;
}

/** Another write of the object was in progress. */
const CONFLICT = 'ConditionalRequestConflict';

/**
 * Runs a multipart upload, and once more from its beginning if its completion collided with another write. Meanwhile
 * `abortUploads` of the store ignores its key.
 */
export async function runMultipart<T>({ uploading }: Bucket, key: string, upload: () => Promise<T>): Promise<T> {
  uploading.push(key);
  try {
    return await upload().catch((error: unknown) => {
      if (!isWriteCollision(error)) throw error;
      return upload();
    });
  } finally {
    uploading.splice(uploading.indexOf(key), 1);
  }
}

export const isWriteCollision = (error: unknown): boolean => error instanceof S3Error && error.code === CONFLICT;

/** Begins a multipart upload and returns its id. */
export async function createUpload(bucket: Bucket, key: string): Promise<string> {
  const { id, tries } = await bucket.requester.send({
    what: `begin the upload of ${getName(bucket, key)}`,
    method: 'POST',
    key,
    query: { uploads: '' },
    headers: { 'x-amz-checksum-algorithm': 'SHA256', 'x-amz-checksum-type': 'COMPOSITE', ...bucket.encryption },
    read: (answer, tries) => ({ id: getId(readXml(answer, 'InitiateMultipartUploadResult')), tries }),
  });
  // A try whose answer was lost may have begun another upload.
  if (tries > 1) await abortOthers(bucket, key, id);
  return id;
}

function getId(root: XmlElement): string {
  const id = childText(root, 'UploadId') ?? '';
  if (id === '') throw new MalformedXmlError('the upload has no id');
  return id;
}

/** Uploads one part. S3 verifies its SHA-256. */
export async function uploadPart(
  bucket: Bucket,
  key: string,
  id: string,
  part: { number: number; body: Uint8Array; digest: Buffer },
): Promise<StoredPart> {
  const sha256 = part.digest.toString('base64');
  return bucket.requester.send({
    what: `write part ${part.number} of ${getName(bucket, key)}`,
    method: 'PUT',
    key,
    query: { partNumber: String(part.number), uploadId: id },
    headers: { 'x-amz-checksum-sha256': sha256 },
    body: part.body,
    bodySha256: part.digest,
    read: ({ headers }) => {
      checkKept(header(headers, 'x-amz-checksum-sha256'), sha256);
      return { number: part.number, bytes: part.body.byteLength, etag: quoted(header(headers, 'etag')), sha256 };
    },
  });
}

/**
 * Copies one part from another object within S3. `source` is the value of x-amz-copy-source.
 * @returns undefined if the server does not report the SHA-256 of this part
 */
export async function copyPart(
  bucket: Bucket,
  key: string,
  id: string,
  part: PartRange & { source: string },
): Promise<(StoredPart & { sha256: string }) | undefined> {
  return bucket.requester.send({
    what: `copy part ${part.number} of ${getName(bucket, key)}`,
    method: 'PUT',
    key,
    query: { partNumber: String(part.number), uploadId: id },
    headers: {
      'x-amz-copy-source': part.source,
      'x-amz-copy-source-range': `bytes=${part.start}-${part.start + part.bytes - 1}`,
    },
    copiedBytes: part.bytes,
    read: (answer) => {
      const root = readXml(answer, 'CopyPartResult');
      const sha256 = childText(root, 'ChecksumSHA256') ?? '';
      // If the source was uploaded in parts, versitygw returns the checksum of the whole source.
      if (sha256 === '' || sha256.includes('-')) return undefined;
      return { number: part.number, bytes: part.bytes, etag: quoted(childText(root, 'ETag')), sha256 };
    },
  });
}

/**
 * Completes an upload.
 * @param checksum of the object; undefined if a part's checksum is unknown
 */
export async function completeUpload(
  bucket: Bucket,
  key: string,
  id: string,
  parts: readonly StoredPart[],
  { checksum, condition }: { checksum: string | undefined; condition: PutCondition },
): Promise<{ etag: string; versionId: string | undefined }> {
  const body = parts.map(
    ({ number, etag, sha256 }) =>
      `<Part><PartNumber>${number}</PartNumber><ETag>${escapeXml(etag)}</ETag>` +
      `${sha256 === undefined ? '' : `<ChecksumSHA256>${sha256}</ChecksumSHA256>`}</Part>`,
  );
  return bucket.requester.send({
    what: `write ${getName(bucket, key)}`,
    method: 'POST',
    key,
    query: { uploadId: id },
    headers: {
      'content-type': 'application/xml',
      'x-amz-mp-object-size': String(parts.reduce((sum, { bytes }) => sum + bytes, 0)),
      ...conditionHeaders(condition),
    },
    body: Buffer.from(
      `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${body.join('')}</CompleteMultipartUpload>`,
    ),
    // After this error, S3 accepts only a new upload.
    finalCode: CONFLICT,
    // Some servers join all bytes before they answer, so allow time for them.
    copiedBytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
    read: (answer) => {
      const root = readXml(answer, 'CompleteMultipartUploadResult');
      if (checksum !== undefined) checkKept(childText(root, 'ChecksumSHA256'), checksum);
      return { etag: quoted(childText(root, 'ETag')), versionId: getVersionId(answer) };
    },
  });
}

/** The uploaded parts of an unfinished upload. */
export async function listParts(bucket: Bucket, { key, id }: { key: string; id: string }): Promise<StoredPart[]> {
  const parts: StoredPart[] = [];
  for (let marker = '0'; ;) {
    const root = await bucket.requester.send({
      what: `list the parts of ${getName(bucket, key)}`,
      method: 'GET',
      key,
      query: { uploadId: id, 'max-parts': '1000', 'part-number-marker': marker },
      read: (answer) => readXml(answer, 'ListPartsResult'),
    });
    for (const part of childrenNamed(root, 'Part')) {
      parts.push({
        number: Number(childText(part, 'PartNumber')),
        bytes: Number(childText(part, 'Size')),
        etag: quoted(childText(part, 'ETag')),
        sha256: emptyToUndefined(childText(part, 'ChecksumSHA256')),
      });
    }
    const next = childText(root, 'NextPartNumberMarker') ?? '';
    if (childText(root, 'IsTruncated') !== 'true' || next === '' || next === marker) return parts;
    marker = next;
  }
}

/** The unfinished uploads whose keys begin with `prefix`. */
async function listUploads(bucket: Bucket, prefix: string): Promise<OpenUpload[]> {
  const uploads: OpenUpload[] = [];
  for (let markers: Record<string, string> = {}; ;) {
    const root: XmlElement = await bucket.requester.send({
      what: `list the unfinished uploads to ${getName(bucket, prefix)}`,
      method: 'GET',
      query: { uploads: '', 'encoding-type': 'url', prefix, ...markers },
      read: (answer) => readXml(answer, 'ListMultipartUploadsResult'),
    });
    const encoded = childText(root, 'EncodingType') === 'url';
    for (const upload of childrenNamed(root, 'Upload')) {
      const key = decodeKey(childText(upload, 'Key') ?? '', encoded);
      const id = childText(upload, 'UploadId') ?? '';
      if (!key.startsWith(prefix) || id === '') continue;
      uploads.push({
        key,
        id,
        algorithm: emptyToUndefined(childText(upload, 'ChecksumAlgorithm')),
        initiated: childText(upload, 'Initiated') ?? '',
      });
    }
    const next = {
      'key-marker': decodeKey(childText(root, 'NextKeyMarker') ?? '', encoded),
      'upload-id-marker': childText(root, 'NextUploadIdMarker') ?? '',
    };
    const same =
      next['key-marker'] === markers['key-marker'] && next['upload-id-marker'] === markers['upload-id-marker'];
    if (childText(root, 'IsTruncated') !== 'true' || next['key-marker'] === '' || same) return uploads;
    markers = next;
  }
}

/** Aborts an upload and deletes its parts. A missing upload is ignored. */
export async function abortUpload(bucket: Bucket, { key, id }: { key: string; id: string }): Promise<void> {
  try {
    await bucket.requester.send({
      what: `abort the unfinished upload of ${getName(bucket, key)}`,
      method: 'DELETE',
      key,
      query: { uploadId: id },
      read: () => undefined,
    });
  } catch (error) {
    if (!(error instanceof S3Error && error.status === 404)) throw error;
  }
}

/** The unfinished uploads of exactly this key. */
export async function getUploads(bucket: Bucket, key: string): Promise<OpenUpload[]> {
  return (await uploadsUnder(bucket, key)).filter((upload) => upload.key === key);
}

/** The unfinished uploads of keys that begin with `prefix`; empty if the server cannot list them. */
export async function uploadsUnder(bucket: Bucket, prefix: string): Promise<OpenUpload[]> {
  try {
    return await listUploads(bucket, prefix);
  } catch (error) {
    if (error instanceof S3Error && (error.status === 501 || error.status === 405)) return [];
    throw error;
  }
}

/** Aborts the unfinished uploads of a key, except `keep`. */
export async function abortOthers(
  bucket: Bucket,
  key: string,
  keep: string | undefined,
  uploads?: readonly { id: string }[],
): Promise<void> {
  for (const { id } of uploads ?? (await getUploads(bucket, key))) {
    if (id !== keep) await abortUpload(bucket, { key, id });
  }
}

/** Some servers write the element without a value. */
function emptyToUndefined(text: string | undefined): string | undefined {
  return text === '' ? undefined : text;
}

/** Verifies the checksum that the server stored, if the server reports one. */
export function checkKept(kept: string | undefined, ours: string): void {
  if (kept === undefined || kept === '' || kept === ours) return;
  throw new S3RequestError({ code: 'BadDigest', text: `S3 stored the checksum ${kept} instead of ${ours}` });
}
