import type { CompletedPart } from '@aws-sdk/client-s3';
import { escapeUriPath } from '@smithy/core/protocols';
import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { BufferPool } from './buffer-pool';
import { checksumOfParts, PART_BYTES, sha256, splitIntoParts, type PartRange } from './checksum';
import { FileChangedError, PreconditionFailedError, S3Error } from './errors';
import { S3Reader } from './reader';
import { CONCURRENCY, isTransient, quoted, RequestError } from './requester';
import { WAIT_FOR_WRITER, withFile, type UploadSource } from './source';
import type { Send } from './sdk';
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

/** A part that S3 has. */
type StoredPart = Required<Pick<CompletedPart, 'PartNumber' | 'ETag' | 'ChecksumSHA256'>>;

interface PartsSource extends UploadSource {
  /** Has S3 copy a part; undefined if it cannot. */
  copyPart?: (part: PartRange, uploadId: string) => Promise<StoredPart | undefined>;
}

/** S3's limit per request. */
const KEYS_AT_A_TIME = 1000;

/** Parts of an object that are sent at a time, as far as the buffers suffice, or that S3 copies. */
const PARTS_AT_A_TIME = 16;

/**
 * A bucket. Every error is a UserError that names the operation, the object and the endpoint. Transient failures are
 * retried. S3 verifies the SHA-256 of all content that is uploaded.
 */
export class S3Store extends S3Reader {
  private readonly buffers = new BufferPool();

  /** Most requests that callers should have in flight. */
  readonly concurrency = CONCURRENCY;

  /** Sends a rare request with AWS's SDK, which takes 0.1 s to load, so many runs never load it. */
  private async run<T>(what: string, send: Send<T>, answerBytes = 0): Promise<T> {
    const { sendWithSdk } = await import('./sdk');
    return sendWithSdk({ requester: this.requester, what, answerBytes }, send);
  }

  /** Creates the bucket if it does not exist. For local servers, which have one region; in the cloud `pulumi up` creates the bucket. */
  async ensureBucket(): Promise<void> {
    await this.run(`create bucket ${this.bucket}`, (s3, to, options) => s3.createBucket(to, options)).catch(
      (error: unknown) => {
        if (!(error instanceof S3Error && error.code === 'BucketAlreadyOwnedByYou')) throw error;
      },
    );
  }

  /**
   * Lists every object whose key begins with `prefix`. The listing is complete, or an error is thrown. The prefix of a
   * folder ends in a slash.
   */
  async list(prefix: string): Promise<ListedObject[]> {
    const objects = new Map<string, ListedObject>();
    let ContinuationToken: string | undefined;
    do {
      const before = ContinuationToken;
      ContinuationToken = await this.run(`list ${this.name(prefix)}`, async (s3, from, options) => {
        const input = { ...from, Prefix: prefix, EncodingType: 'url', ContinuationToken: before } as const;
        const page = await s3.listObjectsV2(input, options);
        for (const { Key = '', Size: bytes = NaN, ETag } of page.Contents ?? []) {
          const key = page.EncodingType === 'url' ? decodeURIComponent(Key.replaceAll('+', ' ')) : Key;
          if (!key.startsWith(prefix)) throw new Error(`"${key}" does not begin with "${prefix}"`);
          if (!Number.isSafeInteger(bytes) || !ETag) throw new Error(`the answer has no size or ETag of "${key}"`);
          objects.set(key, { key, bytes, etag: quoted(ETag) });
        }
        if (page.IsTruncated === false) return undefined;
        const { NextContinuationToken: next } = page;
        if (!page.IsTruncated || !next || next === before) throw new Error('the answer names no next page');
        return next;
      });
    } while (ContinuationToken !== undefined);
    return [...objects.values()];
  }

  /**
   * Deletes exactly these objects; those with an ETag only if they still have it. Missing objects are ignored.
   * @throws PreconditionFailedError
   */
  async delete(objects: readonly { key: string; etag?: string | undefined }[]): Promise<void> {
    for (let i = 0; i < objects.length; i += KEYS_AT_A_TIME) {
      const Objects = objects.slice(i, i + KEYS_AT_A_TIME).map(({ key, etag }) => ({ Key: key, ETag: etag }));
      const changed = await this.run(`delete from s3://${this.bucket}`, async (s3, from, options) => {
        const input = { ...from, Delete: { Objects }, ChecksumAlgorithm: 'SHA256' } as const;
        const { Deleted = [], Errors = [] } = await s3.deleteObjects(input, options);
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
    const read = (start: number, { byteLength }: Buffer) => Promise.resolve(body.subarray(start, start + byteLength));
    return this.putParts(key, { bytes: body.byteLength, read }, { condition });
  }

  /**
   * Writes a file, a large one in parts.
   * @throws PreconditionFailedError, FileChangedError
   */
  async putFile(key: string, file: { path: string; bytes: number }, options: UploadOptions = {}): Promise<Written> {
    return withFile(file.path, file.bytes, (source) => this.put(key, source, options));
  }

  private async put(key: string, source: PartsSource, options: UploadOptions): Promise<Written> {
    if (source.bytes > PART_BYTES) return this.putParts(key, source, options);
    return this.buffers.lend(source.bytes, async (buffer) => {
      const body = await source.read(0, buffer);
      await source.verify?.();
      return this.putObject(key, body, options);
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
      const written = await this.send(key, `write ${this.name(key)}`, body, digest, { headers });
      onBytes?.(body.byteLength);
      return { ...written, checksum };
    } catch (error) {
      return this.acceptOurs(key, body.byteLength, checksum, condition, error);
    }
  }

  private send(
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

  /** Writes an object in parts, each of which S3 verifies. If this fails, no part stays. */
  private async putParts(key: string, source: PartsSource, options: UploadOptions): Promise<Written> {
    const { bytes, read, copyPart, digests, verify } = source;
    const { condition } = options;
    const what = `write ${this.name(key)}`;
    const { algorithm: ServerSideEncryption, key: SSEKMSKeyId } = this.options.encryption ?? {};
    const content = { ChecksumAlgorithm: 'SHA256', ChecksumType: 'COMPOSITE' } as const;
    const UploadId = await this.run(what, async (s3, to, sending) => {
      const input = { ...to, Key: key, ...content, ServerSideEncryption, SSEKMSKeyId };
      const { UploadId: id } = await s3.createMultipartUpload(input, sending);
      if (!id) throw new Error('the answer has no id of the upload');
      return id;
    });
    const sendPart = ({ number, start, bytes: length }: PartRange): Promise<StoredPart> =>
      this.buffers.lend(length, async (buffer) => {
        const body = await read(start, buffer);
        const digest = digests?.[number - 1] ?? sha256(body);
        const query = { partNumber: String(number), uploadId: UploadId };
        const { etag } = await this.send(key, `write part ${number} of ${this.name(key)}`, body, digest, { query });
        return { PartNumber: number, ETag: etag, ChecksumSHA256: digest.toString('base64') };
      });
    const Parts: StoredPart[] = [];
    let sent = 0;
    let checksum = '';
    try {
      await forEachLimited(splitIntoParts(bytes), PARTS_AT_A_TIME, async (part) => {
        Parts[part.number - 1] = (await copyPart?.(part, UploadId)) ?? (await sendPart(part));
        options.onBytes?.((sent += part.bytes));
      });
      await verify?.();
      checksum = checksumOfParts(Parts.map((part) => Buffer.from(part.ChecksumSHA256, 'base64')));
      this.requireContent(key, checksum, options);
      // Not every server supports conditions on requests other than PUT.
      await this.requireCondition(key, condition);
      const met = condition && ('ifAbsent' in condition ? { IfNoneMatch: '*' } : { IfMatch: condition.ifEtag });
      const complete: Send<Written> = async (s3, to, sending) => {
        const input = { ...to, Key: key, UploadId, MultipartUpload: { Parts }, MpuObjectSize: bytes, ...met };
        const { ETag, ChecksumSHA256 } = await s3.completeMultipartUpload(input, sending);
        requireStored(ChecksumSHA256, checksum);
        return { etag: quoted(ETag), checksum };
      };
      // Some servers join all bytes before they answer, so allow time for them.
      return await this.run(what, complete, bytes);
    } catch (failure) {
      // Errors of the abort are ignored, so that the cause is reported. The bucket's lifecycle deletes what remains.
      await this.run(what, (s3, to, sending) => s3.abortMultipartUpload({ ...to, Key: key, UploadId }, sending)).catch(
        () => undefined,
      );
      // S3 refuses a part that no longer has its digest.
      await verify?.();
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
   * cannot, this process downloads and uploads them, as it does with a small one.
   * @throws UserError if the content does not have the expected checksum
   */
  async copy(
    { store = this, key: from }: StoredObject,
    key: string,
    options: UploadOptions & { bytes: number; checksum: string },
  ): Promise<Written> {
    let canCopy = store.options.endpointUrl === this.options.endpointUrl;
    const copyPart = async ({ number, start, bytes }: PartRange, UploadId: string): Promise<StoredPart | undefined> => {
      if (!canCopy) return undefined;
      const source = {
        CopySource: escapeUriPath(`${store.bucket}/${from}`),
        CopySourceRange: `bytes=${start}-${start + bytes - 1}`,
      };
      const copied: Send<StoredPart | undefined> = async (s3, to, sending) => {
        const input = { ...to, Key: key, UploadId, PartNumber: number, ...source };
        const answer = await s3.uploadPartCopy(input, sending);
        const { ETag, ChecksumSHA256 = '' } = answer.CopyPartResult ?? {};
        // Without a SHA-256 of the part; if the source was uploaded in parts, versitygw returns that of the whole source.
        if (ChecksumSHA256 === '' || ChecksumSHA256.includes('-')) return undefined;
        return { PartNumber: number, ETag: quoted(ETag), ChecksumSHA256 };
      };
      const part = await this.run(`copy part ${number} of ${this.name(key)}`, copied, bytes).catch((error: unknown) => {
        // Our credentials may also lack access to the source; those of the other store may have it.
        if (error instanceof S3Error && (error.code === 'NotImplemented' || error.status === 403)) return undefined;
        throw error;
      });
      if (part === undefined) canCopy = false;
      return part;
    };
    const read = (start: number, buffer: Buffer): Promise<Buffer> => store.readRange(from, start, buffer);
    try {
      return await this.put(key, { bytes: options.bytes, read, copyPart }, options);
    } catch (error) {
      if (!(error instanceof FileChangedError)) throw error;
      throw new UserError(`cannot copy ${store.name(from)}: its content does not match its recorded checksum`, {
        hint: 'publish the model again from its files',
      });
    }
  }
}

function requireStored(stored: string | undefined, checksum: string): void {
  if (stored === undefined || stored === '' || stored === checksum) return;
  throw new RequestError({ code: 'BadDigest', status: 200, text: `S3 stored the checksum ${stored}` });
}
