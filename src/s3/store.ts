import type { CompleteMultipartUploadOutput } from '@aws-sdk/client-s3';
import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { BufferPool } from './buffer-pool';
import { checksumOfParts, PART_BYTES, sha256, splitIntoParts, type PartRange } from './checksum';
import { encodeKey } from './endpoint';
import { FileChangedError, PreconditionFailedError, S3Error } from './errors';
import { S3Reader } from './reader';
import { CONCURRENCY, isTransient, quoted, RequestError } from './requester';
import { WAIT_FOR_WRITER, withFile, type UploadSource } from './source';
import type { Run } from './sdk';
import type { ListedObject, PutCondition, UploadOptions, Written } from './types';

export { checksumOfBytes, PART_BYTES } from './checksum';
export { FileChangedError, PreconditionFailedError, S3Error } from './errors';
export { checksumOfFile } from './source';
export type * from './types';

/** Location of an object, in this bucket or in that of another store. */
export interface StoredObject {
  /** May belong to another server or account. Default: the store that copies. */
  store?: S3Store;
  /** The full key. */
  key: string;
}

/** The content that a copy must have. */
export interface CopyOptions extends UploadOptions {
  bytes: number;
  checksum: string;
}

/** A part that S3 has. */
interface StoredPart {
  PartNumber: number;
  ETag: string;
  /** Base64. */
  ChecksumSHA256: string;
}

interface PartsToSend {
  bytes: number;
  /** Parts that are sent at a time. */
  atATime: number;
  send: (part: PartRange, uploadId: string) => Promise<StoredPart>;
  /** @throws FileChangedError if what was sent may have changed meanwhile */
  verify?: () => Promise<void>;
}

/** S3's limit per request. */
const KEYS_AT_A_TIME = 1000;

/** Parts that S3 copies at a time. */
const COPIES_AT_A_TIME = 16;

/** Parts that this process uploads at a time, of each object. */
const UPLOADS_AT_A_TIME = 8;

const ignore = (): void => undefined;

/**
 * A bucket. Every error is a UserError that names the operation, the object and the endpoint. Transient failures are
 * retried. S3 verifies the SHA-256 of all content that is uploaded.
 */
export class S3Store extends S3Reader {
  private readonly buffers = new BufferPool();

  /** Most requests that callers should have in flight. */
  readonly concurrency = CONCURRENCY;

  /** Sends a rare request with AWS's SDK, which takes 0.1 s to load, so many runs never load it. */
  private readonly run: Run = async (...request) => (await import('./sdk')).runWith(this.requester)(...request);

  /** Creates the bucket if it does not exist. For local servers; in the cloud `pulumi up` creates the bucket. */
  async ensureBucket(): Promise<void> {
    const { region: LocationConstraint = 'us-east-1' } = this.options;
    const elsewhere = { CreateBucketConfiguration: { LocationConstraint: LocationConstraint as never } };
    const input = LocationConstraint === 'us-east-1' ? {} : elsewhere;
    await this.run(`create bucket ${this.bucket}`, 'CreateBucket', input, ignore).catch((error: unknown) => {
      if (!(error instanceof S3Error && error.code === 'BucketAlreadyOwnedByYou')) throw error;
    });
  }

  /**
   * Lists every object whose key begins with `prefix`. The listing is complete, or an error is thrown. The prefix of a
   * folder ends in a slash.
   */
  async list(prefix: string): Promise<ListedObject[]> {
    const objects = new Map<string, ListedObject>();
    for (let ContinuationToken: string | undefined; ;) {
      const before = ContinuationToken;
      const input = { Prefix: prefix, EncodingType: 'url', ContinuationToken } as const;
      ContinuationToken = await this.run(`list ${this.name(prefix)}`, 'ListObjectsV2', input, (page) => {
        const { Contents = [], IsTruncated, KeyCount = Contents.length, NextContinuationToken: next } = page;
        for (const { Key = '', Size: bytes = NaN, ETag, LastModified: modified } of Contents) {
          const key = page.EncodingType === 'url' ? decodeURIComponent(Key.replaceAll('+', ' ')) : Key;
          if (!key.startsWith(prefix)) throw new Error(`"${key}" does not begin with "${prefix}"`);
          if (!Number.isSafeInteger(bytes) || ETag === undefined || modified === undefined)
            throw new Error(`the answer has no size, ETag or time of "${key}"`);
          objects.set(key, { key, bytes, etag: quoted(ETag), modified });
        }
        if (KeyCount !== Contents.length) throw new Error(`the page should have ${KeyCount} keys`);
        if (IsTruncated === undefined || (IsTruncated && !next)) throw new Error('the answer names no next page');
        if (IsTruncated && next === before) throw new Error('the same page came twice');
        return IsTruncated ? next : undefined;
      });
      if (ContinuationToken === undefined) return [...objects.values()];
    }
  }

  /**
   * Deletes exactly these objects; those with an ETag only if they still have it. Missing objects are ignored.
   * @throws PreconditionFailedError
   */
  async delete(objects: readonly { key: string; etag?: string | undefined }[]): Promise<void> {
    for (let i = 0; i < objects.length; i += KEYS_AT_A_TIME) {
      const Objects = objects.slice(i, i + KEYS_AT_A_TIME).map(({ key, etag }) => ({ Key: key, ETag: etag }));
      const input = { Delete: { Objects }, ChecksumAlgorithm: 'SHA256' } as const;
      const what = `delete from s3://${this.bucket}`;
      const changed = await this.run(what, 'DeleteObjects', input, ({ Deleted = [], Errors = [] }) => {
        const reported = new Set([...Deleted, ...Errors].map(({ Key }) => Key));
        const missing = Objects.find(({ Key }) => !reported.has(Key));
        if (missing !== undefined) throw new Error(`the answer does not report whether "${missing.Key}" was deleted`);
        const refused = Errors.filter(({ Code = '' }) => !/^(NoSuchKey|NoSuchVersion|NotFound)$/.test(Code));
        const other = refused.find(({ Code }) => Code !== 'PreconditionFailed');
        if (other === undefined) return refused;
        const details = { code: other.Code ?? '', status: 200, text: other.Message ?? '' };
        // All are sent again, because those that were deleted are ignored.
        if (isTransient(details, true)) throw new RequestError(details);
        throw new S3Error(`delete ${this.name(other.Key ?? '')}`, this.url, details);
      });
      for (const { Key = '' } of changed) {
        // Some servers refuse to delete a missing object because of its ETag.
        if ((await this.head(Key)) === undefined) continue;
        throw new PreconditionFailedError(`cannot delete ${this.name(Key)}: another program wrote it in the meantime`, {
          hint: 'run the command again; it then starts from the new content of the bucket',
        });
      }
    }
  }

  /**
   * The object's checksum as checksumOfBytes computes it. Uses the checksum that S3 stores if the object was uploaded
   * in the same number of parts; otherwise reads the bytes. If the object's size is not `bytes`, returns a text that
   * equals no checksum.
   * @returns undefined if the object does not exist
   */
  async checksum(key: string, bytes: number): Promise<string | undefined> {
    return (await this.lookUp(key, bytes))?.checksum;
  }

  private async lookUp(key: string, bytes: number): Promise<Written | undefined> {
    const head = await this.head(key);
    if (head === undefined) return undefined;
    const { sha256: stored = '', ...found } = head;
    // The content differs, so its bytes are not read.
    if (head.bytes !== bytes) return { ...found, checksum: `${head.bytes} bytes` };
    const parts = splitIntoParts(bytes).length;
    if (stored !== '' && stored.split('-')[1] === (parts === 1 ? undefined : String(parts)))
      return { ...found, checksum: stored };
    const digests: Buffer[] = bytes === 0 ? [sha256(Buffer.alloc(0))] : [];
    for await (const part of this.read(key)) digests.push(sha256(part));
    return { ...found, checksum: checksumOfParts(digests) };
  }

  /**
   * Writes bytes, which must not change until the promise settles.
   * @throws PreconditionFailedError
   */
  async putBytes(key: string, body: Uint8Array, condition?: PutCondition): Promise<Written> {
    if (body.byteLength <= PART_BYTES) return this.putObject(key, body, { condition });
    const read = (start: number, { byteLength }: Buffer): Promise<Uint8Array> =>
      Promise.resolve(body.subarray(start, start + byteLength));
    return this.putParts(key, { bytes: body.byteLength, read }, { condition });
  }

  /**
   * Writes a file, a large one in parts.
   * @throws PreconditionFailedError, FileChangedError
   */
  async putFile(key: string, file: { path: string; bytes: number }, options: UploadOptions = {}): Promise<Written> {
    const { path, bytes } = file;
    return withFile(path, bytes, async (source) => {
      if (bytes > PART_BYTES) return this.putParts(key, source, options);
      return this.buffers.lend(bytes, async (buffer) => {
        const body = await source.read(0, buffer);
        await source.verify?.();
        return this.putObject(key, body, options);
      });
    });
  }

  /** Writes an object that fits into one request. */
  private async putObject(key: string, body: Uint8Array, options: UploadOptions): Promise<Written> {
    const { condition, onBytes } = options;
    const digest = sha256(body);
    const checksum = digest.toString('base64');
    this.requireContent(key, checksum, options);
    const { algorithm, key: kmsKey } = this.options.encryption ?? {};
    const headers = {
      ...(algorithm && { 'x-amz-server-side-encryption': algorithm }),
      ...(kmsKey && { 'x-amz-server-side-encryption-aws-kms-key-id': kmsKey }),
      ...(condition && ('ifAbsent' in condition ? { 'if-none-match': '*' } : { 'if-match': condition.ifEtag })),
    };
    try {
      const written = await this.put(key, `write ${this.name(key)}`, body, digest, { headers });
      onBytes?.(body.byteLength);
      return { ...written, checksum };
    } catch (error) {
      return this.acceptOurs(key, body.byteLength, checksum, condition, error);
    }
  }

  private put(
    key: string,
    what: string,
    body: Uint8Array,
    digest: Buffer,
    { headers = {}, query = {} }: { headers?: Record<string, string>; query?: Record<string, string> },
  ): Promise<{ etag: string }> {
    const checksum = digest.toString('base64');
    return this.requester.send({
      ...{ what, method: 'PUT', key, query, body, bodySha256: digest },
      headers: { 'x-amz-checksum-sha256': checksum, ...headers },
      read: ({ headers: answer }) => {
        requireStored(answer['x-amz-checksum-sha256'], checksum);
        return { etag: quoted(answer['etag']) };
      },
    });
  }

  /** Writes an object in parts, each of which S3 verifies. */
  private putParts(key: string, source: UploadSource, options: UploadOptions): Promise<Written> {
    const send = ({ number, start, bytes }: PartRange, uploadId: string): Promise<StoredPart> =>
      this.buffers.lend(bytes, async (buffer) => {
        const body = await source.read(start, buffer);
        const digest = source.digests?.[number - 1] ?? sha256(body);
        const query = { partNumber: String(number), uploadId };
        const { etag } = await this.put(key, `write part ${number} of ${this.name(key)}`, body, digest, { query });
        return { PartNumber: number, ETag: etag, ChecksumSHA256: digest.toString('base64') };
      });
    return this.multipart(key, { ...source, send, atATime: UPLOADS_AT_A_TIME }, options);
  }

  /** Runs a multipart upload; aborts it if it fails. */
  private async multipart(
    key: string,
    { bytes, atATime, send, verify = () => Promise.resolve() }: PartsToSend,
    options: UploadOptions,
  ): Promise<Written> {
    const what = `write ${this.name(key)}`;
    const { algorithm: ServerSideEncryption, key: SSEKMSKeyId } = this.options.encryption ?? {};
    const content = { ChecksumAlgorithm: 'SHA256', ChecksumType: 'COMPOSITE' } as const;
    const begin = { Key: key, ...content, ServerSideEncryption, SSEKMSKeyId };
    const UploadId = await this.run(what, 'CreateMultipartUpload', begin, ({ UploadId: id }) => {
      if (!id) throw new Error('the answer has no id of the upload');
      return id;
    });
    const Parts: StoredPart[] = [];
    let sent = 0;
    let checksum = '';
    const { condition } = options;
    try {
      await forEachLimited(splitIntoParts(bytes), atATime, async (part) => {
        Parts[part.number - 1] = await send(part, UploadId);
        options.onBytes?.((sent += part.bytes));
      });
      await verify();
      checksum = checksumOfParts(Parts.map((part) => Buffer.from(part.ChecksumSHA256, 'base64')));
      this.requireContent(key, checksum, options);
      // Not every server supports conditions on requests other than PUT.
      await this.requireCondition(key, condition);
      const content = { Key: key, UploadId, MultipartUpload: { Parts }, MpuObjectSize: bytes };
      const met = condition && ('ifAbsent' in condition ? { IfNoneMatch: '*' } : { IfMatch: condition.ifEtag });
      const read = ({ ETag, ChecksumSHA256: stored }: CompleteMultipartUploadOutput): Written => {
        requireStored(stored, checksum);
        return { etag: quoted(ETag), checksum };
      };
      // Some servers join all bytes before they answer, so allow time for them.
      return await this.run(what, 'CompleteMultipartUpload', { ...content, ...met }, read, bytes);
    } catch (failure) {
      // Errors of the abort are ignored, so that the cause is reported. The bucket's lifecycle deletes what remains.
      await this.run(what, 'AbortMultipartUpload', { Key: key, UploadId }, ignore).catch(ignore);
      // S3 refuses a part that no longer has its digest.
      await verify();
      return this.acceptOurs(key, bytes, checksum, condition, failure);
    }
  }

  /** @throws S3Error */
  private async requireCondition(key: string, condition: PutCondition): Promise<void> {
    const present = condition === undefined ? undefined : await this.head(key);
    if (condition === undefined || ('ifAbsent' in condition ? !present : present?.etag === condition.ifEtag)) return;
    throw new S3Error(`write ${this.name(key)}`, this.url, { code: 'PreconditionFailed', status: 412 });
  }

  /**
   * Handles the failure of a write. If it was refused, perhaps because an earlier try had succeeded whose answer was lost,
   * it counts as successful if the present object has our content.
   */
  private async acceptOurs(
    key: string,
    bytes: number,
    checksum: string,
    condition: PutCondition,
    failure: unknown,
  ): Promise<Written> {
    const { status, code = '' } = failure instanceof S3Error ? failure : {};
    const isLost = code === 'NoSuchUpload';
    const isGone = code === 'NoSuchKey' && condition !== undefined && 'ifEtag' in condition;
    const isRefused = condition !== undefined && (status === 412 || code === 'ConditionalRequestConflict');
    if (!isLost && !isGone && !isRefused) throw failure;
    const found = await this.lookUp(key, bytes);
    if (found?.checksum === checksum) return found;
    if (isLost) throw failure;
    throw new PreconditionFailedError(`cannot write ${this.name(key)}: another program wrote it in the meantime`, {
      hint: 'check its present content, then run the command again',
      cause: failure,
    });
  }

  private requireContent(key: string, checksum: string, { checksum: expected = checksum }: UploadOptions): void {
    if (expected === checksum) return;
    throw new FileChangedError(`cannot write ${this.name(key)}: the content changed after its checksum was computed`, {
      hint: WAIT_FOR_WRITER,
    });
  }

  /**
   * Copies an object whose content must have the checksum in `options`. S3 copies the parts of a large object; if it
   * cannot, this process downloads and uploads the object, as it does with a small one.
   * @throws UserError if the content does not have the expected checksum
   */
  async copy({ store = this, key: from }: StoredObject, key: string, options: CopyOptions): Promise<Written> {
    const { bytes, checksum, condition } = options;
    try {
      await this.requireCondition(key, condition);
      if (bytes <= PART_BYTES) {
        const got = await store.get(from, { bytes });
        if (got === undefined) throw new S3Error(`copy ${store.name(from)}`, store.url, { code: 'NoSuchKey' });
        return await this.putObject(key, got.body, options);
      }
      const copied = await this.copyParts(store, from, key, options);
      if (copied !== undefined) return copied;
      const read = (start: number, buffer: Buffer): Promise<Buffer> => store.readRange(from, start, buffer);
      return await this.putParts(key, { bytes, read }, options);
    } catch (error) {
      if (!(error instanceof FileChangedError)) return this.acceptOurs(key, bytes, checksum, condition, error);
      throw new UserError(`cannot copy ${store.name(from)}: its content does not match its recorded checksum`, {
        hint: 'publish the model again from its files',
      });
    }
  }

  /** @returns undefined if S3 cannot copy the object, or reports no SHA-256 of its parts */
  private async copyParts(
    store: S3Store,
    from: string,
    key: string,
    options: CopyOptions,
  ): Promise<Written | undefined> {
    if (store.options.endpointUrl !== this.options.endpointUrl) return undefined;
    const CopySource = encodeKey(`${store.bucket}/${from}`);
    const send = async ({ number: PartNumber, start, bytes }: PartRange, UploadId: string): Promise<StoredPart> => {
      const CopySourceRange = `bytes=${start}-${start + bytes - 1}`;
      const input = { Key: key, UploadId, PartNumber, CopySource, CopySourceRange };
      const what = `copy part ${PartNumber} of ${this.name(key)}`;
      const result = await this.run(what, 'UploadPartCopy', input, (answer) => answer.CopyPartResult, bytes);
      const { ETag, ChecksumSHA256 = '' } = result ?? {};
      // If the source was uploaded in parts, versitygw returns the checksum of the whole source.
      if (ChecksumSHA256 !== '' && !ChecksumSHA256.includes('-'))
        return { PartNumber, ETag: quoted(ETag), ChecksumSHA256 };
      throw new S3Error(what, this.url, { code: 'NotImplemented', text: 'the answer has no SHA-256 of the part' });
    };
    try {
      return await this.multipart(key, { bytes: options.bytes, send, atATime: COPIES_AT_A_TIME }, options);
    } catch (error) {
      // Our credentials may also lack access to the source; those of the other store may have it.
      if (error instanceof S3Error && (error.code === 'NotImplemented' || error.status === 403)) return undefined;
      throw error;
    }
  }
}

function requireStored(stored: string | undefined, checksum: string): void {
  if (stored === undefined || stored === '' || stored === checksum) return;
  throw new RequestError({ code: 'BadDigest', status: 200, text: `S3 stored the checksum ${stored}` });
}
