import { UserError } from '../core/errors';
import { BufferPool } from './buffer-pool';
import type { Bucket } from './bucket';
import { checksumOfParts, PART_BYTES, splitIntoParts, sha256 } from './checksum';
import { copyObject, copyThroughHere, type CopyOptions } from './copy';
import { deleteObjects } from './delete';
import { S3Error } from './errors';
import { listObjects } from './list';
import { abortUpload, uploadsUnder } from './multipart';
import { checkObject, getObject, streamRange, type GotObject } from './objects';
import { readObject } from './read';
import { preparing, readXml, Requester, type Sender } from './requester';
import { fileSource, memorySource, readSmallFile, readWholeFile, type FileSource } from './source';
import type {
  Encryption,
  Lease,
  ListedObject,
  PutCondition,
  SeenObject,
  StoreOptions,
  TakeBytes,
  Written,
} from './types';
import { putObject, putParts, type UploadOptions } from './upload';
import { childText, escapeXml } from './xml';

export { checksumOfBytes, PART_BYTES } from './checksum';
export { FileChangedError, PreconditionFailedError, S3Error } from './errors';
export type { UploadOptions } from './upload';
export type {
  Credentials,
  Encryption,
  Lease,
  ListedObject,
  PutCondition,
  SeenObject,
  StoreOptions,
  Written,
} from './types';

/** Files up to this size are read in one call. */
const SMALL_BYTES = 256 * 1024;

/** Location of an object, in this bucket or in that of another store. */
export interface StoredObject {
  /** May belong to another server or account. Default: the store that copies. */
  store?: S3Store;
  /** The full key. */
  key: string;
  versionId?: string;
}

/**
 * A bucket. Every error is a UserError that names the operation, the object and the endpoint. Transient failures are
 * retried. S3 verifies the SHA-256 of all content that is uploaded.
 */
export class S3Store {
  readonly bucket: string;
  private readonly at: Bucket;

  constructor(private readonly options: StoreOptions) {
    this.bucket = options.bucket;
    this.at = {
      name: options.bucket,
      requester: new Requester(options),
      buffers: new BufferPool(options.memoryBytes),
      encryption: getEncryptionHeaders(options.encryption),
      uploading: [],
    };
  }

  /** This bucket for the holder of a lease: no try of a write begins without the lease, or goes on after its end. */
  withLease(lease: Lease): S3Store {
    return this.withRequester((requester) =>
      preparing(requester, (request) => {
        if (request.method !== 'GET' && request.method !== 'HEAD') request.lease = lease;
      }),
    );
  }

  /** This bucket for small objects: its requests are sent at once, even if other requests wait. */
  urgent(): S3Store {
    return this.withRequester((requester) => preparing(requester, (request) => (request.urgent = true)));
  }

  private withRequester(change: (requester: Sender) => Sender): S3Store {
    const at: Bucket = { ...this.at, requester: change(this.at.requester) };
    return Object.create(this, { at: { value: at } }) as S3Store;
  }

  /** Where requests are sent, for messages. */
  get url(): string {
    return this.at.requester.url;
  }

  /** Most requests in flight. Further requests wait. */
  get concurrency(): number {
    return this.at.requester.concurrency;
  }

  /**
   * Opens up to `count` connections that the next requests will need, because opening takes several round trips. Does not
   * wait, and reports no errors.
   */
  connect(count: number): void {
    this.at.requester.connect(count);
  }

  /** Closes all connections. */
  close(): void {
    this.at.requester.close();
  }

  /** Creates the bucket if it does not exist. For local servers; in the cloud `pulumi up` creates the bucket. */
  async ensureBucket(): Promise<void> {
    const { region = 'us-east-1' } = this.options;
    const place = `<LocationConstraint>${escapeXml(region)}</LocationConstraint>`;
    const body = `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${place}</CreateBucketConfiguration>`;
    try {
      await this.at.requester.send({
        what: `create bucket ${this.bucket}`,
        method: 'PUT',
        body: region === 'us-east-1' ? undefined : Buffer.from(body),
        read: () => undefined,
      });
    } catch (error) {
      if (!(error instanceof S3Error && error.code === 'BucketAlreadyOwnedByYou')) throw error;
    }
  }

  /** Keeps earlier versions of objects. For local servers; in the cloud `pulumi up` does this. */
  async enableVersioning(): Promise<void> {
    const body = `<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>`;
    await this.at.requester.send({
      what: `turn on versioning of bucket ${this.bucket}`,
      method: 'PUT',
      query: { versioning: '' },
      body: Buffer.from(body),
      read: () => undefined,
    });
  }

  /** Whether the bucket keeps earlier versions of objects. */
  async isVersioned(): Promise<boolean> {
    return this.at.requester.send({
      what: `read the versioning of bucket ${this.bucket}`,
      method: 'GET',
      query: { versioning: '' },
      read: (answer) => childText(readXml(answer, 'VersioningConfiguration'), 'Status') === 'Enabled',
    });
  }

  /**
   * Lists every object whose key begins with `prefix`. The listing is complete, or an error is thrown. The prefix of a
   * folder ends in a slash.
   * @param expected keys that probably exist, sorted; they make the listing faster and do not change it
   */
  async list(prefix: string, expected?: Promise<readonly string[]>): Promise<ListedObject[]> {
    return listObjects(this.at, prefix, expected);
  }

  /** The same with the time at which each object was written. */
  async listWithTimes(prefix: string): Promise<(ListedObject & { modified: Date })[]> {
    return (await listObjects(this.at, prefix, undefined, true)) as (ListedObject & { modified: Date })[];
  }

  /**
   * The object's bytes, or undefined if the object does not exist. `ageMs` is the time since it was written, by the
   * server's clock.
   */
  async get(key: string): Promise<GotObject | undefined> {
    return getObject(this.at, key);
  }

  /**
   * The object's bytes in order, for objects that are too large to hold in memory.
   * @throws UserError if the object does not exist
   */
  read(key: string): AsyncGenerator<Buffer> {
    return readObject(this.at, key);
  }

  /**
   * Reads bytes of a version of an object and passes them on as they arrive. The caller verifies them. `take` is never
   * called before its last promise has settled, and has settled when this function ends.
   * @returns how many bytes were read, fewer than requested only at the end of the object
   * @throws UserError if the version does not exist; the error of `take`
   */
  async stream(
    key: string,
    range: { versionId: string; start: number; bytes: number },
    take: TakeBytes,
  ): Promise<number> {
    const count = await streamRange(this.at, key, range, take);
    if (count === undefined)
      throw new UserError(`version ${range.versionId} of s3://${this.bucket}/${key} does not exist`);
    return count;
  }

  /**
   * The object's checksum as checksumOfBytes computes it. Uses the checksum that S3 stores if the object was uploaded
   * in the same parts; otherwise reads the bytes. If the object's size is not `bytes`, returns a text that equals no
   * checksum.
   * @returns undefined if the object does not exist
   */
  async checksum(key: string, bytes: number): Promise<string | undefined> {
    return (await this.lookUp(key, bytes))?.checksum;
  }

  /** The same, with the object's version and Last-Modified. */
  lookUp(key: string, bytes: number): Promise<Written | undefined> {
    return checkObject(this.at, key, bytes);
  }

  /**
   * Writes bytes, which must not change until the promise settles.
   * @throws PreconditionFailedError
   */
  async putBytes(key: string, body: Uint8Array, condition?: PutCondition): Promise<Written> {
    if (body.byteLength <= PART_BYTES) return putObject(this.at, key, body, { condition });
    return putParts(this.at, key, memorySource(body), { condition });
  }

  /**
   * Writes a file. A large file is uploaded in parts; parts that an earlier run uploaded are not sent again.
   * @throws PreconditionFailedError, FileChangedError
   */
  async putFile(key: string, file: { path: string; bytes: number }, options: UploadOptions = {}): Promise<Written> {
    const { path, bytes } = file;
    if (bytes <= SMALL_BYTES) {
      return this.at.buffers.lend(bytes, async (buffer) => {
        readSmallFile(path, buffer);
        return putObject(this.at, key, buffer, options);
      });
    }
    if (bytes > PART_BYTES) return withFile(path, bytes, (source) => putParts(this.at, key, source, options));
    return this.at.buffers.lend(bytes, (buffer) =>
      withFile(path, bytes, async (source) => {
        const body = await source.read(0, buffer);
        await source.verify();
        return putObject(this.at, key, body, options);
      }),
    );
  }

  /**
   * Copies an object whose content must have the checksum in `options`. If S3 cannot copy the object, this process
   * downloads and uploads it.
   */
  async copy({ store = this, ...object }: StoredObject, key: string, options: CopyOptions): Promise<Written> {
    const source = { ...object, bucket: store.at };
    if (store.options.endpointUrl === this.options.endpointUrl) {
      try {
        return await copyObject(this.at, source, key, options);
      } catch (error) {
        // Our credentials may lack access to the source; those of the other store may have it.
        if (store === this || !(error instanceof S3Error) || error.status !== 403) throw error;
      }
    }
    return copyThroughHere(this.at, source, key, options);
  }

  /**
   * Deletes exactly these objects; those with an ETag only if they still have it. Missing objects are ignored.
   * @throws PreconditionFailedError
   */
  async delete(objects: readonly SeenObject[]): Promise<void> {
    return deleteObjects(this.at, objects);
  }

  /** Aborts the unfinished uploads under `prefix`, except those that this store is sending, and returns their keys. */
  async abortUploads(prefix: string): Promise<string[]> {
    const uploads = (await uploadsUnder(this.at, prefix)).filter(({ key }) => !this.at.uploading.includes(key));
    for (const upload of uploads) await abortUpload(this.at, upload);
    return [...new Set(uploads.map(({ key }) => key))];
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

/**
 * The checksum that S3 stores for a file when S3Store uploads it.
 * @throws FileChangedError if the file has another size, or if a large file changed while it was read
 */
export async function checksumOfFile(path: string, bytes: number): Promise<string> {
  if (bytes <= SMALL_BYTES) return sha256(readWholeFile(path, bytes)).toString('base64');
  return withFile(path, bytes, async (source) => {
    if (source.digests !== undefined) return checksumOfParts(source.digests);
    const parts = splitIntoParts(bytes);
    const buffer = Buffer.allocUnsafeSlow(parts[0]?.bytes ?? 0);
    const digests: Buffer[] = [];
    for (const { start, bytes: length } of parts) {
      digests.push(sha256(await source.read(start, buffer.subarray(0, length))));
    }
    await source.verify();
    source.keepDigests(digests);
    return checksumOfParts(digests);
  });
}

async function withFile<T>(path: string, bytes: number, work: (source: FileSource) => Promise<T>): Promise<T> {
  const source = await fileSource(path, bytes);
  try {
    return await work(source);
  } finally {
    await source.close();
  }
}
