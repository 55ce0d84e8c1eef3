import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../src/core/errors';
import { checksumOfBytes, PreconditionFailedError, S3Error } from '../../src/s3/store';
import type { ListedObject, PutCondition, S3Store, Written } from '../../src/s3/store';
import { SeededRandom } from './soak';

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
export class MemoryStore {
  readonly bucket = 'bucket';
  readonly url = 'memory:';
  readonly concurrency = 8;
  /** Whether the client reaches the bucket. */
  reachable = true;

  constructor(
    private readonly shared: MemoryBucket,
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
    return this.send(() => this.shared.list(prefix));
  }

  async get(key: string): Promise<{ body: Buffer; etag: string } | undefined> {
    return this.send(() => {
      const body = this.shared.objects.get(key);
      return body && { body, etag: getEtag(body) };
    });
  }

  readonly stream: S3Store['stream'] = async (key, { start, bytes }, take) => {
    const body = await this.send(() => {
      const found = this.shared.objects.get(key);
      if (found === undefined) throw new UserError(`${key} does not exist`);
      return found.subarray(start, start + bytes);
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
      return acceptSame(await this.send(() => this.shared.objects.get(key)), bytes, error);
    }
  }

  async putFile(key: string, file: { path: string }, options: { condition?: PutCondition } = {}): Promise<Written> {
    return this.putBytes(key, readFileSync(file.path), options.condition);
  }

  async checksum(key: string): Promise<string | undefined> {
    const found = await this.send(() => this.shared.objects.get(key));
    return found && checksumOfBytes(found);
  }

  async copy(from: { key: string }, key: string, options: { condition?: PutCondition }): Promise<Written> {
    const found = this.shared.objects.get(from.key);
    if (found === undefined) throw new UserError(`${from.key} does not exist`);
    return this.putBytes(key, found, options.condition);
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

/**
 * A write that was refused, as S3Store handles it: it succeeds if the object has our bytes, for example from an earlier try.
 * @throws the error otherwise
 */
export function acceptSame(present: Buffer | undefined, body: Buffer, error: PreconditionFailedError): Written {
  if (present?.equals(body) !== true) throw error;
  return { etag: getEtag(body), checksum: checksumOfBytes(body) };
}

/** The ETag of these bytes. */
export const getEtag = (body: Buffer): string => `"${createHash('md5').update(body).digest('hex')}"`;
