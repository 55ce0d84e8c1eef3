import { Buffers } from './buffers';
import type { Bucket } from './bucket';
import { checksumOfParts, PART_BYTES, partsOf, sha256 } from './checksum';
import { copyObject, copyThroughHere, type CopyOptions } from './copy';
import { deleteObjects } from './delete';
import { S3Error } from './errors';
import { listObjects } from './list';
import { abortUpload, uploadsUnder } from './multipart';
import { checkObject, getObject, type GotObject } from './objects';
import { readObject } from './read';
import { Requester } from './requester';
import { fileSource, memorySource, readSmallFile, readWholeFile, type Source } from './source';
import type { ListedObject, PutCondition, StoreOptions, Written } from './types';
import { putObject, putParts, type UploadOptions } from './upload';
import { escapeXml } from './xml';

export { checksumOfBytes, PART_BYTES } from './checksum';
export { FileChanged, PreconditionFailed, S3Error } from './errors';
export type { UploadOptions } from './upload';
export type { Credentials, ListedObject, PutCondition, StoreOptions, Written } from './types';

/** A file that is at most this long is read in one go. */
const SMALL_BYTES = 256 * 1024;

/** Where the bytes of an object are: in this bucket, or in that of another store. */
export interface StoredPlace {
  /** Maybe of another server or account; undefined: the one that is asked. */
  store?: S3Store;
  /** The whole key. */
  key: string;
  versionId?: string;
}

/**
 * A bucket. Every error comes out as a UserError that names operation, object and endpoint. Requests are tried again
 * where that may help; what is written is checked against its SHA-256 on arrival.
 */
export class S3Store {
  readonly bucket: string;
  private readonly at: Bucket;

  constructor(private readonly options: StoreOptions) {
    this.bucket = options.bucket;
    this.at = { name: options.bucket, requester: new Requester(options), buffers: new Buffers() };
  }

  /** Ends all connections. */
  close(): void {
    this.at.requester.close();
  }

  /** Creates the bucket unless it is there. For local servers; in the cloud that is the work of `pulumi up`. */
  async ensureBucket(): Promise<void> {
    const { region = 'us-east-1' } = this.options;
    const place = `<LocationConstraint>${escapeXml(region)}</LocationConstraint>`;
    const body = `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${place}</CreateBucketConfiguration>`;
    try {
      await this.at.requester.send({
        what: `create bucket ${this.bucket}`,
        method: 'PUT',
        ...(region === 'us-east-1' ? {} : { body: Buffer.from(body) }),
        read: () => undefined,
      });
    } catch (error) {
      if (!(error instanceof S3Error && error.code === 'BucketAlreadyOwnedByYou')) throw error;
    }
  }

  /**
   * Everything whose key begins with `prefix`, complete or not at all; a folder's prefix ends in a slash.
   * @param expected keys that are probably there, sorted: quicker, and no other result
   */
  async list(prefix: string, expected?: Promise<readonly string[]>): Promise<ListedObject[]> {
    return listObjects(this.at, prefix, expected);
  }

  /**
   * The object's bytes, or undefined when it is not there. `ageMs` is the time since it was written, by the server's
   * clock.
   */
  async get(key: string): Promise<GotObject | undefined> {
    return getObject(this.at, key);
  }

  /**
   * The object's bytes in order, for one that is too large to be held at once.
   * @throws UserError when it is not there
   */
  read(key: string): AsyncGenerator<Buffer> {
    return readObject(this.at, key);
  }

  /**
   * The object's checksum as checksumOfBytes gives it: as S3 keeps it where it was uploaded in the same parts, else
   * from its bytes. An object of another size than `bytes` has a text that equals no checksum.
   * @returns undefined when the object is not there
   */
  async checksum(key: string, bytes: number): Promise<string | undefined> {
    return (await checkObject(this.at, key, bytes))?.checksum;
  }

  /**
   * Writes bytes, which must stay as they are until this settles.
   * @throws PreconditionFailed
   */
  async putBytes(key: string, body: Uint8Array, condition?: PutCondition): Promise<Written> {
    if (body.byteLength <= PART_BYTES) return putObject(this.at, key, body, { condition });
    return putParts(this.at, key, memorySource(body), { condition });
  }

  /**
   * Writes a file. A large one goes in parts, of which those that an earlier run has sent are not sent again.
   * @throws PreconditionFailed, FileChanged
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

  /** Lets S3 copy an object, whose content has to have this checksum. What it cannot copy goes through this process. */
  async copy({ store = this, ...object }: StoredPlace, key: string, options: CopyOptions): Promise<Written> {
    const source = { ...object, bucket: store.at };
    if (store.options.endpointUrl === this.options.endpointUrl) {
      try {
        return await copyObject(this.at, source, key, options);
      } catch (error) {
        // These credentials may not read there; the other store's may.
        if (store === this || !(error instanceof S3Error) || error.status !== 403) throw error;
      }
    }
    return copyThroughHere(this.at, source, key, options);
  }

  /** Deletes exactly these keys. */
  async delete(keys: readonly string[]): Promise<void> {
    return deleteObjects(this.at, keys);
  }

  /** Gives up the unfinished uploads under `prefix`; gives their keys. */
  async abortUploads(prefix: string): Promise<string[]> {
    const uploads = await uploadsUnder(this.at, prefix);
    for (const upload of uploads) await abortUpload(this.at, upload);
    return [...new Set(uploads.map(({ key }) => key))];
  }
}

/**
 * Checksum of a file, as S3 keeps it when S3Store uploads it.
 * @throws FileChanged when the file has another size; a large one also when it changed while it was read
 */
export async function checksumOfFile(path: string, bytes: number): Promise<string> {
  if (bytes <= SMALL_BYTES) return sha256(readWholeFile(path, bytes)).toString('base64');
  return withFile(path, bytes, async (source) => {
    const parts = partsOf(bytes);
    const buffer = Buffer.allocUnsafeSlow(parts[0]?.bytes ?? 0);
    const digests: Buffer[] = [];
    for (const { start, bytes: length } of parts) {
      digests.push(sha256(await source.read(start, buffer.subarray(0, length))));
    }
    await source.verify();
    return checksumOfParts(digests);
  });
}

async function withFile<T>(path: string, bytes: number, work: (source: Source) => Promise<T>): Promise<T> {
  const source = await fileSource(path, bytes);
  try {
    return await work(source);
  } finally {
    await source.close();
  }
}
