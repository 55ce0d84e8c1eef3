import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { UserError } from '../../src/core/errors';
import { checksumOfBytes, PreconditionFailedError } from '../../src/s3/store';
import type { ListedObject, PutCondition, S3Store, Written } from '../../src/s3/store';

/** A bucket in memory. */
export class MemoryBucket {
  readonly objects = new Map<string, Buffer>();
  /** Called after each write. */
  onWrite: (key: string, body: Buffer) => void = () => undefined;

  put(key: string, body: Buffer, condition?: PutCondition): Written {
    const present = this.objects.get(key);
    const expected = condition !== undefined && 'ifEtag' in condition ? condition.ifEtag : undefined;
    if (condition !== undefined && expected !== (present && getEtag(present))) {
      throw new PreconditionFailedError(`${key} was changed`);
    }
    this.objects.set(key, body);
    this.onWrite(key, body);
    return { etag: getEtag(body), checksum: checksumOfBytes(body) };
  }

  list(prefix: string): ListedObject[] {
    return [...this.objects]
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, body]) => ({ key, bytes: body.byteLength, etag: getEtag(body) }))
      .sort((a, b) => (a.key < b.key ? -1 : 1));
  }
}

/** One client of the bucket: the part of S3Store that publishers and agents use. */
export class MemoryStore {
  readonly bucket = 'bucket';
  readonly url = 'memory:';
  readonly concurrency = 8;

  constructor(protected readonly shared: MemoryBucket) {}

  get store(): S3Store {
    return this as unknown as S3Store;
  }

  list(prefix: string): Promise<ListedObject[]> {
    return this.send('list', prefix, () => this.shared.list(prefix));
  }

  get(key: string): Promise<{ body: Buffer; etag: string } | undefined> {
    return this.send('get', key, () => {
      const body = this.shared.objects.get(key);
      return body && { body, etag: getEtag(body) };
    });
  }

  readonly stream: S3Store['stream'] = async (key, { start, bytes }, take) => {
    const body = await this.send('read', key, () => this.read(key).subarray(start, start + bytes));
    await take(body);
    return body.byteLength;
  };

  /** A refused write succeeds if the object has our bytes, for example from an earlier try. */
  async putBytes(
    key: string,
    body: Uint8Array,
    condition?: PutCondition,
    { deadlineMs }: { deadlineMs?: number | undefined } = {},
  ): Promise<Written> {
    const bytes = Buffer.from(body);
    try {
      return await this.send('put', key, () => this.shared.put(key, bytes, condition), deadlineMs);
    } catch (error) {
      if (!(error instanceof PreconditionFailedError)) throw error;
      const present = await this.send('get', key, () => this.shared.objects.get(key));
      if (present?.equals(bytes) !== true) throw error;
      return { etag: getEtag(bytes), checksum: checksumOfBytes(bytes) };
    }
  }

  putFile(key: string, file: { path: string }, options: { condition?: PutCondition } = {}): Promise<Written> {
    return this.putBytes(key, readFileSync(file.path), options.condition);
  }

  checksum(key: string): Promise<string | undefined> {
    return this.send('get', key, () => {
      const found = this.shared.objects.get(key);
      return found && checksumOfBytes(found);
    });
  }

  async copy(from: { key: string }, key: string, options: { condition?: PutCondition }): Promise<Written> {
    return this.putBytes(key, this.read(from.key), options.condition);
  }

  delete(objects: readonly { key: string }[]): Promise<void> {
    return this.send('delete', '', () => objects.forEach(({ key }) => this.shared.objects.delete(key)));
  }

  /** Sends a request to the bucket, which applies it. */
  protected async send<T>(
    ...[, , apply]: [kind: string, key: string, apply: () => T, deadlineMs?: number]
  ): Promise<T> {
    return apply();
  }

  private read(key: string): Buffer {
    const found = this.shared.objects.get(key);
    if (found === undefined) throw new UserError(`${key} does not exist`);
    return found;
  }
}

/** The ETag of these bytes. */
const getEtag = (body: Buffer): string => `"${createHash('md5').update(body).digest('hex')}"`;
