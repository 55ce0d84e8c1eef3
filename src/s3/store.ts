import { forEachLimited } from '../core/concurrency';
import { UserError } from '../core/errors';
import { BufferPool } from './buffer-pool';
import { checksumOfParts, PART_BYTES, sha256, splitIntoParts, type PartRange } from './checksum';
import { encodeKey, encodeText } from './endpoint';
import { FileChangedError, PreconditionFailedError, S3Error } from './errors';
import { getVersionId, S3Reader, type ObjectHead } from './reader';
import { checkStored, CONCURRENCY, quoted } from './requester';
import type { Upload } from './sdk';
import { memorySource, WAIT_FOR_WRITER, withFile, type UploadSource } from './source';
import type { Encryption, ListedObject, PutCondition, SeenObject, StoredPart, UploadOptions, Written } from './types';

export { checksumOfBytes, PART_BYTES } from './checksum';
export { FileChangedError, PreconditionFailedError, S3Error } from './errors';
export { checksumOfFile } from './source';
export type {
  Credentials,
  Encryption,
  ListedObject,
  PutCondition,
  SeenObject,
  StoreOptions,
  UploadOptions,
  Written,
} from './types';

/** Location of an object, in this bucket or in that of another store. */
export interface StoredObject {
  /** May belong to another server or account. Default: the store that copies. */
  store?: S3Store;
  /** The full key. */
  key: string;
  versionId?: string;
}

/** The content that a copy must have. */
export interface CopyOptions extends UploadOptions {
  bytes: number;
  checksum: string;
}

/** Parts that S3 copies at a time. */
const COPIES_AT_A_TIME = 16;

/** Loaded on demand: the SDK takes 0.1 s to load, and many runs only read and write small objects. */
const loadSdk = (): Promise<typeof import('./sdk')> => import('./sdk');

/**
 * A bucket. Every error is a UserError that names the operation, the object and the endpoint. Transient failures are
 * retried. S3 verifies the SHA-256 of all content that is uploaded.
 */
export class S3Store extends S3Reader {
  private readonly buffers = new BufferPool();

  /** Most requests in flight. Further requests wait. */
  readonly concurrency = CONCURRENCY;

  /** Creates the bucket if it does not exist. For local servers; in the cloud `pulumi up` creates the bucket. */
  async ensureBucket(): Promise<void> {
    await (await loadSdk()).createBucket(this, this.options.region ?? 'us-east-1');
  }

  /** Keeps earlier versions of objects. For local servers; in the cloud `pulumi up` does this. */
  async enableVersioning(): Promise<void> {
    await (await loadSdk()).enableVersioning(this);
  }

  /** Whether the bucket keeps earlier versions of objects. */
  async isVersioned(): Promise<boolean> {
    return (await loadSdk()).isVersioned(this);
  }

  /**
   * Lists every object whose key begins with `prefix`. The listing is complete, or an error is thrown. The prefix of a
   * folder ends in a slash.
   */
  async list(prefix: string): Promise<ListedObject[]> {
    return (await loadSdk()).list(this, prefix);
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

  /** The same, with the object's version and Last-Modified. */
  async lookUp(key: string, bytes: number): Promise<Written | undefined> {
    const head = await this.head(key);
    if (head === undefined) return undefined;
    const { sha256: stored = '', ...found } = head;
    // The content differs, so its bytes are not read.
    if (head.bytes !== bytes) return { ...found, checksum: `${head.bytes} bytes` };
    const parts = splitIntoParts(bytes).length;
    const isOurs = stored !== '' && stored.split('-')[1] === (parts === 1 ? undefined : String(parts));
    return { ...found, checksum: isOurs ? stored : await this.computeChecksum(key, bytes) };
  }

  private async computeChecksum(key: string, bytes: number): Promise<string> {
    const digests: Buffer[] = bytes === 0 ? [sha256(Buffer.alloc(0))] : [];
    for await (const part of this.read(key)) digests.push(sha256(part));
    return checksumOfParts(digests);
  }

  /**
   * Writes bytes, which must not change until the promise settles.
   * @throws PreconditionFailedError
   */
  async putBytes(key: string, body: Uint8Array, condition?: PutCondition): Promise<Written> {
    if (body.byteLength <= PART_BYTES) return this.putObject(key, body, { condition });
    return this.putParts(key, memorySource(body), { condition });
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
        await source.verify();
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
    try {
      const headers = { ...getEncryptionHeaders(this.options.encryption), ...getConditionHeaders(condition) };
      const written = await this.put(key, `write ${this.name(key)}`, body, digest, { headers });
      onBytes?.(body.byteLength);
      return { ...written, checksum };
    } catch (error) {
      if (!isRefused(error, condition)) throw error;
      return this.acceptOurs(key, body.byteLength, checksum, error);
    }
  }

  private put(
    key: string,
    what: string,
    body: Uint8Array,
    digest: Buffer,
    { headers = {}, query }: { headers?: Record<string, string>; query?: Record<string, string> },
  ): Promise<{ etag: string; versionId: string | undefined }> {
    const checksum = digest.toString('base64');
    return this.requester.send({
      what,
      method: 'PUT',
      key,
      query,
      headers: { 'x-amz-checksum-sha256': checksum, ...headers },
      body,
      bodySha256: digest,
      read: ({ headers: answer }) => {
        checkStored(answer['x-amz-checksum-sha256'], checksum);
        return { etag: quoted(answer['etag']), versionId: getVersionId(answer) };
      },
    });
  }

  /** Writes an object in parts, each of which S3 verifies. */
  private putParts(key: string, source: UploadSource, options: UploadOptions): Promise<Written> {
    const send = (upload: Upload, part: PartRange): Promise<StoredPart> =>
      this.buffers.lend(part.bytes, async (buffer) => {
        const { number } = part;
        const body = await source.read(part.start, buffer);
        const digest = source.digests?.[number - 1] ?? sha256(body);
        const query = { partNumber: String(number), uploadId: upload.id };
        const { etag } = await this.put(key, `write part ${number} of ${this.name(key)}`, body, digest, { query });
        return { number, etag, sha256: digest.toString('base64') };
      });
    return this.multipart(key, source.bytes, options, this.buffers.parts, send, () => source.verify());
  }

  /** Runs a multipart upload; aborts it if it fails. */
  private async multipart(
    key: string,
    bytes: number,
    options: UploadOptions,
    atATime: number,
    send: (upload: Upload, part: PartRange) => Promise<StoredPart>,
    verify: () => Promise<void>,
  ): Promise<Written> {
    const sdk = await loadSdk();
    const upload = await sdk.beginUpload(this, key, this.options.encryption);
    const stored: StoredPart[] = [];
    let sent = 0;
    try {
      await forEachLimited(splitIntoParts(bytes), atATime, async (part) => {
        stored[part.number - 1] = await send(upload, part);
        options.onBytes?.((sent += part.bytes));
      });
      await verify();
      const checksum = checksumOfParts(stored.map((part) => Buffer.from(part.sha256, 'base64')));
      this.requireContent(key, checksum, options);
      return await this.complete(sdk, upload, stored, { bytes, checksum, condition: options.condition });
    } catch (failure) {
      // Errors of the abort are ignored, so that the cause is reported. The bucket's lifecycle deletes what remains.
      await sdk.abortUpload(upload).catch(() => undefined);
      // S3 refuses a part that no longer has its digest.
      await verify();
      throw failure;
    }
  }

  private async complete(
    sdk: typeof import('./sdk'),
    upload: Upload,
    parts: readonly StoredPart[],
    options: { bytes: number; checksum: string; condition: PutCondition },
  ): Promise<Written> {
    const { key } = upload;
    const { bytes, checksum, condition } = options;
    try {
      // Not every server supports conditions on requests other than PUT.
      if (condition !== undefined && !isMet(condition, await this.head(key)))
        throw new S3Error(`write ${this.name(key)}`, this.url, { code: 'PreconditionFailed', status: 412 });
      return { ...(await sdk.completeUpload(upload, parts, options)), checksum };
    } catch (error) {
      // An earlier try may have completed the upload, although its answer was lost.
      const isLost = error instanceof S3Error && error.code === 'NoSuchUpload';
      if (!isLost && !isRefused(error, condition)) throw error;
      const written = await this.acceptOurs(key, bytes, checksum, error);
      await sdk.abortUpload(upload);
      return written;
    }
  }

  /** Handles a write that was refused or whose answer was lost. Succeeds if the existing object has our content. */
  private async acceptOurs(key: string, bytes: number, checksum: string, error: S3Error): Promise<Written> {
    const found = await this.lookUp(key, bytes);
    if (found?.checksum === checksum) return found;
    if (error.code === 'NoSuchUpload') throw error;
    throw new PreconditionFailedError(`cannot write ${this.name(key)}: another program wrote it in the meantime`, {
      hint: 'check its present content, then run the command again',
      cause: error,
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
  async copy({ store = this, ...source }: StoredObject, key: string, options: CopyOptions): Promise<Written> {
    const { bytes, checksum, condition } = options;
    if (condition !== undefined && !isMet(condition, await this.head(key)))
      return this.acceptOurs(key, bytes, checksum, new S3Error(`write ${this.name(key)}`, this.url, { code: '412' }));
    const otherContent = (): UserError =>
      new UserError(`cannot copy ${store.name(source.key)}: its content does not match its recorded checksum`, {
        hint: 'publish the model again from its files',
      });
    const of = { versionId: source.versionId };
    try {
      if (bytes <= PART_BYTES) {
        const got = await store.get(source.key, { bytes, ...of });
        if (got === undefined) throw new S3Error(`copy ${store.name(source.key)}`, store.url, { code: 'NoSuchKey' });
        return await this.putObject(key, got.body, options);
      }
      if (store.options.endpointUrl === this.options.endpointUrl) {
        const copied = await this.copyParts(store, source, key, options);
        if (copied !== undefined) return copied;
      }
      const read = async (start: number, buffer: Buffer): Promise<Buffer> => {
        if ((await store.readRange(source.key, start, buffer, of)) !== buffer.byteLength) throw otherContent();
        return buffer;
      };
      return await this.putParts(key, { bytes, read, verify: () => Promise.resolve() }, options);
    } catch (error) {
      throw error instanceof FileChangedError ? otherContent() : error;
    }
  }

  /** @returns undefined if S3 cannot copy the object, or reports no SHA-256 of its parts */
  private async copyParts(
    store: S3Store,
    { key: sourceKey, versionId }: Omit<StoredObject, 'store'>,
    key: string,
    options: CopyOptions,
  ): Promise<Written | undefined> {
    const version = versionId === undefined ? '' : `?versionId=${encodeText(versionId)}`;
    const source = `${encodeText(store.bucket)}/${encodeKey(sourceKey)}${version}`;
    const { copyPart } = await loadSdk();
    const cannot = new Error();
    const copy = async (upload: Upload, part: PartRange): Promise<StoredPart> => {
      const copied = await copyPart(upload, { ...part, source }).catch((error: unknown) => {
        // Our credentials may lack access to the source; those of the other store may have it.
        const isDenied = store !== this && error instanceof S3Error && error.status === 403;
        if (!isDenied && !(error instanceof S3Error && error.status === 501)) throw error;
      });
      if (copied === undefined) throw cannot;
      return copied;
    };
    try {
      return await this.multipart(key, options.bytes, options, COPIES_AT_A_TIME, copy, () => Promise.resolve());
    } catch (error) {
      if (error === cannot) return undefined;
      throw error;
    }
  }

  /**
   * Deletes exactly these objects; those with an ETag only if they still have it. Missing objects are ignored.
   * @throws PreconditionFailedError
   */
  async delete(objects: readonly SeenObject[]): Promise<void> {
    if (objects.length === 0) return;
    const { deleteObjects } = await loadSdk();
    await deleteObjects(this, objects, async (key) => (await this.head(key)) === undefined);
  }
}

function getEncryptionHeaders(encryption: Encryption | undefined): Record<string, string> {
  if (encryption === undefined) return {};
  const { algorithm, key } = encryption;
  return {
    'x-amz-server-side-encryption': algorithm,
    ...(key === undefined ? {} : { 'x-amz-server-side-encryption-aws-kms-key-id': key }),
  };
}

function getConditionHeaders(condition: PutCondition): Record<string, string> {
  if (condition === undefined) return {};
  return 'ifAbsent' in condition ? { 'if-none-match': '*' } : { 'if-match': condition.ifEtag };
}

const isMet = (condition: NonNullable<PutCondition>, present: ObjectHead | undefined): boolean =>
  'ifAbsent' in condition ? present === undefined : present?.etag === condition.ifEtag;

/** Whether S3 refused a write because of its condition. */
function isRefused(error: unknown, condition: PutCondition): error is S3Error {
  if (condition === undefined || !(error instanceof S3Error)) return false;
  if (error.status === 412 || error.code === 'ConditionalRequestConflict') return true;
  // The object to replace no longer exists.
  return 'ifEtag' in condition && error.code === 'NoSuchKey';
}
