import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../../src/core/errors';
import { headKey, releasesPrefix, type RepositoryLocation } from '../../../src/release/location';
import { PreconditionFailedError, S3Error } from '../../../src/s3/store';
import type { ListedObject, PutCondition, S3Store, Written } from '../../../src/s3/store';
import { acceptSame, getEtag, type MemoryBucket } from '../memory-store';
import type { Clock, Program } from './clock';
import { NoResponseError, type Fault, type Network } from './network';

/** A retry waits for up to this time. */
const LONGEST_WAIT_MS = 4000;
const TRY_MS = 10_000;

/** One program's client of the bucket: the part of S3Store that publishers and agents use, with its retries. */
export class SimulatedStore {
  readonly bucket: string;
  readonly concurrency = 8;
  /** The client does not reach the bucket before this time. */
  cutUntil = 0;

  constructor(
    private readonly options: {
      bucket: MemoryBucket;
      location: RepositoryLocation;
      network: Network;
      clock: Clock;
      s3: Program;
      deadlineMs: number;
    },
  ) {
    this.bucket = options.location.bucket;
  }

  get store(): S3Store {
    return this as unknown as S3Store;
  }

  firstKey(prefix: string): Promise<string | undefined> {
    return this.list(prefix).then(([first]) => first?.key);
  }

  list(prefix: string): Promise<ListedObject[]> {
    return this.send('list', () => this.options.bucket.list(prefix));
  }

  get(key: string): Promise<{ body: Buffer; etag: string } | undefined> {
    return this.send(`get ${this.describe(key)}`, () => {
      const body = this.options.bucket.objects.get(key);
      return body && { body, etag: getEtag(body) };
    });
  }

  readonly stream: S3Store['stream'] = async (key, { start, bytes }, take) => {
    const body = await this.send('read object', (fault) => {
      const found = this.options.bucket.objects.get(key);
      if (found === undefined) throw new UserError(`${key} does not exist`);
      const part = Buffer.from(found.subarray(start, start + bytes));
      if (fault?.effect === 'gets wrong bytes') part[0] = (part[0] ?? 0) ^ 1;
      return part;
    });
    await take(body);
    return body.byteLength;
  };

  async putBytes(key: string, body: Uint8Array, condition?: PutCondition): Promise<Written> {
    const bytes = Buffer.from(body);
    try {
      return await this.send(`put ${this.describe(key)}`, () => this.options.bucket.put(key, bytes, condition));
    } catch (error) {
      if (!(error instanceof PreconditionFailedError)) throw error;
      const found = await this.send(`get ${this.describe(key)}`, () => this.options.bucket.objects.get(key));
      return acceptSame(found, bytes, error);
    }
  }

  putFile(key: string, file: { path: string }, options: { condition?: PutCondition } = {}): Promise<Written> {
    return this.putBytes(key, readFileSync(file.path), options.condition);
  }

  private describe(key: string): string {
    const { location } = this.options;
    if (key === headKey(location)) return 'head';
    return key.startsWith(`${releasesPrefix(location)}/2`) ? 'manifest' : 'object';
  }

  private async send<T>(request: string, apply: (fault: Fault | undefined) => T): Promise<T> {
    const { network, clock, s3, deadlineMs } = this.options;
    const end = clock.monotonic() + deadlineMs;
    for (let wait = 200; ; wait = Math.min(LONGEST_WAIT_MS, 2 * wait)) {
      const timeoutMs = Math.min(TRY_MS, end - clock.monotonic());
      try {
        return await network.call({
          request,
          to: () => (this.cutUntil > clock.now ? undefined : s3),
          apply,
          timeoutMs: Math.max(1, timeoutMs),
        });
      } catch (error) {
        if (!(error instanceof NoResponseError)) throw error;
        const pause = Math.random() * wait;
        if (clock.monotonic() + pause >= end) {
          throw new S3Error(request, 'simulated', { code: 'ETIMEDOUT', text: error.message });
        }
        await sleep(pause);
      }
    }
  }
}
