import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
  checksumOfBytes,
  PreconditionFailedError,
  type Lease,
  type ListedObject,
  type PutCondition,
  type S3Store,
  type SeenObject,
  type StoredObject,
  type Written,
} from '../../src/s3/store';

interface MemoryObject {
  body: Buffer;
  writtenAt: number;
  /** Default: the MD5 of the body. */
  etag?: string;
}

/** A bucket in memory that enforces the conditions of writes, for unit tests of src/publish. */
export class MemoryStore {
  readonly bucket = 'bucket';
  readonly url = 'memory:';
  readonly concurrency = 32;
  readonly objects = new Map<string, MemoryObject>();
  lease: Lease | undefined;
  /** Whether each write has an ETag of its own, as in a bucket with SSE-KMS. */
  randomEtags = false;
  /** Called before each write, with the full key; an error that it throws is the result of the write. */
  onPut: (key: string) => void = () => undefined;
  /** Called before objects are deleted, with their full keys. */
  onDelete: (keys: readonly string[]) => void = () => undefined;

  /** The store as src/publish takes it. */
  get store(): S3Store {
    return this as unknown as S3Store;
  }

  /** The same objects; each write needs the lease. */
  withLease(lease: Lease): S3Store {
    const view = Object.create(this) as MemoryStore;
    view.lease = lease;
    return view.store;
  }

  urgent(): S3Store {
    return this.store;
  }

  text(key: string): string | undefined {
    return this.objects.get(key)?.body.toString();
  }

  async list(prefix: string): Promise<ListedObject[]> {
    return [...this.objects]
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, object]) => ({ key, bytes: object.body.byteLength, etag: getEtag(object) }))
      .sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  async get(key: string): Promise<{ body: Buffer; etag: string; ageMs: number } | undefined> {
    const found = this.objects.get(key);
    return found && { body: found.body, etag: getEtag(found), ageMs: Date.now() - found.writtenAt };
  }

  async putBytes(key: string, content: Uint8Array | string, condition?: PutCondition): Promise<Written> {
    this.lease?.requireHeld();
    this.onPut(key);
    const body = Buffer.from(content as Uint8Array);
    const present = this.objects.get(key);
    const checksum = checksumOfBytes(body);
    const expected = condition !== undefined && 'ifEtag' in condition ? condition.ifEtag : undefined;
    const holds = condition === undefined || expected === (present && getEtag(present));
    if (!holds) {
      // S3Store takes the same bytes for its own write, whose answer was lost.
      if (present?.body.equals(body) !== true) throw new PreconditionFailedError(`${key} was changed`);
      return { etag: getEtag(present), checksum };
    }
    const etag = this.randomEtags ? `"${randomBytes(16).toString('hex')}"` : undefined;
    const written = { body, writtenAt: Date.now(), etag };
    this.objects.set(key, written);
    return { etag: getEtag(written), checksum };
  }

  async putFile(
    key: string,
    { path }: { path: string },
    { condition }: { condition?: PutCondition } = {},
  ): Promise<Written> {
    return this.putBytes(key, readFileSync(path), condition);
  }

  async copy(
    { store, key: from }: StoredObject,
    key: string,
    { condition }: { condition?: PutCondition } = {},
  ): Promise<Written> {
    const found = await ((store as unknown as MemoryStore | undefined) ?? this).get(from);
    if (found === undefined) throw new Error(`${from} does not exist`);
    return this.putBytes(key, found.body, condition);
  }

  async checksum(key: string): Promise<string | undefined> {
    const found = this.objects.get(key);
    return found && checksumOfBytes(found.body);
  }

  async delete(objects: readonly SeenObject[]): Promise<void> {
    this.lease?.requireHeld();
    this.onDelete(objects.map(({ key }) => key));
    for (const { key, etag } of objects) {
      const present = this.objects.get(key);
      if (present === undefined) continue;
      if (etag !== undefined && etag !== getEtag(present)) throw new PreconditionFailedError(`${key} was changed`);
      this.objects.delete(key);
    }
  }
}

const getEtag = ({ body, etag }: MemoryObject): string => etag ?? `"${createHash('md5').update(body).digest('hex')}"`;
