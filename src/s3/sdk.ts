import { setTimeout as sleep } from 'node:timers/promises';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectsCommand,
  GetBucketVersioningCommand,
  ListObjectsV2Command,
  PutBucketVersioningCommand,
  S3Client,
  UploadPartCopyCommand,
  type ListObjectsV2CommandOutput,
} from '@aws-sdk/client-s3';
import { UserError } from '../core/errors';
import type { PartRange } from './checksum';
import { PreconditionFailedError, S3Error } from './errors';
import { getFailure, quoted, S3RequestError, type Requester, type S3Request } from './requester';
import { isTransientCode, waitBefore } from './retry';
import type { Encryption, ListedObject, PutCondition, SeenObject, StoredPart } from './types';

/**
 * The rare requests, with AWS's SDK: it writes their XML and reads the answers. Requester sends them, so that endpoint,
 * sign-in, retries and messages are those of all requests. Loaded on demand, because loading takes 0.1 s.
 */

/** Where a command is sent. */
export interface SdkTarget {
  bucket: string;
  requester: Pick<Requester, 'send' | 'url'>;
}

type Sending = Pick<S3Request<unknown>, 'what' | 'copiedBytes'>;

interface SdkRequest {
  method: string;
  path: string;
  query: Record<string, string | null>;
  headers: Record<string, string>;
  body?: string | Uint8Array;
}

/** Requester replaces it, because only it knows how the bucket is addressed. */
const Bucket = 'b';

// The warning about the version of Node is for those who use the SDK in their own code.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';

const client = new S3Client({
  region: 'us-east-1',
  endpoint: 'http://s3',
  forcePathStyle: true,
  credentials: { accessKeyId: '-', secretAccessKey: '-' },
  maxAttempts: 1,
  // Otherwise they come from the user's environment, which only Requester heeds.
  useFipsEndpoint: false,
  useDualstackEndpoint: false,
  useArnRegion: false,
  disableS3ExpressSessionAuth: true,
  defaultsMode: 'standard',
  retryMode: 'standard',
  requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
  requestHandler: { handle: handle as never },
});

/** Most tries for an answer that the SDK cannot read. */
const MOST_TRIES = 3;

/** The headers that are passed on. Requester adds those of the signature and the connection. */
const PASSED_ON = /^(content-type|if-.*|x-amz-(?!date$|content-sha256$|user-agent$).*)$/;

async function handle(
  { method, path, query, headers, body }: SdkRequest,
  { requester, ...sending }: Sending & Pick<SdkTarget, 'requester'>,
): Promise<unknown> {
  const key = decodeURIComponent(path.replace(/^\/b\/?/, ''));
  const names = Object.keys(headers).filter((name) => PASSED_ON.test(name.toLowerCase()));
  return requester.send({
    ...sending,
    method,
    ...(key === '' ? {} : { key }),
    query: Object.fromEntries(
      Object.entries(query).flatMap(([name, value]) => (name === 'x-id' ? [] : [[name, value ?? '']])),
    ),
    headers: Object.fromEntries(names.map((name) => [name.toLowerCase(), headers[name] as string])),
    body: typeof body === 'string' ? Buffer.from(body) : body,
    read: (answer) => {
      // S3 may send an error with status 200, because it keeps the connection alive while it copies or joins parts.
      if (/^\s*(<\?[^>]*>\s*)?<Error[\s>]/.test(answer.body.toString('latin1', 0, 500)))
        throw new S3RequestError(getFailure(answer));
      return { response: { statusCode: answer.status, headers: answer.headers, body: answer.body } };
    },
  });
}

/**
 * Sends a command and reads its answer. If the SDK or `read` cannot, the command is sent again.
 * @throws S3Error
 */
async function run<O, T>(
  { requester }: SdkTarget,
  sending: Sending,
  command: { resolveMiddleware(...args: never[]): (...args: never[]) => Promise<{ output: O }> },
  read: (output: O) => T,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return read((await client.send(command as never, { requester, ...sending } as never)) as O);
    } catch (error) {
      if (error instanceof UserError) throw error;
      const text = (error as Error).message.split('\n', 1)[0] as string;
      if (tries === MOST_TRIES)
        throw new S3Error(sending.what, requester.url, { code: 'MalformedAnswer', text, cause: error });
    }
  }
}

const ignore = (): void => undefined;

/** Rejects an answer that lacks something. */
function requirePart(isThere: boolean, what: string): asserts isThere {
  if (!isThere) throw new Error(`the answer has no ${what}`);
}

/** Creates the bucket, unless it exists. */
export async function createBucket(at: SdkTarget, region: string): Promise<void> {
  const place = region === 'us-east-1' ? {} : { CreateBucketConfiguration: { LocationConstraint: region as never } };
  try {
    await run(at, { what: `create bucket ${at.bucket}` }, new CreateBucketCommand({ Bucket, ...place }), ignore);
  } catch (error) {
    if (!(error instanceof S3Error && error.code === 'BucketAlreadyOwnedByYou')) throw error;
  }
}

/** Turns on versioning. */
export async function enableVersioning(at: SdkTarget): Promise<void> {
  const command = new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: 'Enabled' } });
  await run(at, { what: `turn on versioning of bucket ${at.bucket}` }, command, ignore);
}

export async function isVersioned(at: SdkTarget): Promise<boolean> {
  const what = `read the versioning of bucket ${at.bucket}`;
  return run(at, { what }, new GetBucketVersioningCommand({ Bucket }), ({ Status }) => Status === 'Enabled');
}

/** Lists every object whose key begins with `prefix`. The listing is complete, or an error is thrown. */
export async function list(at: SdkTarget, prefix: string): Promise<ListedObject[]> {
  const what = `list s3://${at.bucket}/${prefix}`;
  const objects = new Map<string, ListedObject>();
  for (let token: string | undefined; ;) {
    const next = token === undefined ? {} : { ContinuationToken: token };
    const command = new ListObjectsV2Command({ Bucket, Prefix: prefix, EncodingType: 'url', ...next });
    const page = await run(at, { what }, command, (answer) => readPage(answer, prefix));
    for (const object of page.objects) objects.set(object.key, object);
    if (page.token === undefined) return [...objects.values()];
    if (page.token === token)
      throw new S3Error(what, at.requester.url, { code: 'MalformedAnswer', text: 'the same page came twice' });
    token = page.token;
  }
}

function readPage(
  { Contents = [], EncodingType, IsTruncated, KeyCount, NextContinuationToken: token }: ListObjectsV2CommandOutput,
  prefix: string,
): { objects: ListedObject[]; token: string | undefined } {
  const objects = Contents.map(({ Key = '', Size: bytes, ETag, LastModified: modified }) => {
    const key = EncodingType === 'url' ? decodeURIComponent(Key.replaceAll('+', ' ')) : Key;
    if (!key.startsWith(prefix)) throw new Error(`"${key}" does not begin with "${prefix}"`);
    requirePart(Number.isSafeInteger(bytes), `size of "${key}"`);
    requirePart(ETag !== undefined && modified !== undefined, `ETag or time of "${key}"`);
    return { key, bytes: bytes as number, etag: quoted(ETag), modified };
  });
  if (KeyCount !== undefined && KeyCount !== objects.length) throw new Error(`the page should have ${KeyCount} keys`);
  requirePart(IsTruncated === false || (IsTruncated === true && token !== undefined && token !== ''), 'next page');
  return { objects, token: IsTruncated ? token : undefined };
}

/** S3's limit per request. */
const KEYS_AT_A_TIME = 1000;

/** Tries for the objects that S3 did not delete for a transient reason. */
const DELETE_TRIES = 10;

/** Deletes exactly these objects; those with an ETag only if they still have it. Missing objects are ignored. */
export async function deleteObjects(
  at: SdkTarget,
  objects: readonly SeenObject[],
  isMissing: (key: string) => Promise<boolean>,
): Promise<void> {
  const what = `delete from s3://${at.bucket}`;
  for (let i = 0; i < objects.length; i += KEYS_AT_A_TIME) {
    let left = objects.slice(i, i + KEYS_AT_A_TIME);
    for (let tries = 1; left.length > 0; tries += 1) {
      const Objects = left.map(({ key: Key, etag: ETag }) => ({ Key, ...(ETag !== undefined && { ETag }) }));
      const command = new DeleteObjectsCommand({ Bucket, Delete: { Objects }, ChecksumAlgorithm: 'SHA256' });
      const errors = await run(at, { what }, command, ({ Deleted = [], Errors = [] }) => {
        const reported = new Set([...Deleted, ...Errors].map(({ Key }) => Key));
        for (const { key } of left) requirePart(reported.has(key), `report whether "${key}" was deleted`);
        return Errors;
      });
      const refused = errors.filter(({ Code = '' }) => !/^(NoSuchKey|NoSuchVersion|NotFound)$/.test(Code));
      const final =
        refused.find(({ Code = '' }) => !isTransientCode(Code)) ?? (tries === DELETE_TRIES ? refused[0] : undefined);
      // Some servers refuse to delete a missing object because of its ETag.
      const isGone = final?.Code === 'PreconditionFailed' && (await isMissing(final.Key ?? ''));
      if (final !== undefined && !isGone) throw notDeleted(at, final, refused.length - 1);
      left = left.filter(({ key }) => refused.some((entry) => entry.Key === key && !(isGone && entry === final)));
      if (left.length > 0) await sleep(waitBefore(tries));
    }
  }
}

function notDeleted(at: SdkTarget, { Key, Code = '', Message = '' }: Refusal, more: number): UserError {
  const what = `delete s3://${at.bucket}/${Key}${more === 0 ? '' : ` and ${more} more`}`;
  if (Code !== 'PreconditionFailed') return new S3Error(what, at.requester.url, { code: Code, text: Message });
  return new PreconditionFailedError(`cannot ${what}: another program wrote it in the meantime`, {
    hint: 'run the command again; it then starts from the new content of the bucket',
  });
}

interface Refusal {
  Key?: string;
  Code?: string;
  Message?: string;
}

/** A multipart upload. */
export interface Upload extends SdkTarget {
  key: string;
  id: string;
}

/** Begins a multipart upload. */
export async function beginUpload(at: SdkTarget, key: string, encryption: Encryption | undefined): Promise<Upload> {
  const command = new CreateMultipartUploadCommand({
    Bucket,
    Key: key,
    ChecksumAlgorithm: 'SHA256',
    ChecksumType: 'COMPOSITE',
    ...(encryption && { ServerSideEncryption: encryption.algorithm }),
    ...(encryption?.key !== undefined && { SSEKMSKeyId: encryption.key }),
  });
  return run(at, { what: `begin the upload of s3://${at.bucket}/${key}` }, command, ({ UploadId = '' }) => {
    requirePart(UploadId !== '', 'id of the upload');
    return { bucket: at.bucket, requester: at.requester, key, id: UploadId };
  });
}

/**
 * Copies a part from another object within S3. `source` is the value of x-amz-copy-source.
 * @returns undefined if the server does not report the SHA-256 of this part
 */
export async function copyPart(upload: Upload, part: PartRange & { source: string }): Promise<StoredPart | undefined> {
  const { number, start, bytes, source } = part;
  const command = new UploadPartCopyCommand({
    Bucket,
    Key: upload.key,
    UploadId: upload.id,
    PartNumber: number,
    CopySource: source,
    CopySourceRange: `bytes=${start}-${start + bytes - 1}`,
  });
  const what = `copy part ${number} of s3://${upload.bucket}/${upload.key}`;
  return run(
    upload,
    { what, copiedBytes: bytes },
    command,
    ({ CopyPartResult: { ETag, ChecksumSHA256: sha256 = '' } = {} }) =>
      // If the source was uploaded in parts, versitygw returns the checksum of the whole source.
      sha256 === '' || sha256.includes('-') ? undefined : { number, etag: quoted(ETag), sha256 },
  );
}

/** Completes an upload. */
export async function completeUpload(
  upload: Upload,
  parts: readonly StoredPart[],
  { bytes, checksum, condition }: { bytes: number; checksum: string; condition: PutCondition },
): Promise<{ etag: string; versionId: string | undefined }> {
  const Parts = parts.map(({ number, etag, sha256 }) => ({ PartNumber: number, ETag: etag, ChecksumSHA256: sha256 }));
  const command = new CompleteMultipartUploadCommand({
    Bucket,
    Key: upload.key,
    UploadId: upload.id,
    MultipartUpload: { Parts },
    MpuObjectSize: bytes,
    ...(condition && ('ifAbsent' in condition ? { IfNoneMatch: '*' } : { IfMatch: condition.ifEtag })),
  });
  // Some servers join all bytes before they answer, so allow time for them.
  const sending = { what: `write s3://${upload.bucket}/${upload.key}`, copiedBytes: bytes };
  return run(upload, sending, command, ({ ETag, VersionId, ChecksumSHA256 = checksum }) => {
    if (ChecksumSHA256 !== '' && ChecksumSHA256 !== checksum)
      throw new S3Error(sending.what, upload.requester.url, { code: 'BadDigest', text: `S3 stored ${ChecksumSHA256}` });
    return { etag: quoted(ETag), versionId: VersionId };
  });
}

/** Aborts an upload and deletes its parts. A missing upload is ignored. */
export async function abortUpload(upload: Upload): Promise<void> {
  const command = new AbortMultipartUploadCommand({ Bucket, Key: upload.key, UploadId: upload.id });
  try {
    await run(upload, { what: `abort the unfinished upload of s3://${upload.bucket}/${upload.key}` }, command, ignore);
  } catch (error) {
    if (!(error instanceof S3Error && error.status === 404)) throw error;
  }
}
