import { setTimeout as sleep } from 'node:timers/promises';
import { headKey, releasesPrefix, type RepositoryLocation } from '../../../src/release/location';
import { S3Error } from '../../../src/s3/store';
import { MemoryStore, type MemoryBucket } from '../memory-store';
import type { Clock, Program } from './clock';
import { NoResponseError, type Network } from './network';

/** A retry waits for up to this time. */
const LONGEST_WAIT_MS = 4000;
const TRY_MS = 10_000;

/** One program's client of the bucket, whose requests go through the network, with the retries of S3Store. */
export class SimulatedStore extends MemoryStore {
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
    super(options.bucket);
  }

  /** The request, as faults name it. */
  private describe(kind: string, key: string): string {
    const { location } = this.options;
    if (kind === 'list') return kind;
    if (key === headKey(location)) return `${kind} head`;
    return `${kind} ${key.startsWith(`${releasesPrefix(location)}/2`) ? 'manifest' : 'object'}`;
  }

  protected override async send<T>(
    kind: string,
    key: string,
    apply: () => T,
    deadlineMs = this.options.deadlineMs,
  ): Promise<T> {
    const { network, clock, s3 } = this.options;
    const request = this.describe(kind, key);
    const end = clock.monotonic() + deadlineMs;
    for (let wait = 200; ; wait = Math.min(LONGEST_WAIT_MS, 2 * wait)) {
      const timeoutMs = Math.min(TRY_MS, end - clock.monotonic());
      try {
        return await network.call({
          request,
          to: () => (this.cutUntil > clock.now ? undefined : s3),
          apply: (fault) => (fault?.effect === 'gets wrong bytes' ? damaged(apply()) : apply()),
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

/** The bytes with another first one. */
function damaged<T>(answer: T): T {
  if (!Buffer.isBuffer(answer)) return answer;
  const bytes = Buffer.from(answer);
  bytes[0] = (bytes[0] ?? 0) ^ 1;
  return bytes as Buffer & T;
}
