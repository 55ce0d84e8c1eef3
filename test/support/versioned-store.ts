import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { checksumOfBytes, PreconditionFailedError, S3Error } from '../../src/s3/store';
import type { ListedObject, PutCondition, S3Store, Written } from '../../src/s3/store';
import { SeededRandom } from './soak';

interface Version {
  id: string;
  body: Buffer;
  modified: Date;
}

/** A bucket with versions in memory. */
export class VersionedBucket {
  readonly objects = new Map<string, Version[]>();
  /** Called after each write. */
  onWrite: (key: string, body: Buffer) => void = () => undefined;
  private versions = 0;

  put(key: string, body: Buffer, condition?: PutCondition): Written {
    const before = this.objects.get(key) ?? [];
    const present = before.at(-1);
    const expected = condition !== undefined && 'ifEtag' in condition ? condition.ifEtag : undefined;
    if (condition !== undefined && expected !== (present && getEtag(present.body))) {
      throw new PreconditionFailedError(`${key} was changed`);
    }
    const id = `v${(this.versions += 1)}`;
    this.objects.set(key, [...before, { id, body, modified: new Date() }]);
    this.onWrite(key, body);
    return { etag: getEtag(body), checksum: checksumOfBytes(body), versionId: id };
  }
}

/** How a client and the bucket lose each other. */
export interface Faults {
  random: SeededRandom;
  /** Probability that a request fails: half of these before, half of them after the bucket applied it. */
  loss: number;
  /** Probability that a request is applied only after its client gave up. */
  late: number;
  /** Longest time of a request, in ms. */
  slowestMs: number;
}

/** One client of the bucket: the part of S3Store that publishers and agents use. */
export class VersionedStore {
  readonly bucket = 'bucket';
  readonly url = 'memory:';
  readonly concurrency = 8;
  /** Whether the client reaches the bucket. */
  reachable = true;

  constructor(
    private readonly shared: VersionedBucket,
    private readonly faults: Faults = { random: new SeededRandom(1), loss: 0, late: 0, slowestMs: 0 },
    /** How often a request is sent. */
    private readonly tries = 3,
  ) {}

  get store(): S3Store {
    return this as unknown as S3Store;
  }

  async firstKey(prefix: string): Promise<string | undefined> {
    return (await this.list(prefix))[0]?.key;
  }

  async list(prefix: string): Promise<ListedObject[]> {
    return this.send(() =>
      [...this.shared.objects]
        .filter(([key]) => key.startsWith(prefix))
        .map(([key, versions]) => ({ key, ...describe(versions) }))
        .sort((a, b) => (a.key < b.key ? -1 : 1)),
    );
  }

  async get(key: string): Promise<{ body: Buffer; etag: string; ageMs: number } | undefined> {
    return this.send(() => {
      const body = this.shared.objects.get(key)?.at(-1)?.body;
      return body && { body, etag: getEtag(body), ageMs: 0 };
    });
  }

  readonly stream: S3Store['stream'] = async (key, { versionId, start, bytes }, take) => {
    const body = await this.send(() => {
      const found = this.shared.objects.get(key)?.find(({ id }) => id === versionId);
      if (found === undefined) throw new Error(`version ${versionId} of ${key} does not exist`);
      return found.body.subarray(start, start + bytes);
    });
    await take(body);
    return body.byteLength;
  };

  async putBytes(key: string, body: Uint8Array, condition?: PutCondition): Promise<Written> {
    const bytes = Buffer.from(body);
    try {
      return await this.send(() => this.shared.put(key, bytes, condition), true);
    } catch (error) {
      if (!(error instanceof PreconditionFailedError)) throw error;
      return acceptSame(await this.send(() => this.shared.objects.get(key)?.at(-1)), bytes, error);
    }
  }

  async putFile(key: string, file: { path: string }, options: { condition?: PutCondition } = {}): Promise<Written> {
    return this.putBytes(key, readFileSync(file.path), options.condition);
  }

  async checksum(key: string): Promise<string | undefined> {
    return (await this.lookUp(key))?.checksum;
  }

  lookUp(key: string): Promise<Written | undefined> {
    return this.send(() => {
      const found = this.shared.objects.get(key)?.at(-1);
      return found && asFound(found);
    });
  }

  async copy(
    from: { key: string; versionId?: string },
    key: string,
    options: { condition?: PutCondition },
  ): Promise<Written> {
    const found = this.shared.objects.get(from.key)?.find(({ id }) => id === from.versionId);
    if (found === undefined) throw new Error(`version ${from.versionId} of ${from.key} does not exist`);
    return this.putBytes(key, found.body, options.condition);
  }

  async delete(objects: readonly { key: string }[]): Promise<void> {
    await this.send(() => objects.forEach(({ key }) => this.shared.objects.delete(key)), true);
  }

  /** Sends a request, and repeats it as S3Store does. */
  private async send<T>(apply: () => T, isWrite = false): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.sendOnce(apply, isWrite);
      } catch (error) {
        if (!(error instanceof S3Error) || tries === this.tries) throw error;
      }
    }
  }

  private async sendOnce<T>(apply: () => T, isWrite: boolean): Promise<T> {
    const { random, loss, late, slowestMs } = this.faults;
    await sleep(random.fraction() * slowestMs);
    if (isWrite && random.chance(late)) {
      setTimeout(
        () => {
          try {
            apply();
          } catch {
            // No one waits for the answer.
          }
        },
        random.fraction() * slowestMs * 20,
      );
      throw lost();
    }
    if (!this.reachable || random.chance(loss / 2)) throw lost();
    const result = apply();
    await sleep(random.fraction() * slowestMs);
    if (random.chance(loss / 2)) throw lost();
    return result;
  }
}

const lost = (): S3Error => new S3Error('reach the bucket', 'memory', { code: 'ECONNRESET' });

const describe = (versions: readonly Version[]): Omit<ListedObject, 'key'> => {
  const body = versions.at(-1)?.body ?? Buffer.alloc(0);
  return { bytes: body.byteLength, etag: getEtag(body), modified: versions.at(-1)?.modified ?? new Date(0) };
};

/**
 * A write that was refused, as S3Store handles it: it succeeds if the object has our bytes, for example from an earlier try.
 * @throws the error otherwise
 */
export function acceptSame(present: Version | undefined, body: Buffer, error: PreconditionFailedError): Written {
  if (present?.body.equals(body) !== true) throw error;
  return asFound(present);
}

const asFound = ({ id, body, modified }: Version): Written => ({
  etag: getEtag(body),
  checksum: checksumOfBytes(body),
  versionId: id,
  modified,
});

/** The ETag of these bytes. */
export const getEtag = (body: Buffer): string => `"${createHash('md5').update(body).digest('hex')}"`;
