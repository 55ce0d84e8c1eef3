import type { TrialPhase, TrialRequest } from '../release/agent-api';
import { Deadline } from './deadline';

/** Longest time of a trial, however often it is renewed. */
const LONGEST_MS = 2 * 3600 * 1000;

/** A lease, held by a publisher, that makes this pod serve a release that head.json does not name. */
export class Trial {
  readonly id: string;
  readonly release: string;
  readonly manifestSha256: string;
  readonly base: number;
  readonly by: string;
  /** Whether models are asked before the release counts as served. */
  readonly ask: boolean;
  phase: TrialPhase = 'downloading';
  /** The model that is asked now. */
  asking: string | undefined;
  private readonly stopping = new AbortController();
  private readonly longest = new Deadline(LONGEST_MS);
  private lease: Deadline;

  constructor(
    { id, release, manifestSha256, base, by, ttlSeconds, ask = true }: TrialRequest,
    /** SHA-256 of the secret that its requests need, from the manifest. */
    readonly trialKey: string,
  ) {
    this.id = id;
    this.release = release;
    this.manifestSha256 = manifestSha256;
    this.base = base;
    this.by = by;
    this.ask = ask;
    this.lease = new Deadline(ttlSeconds * 1000);
  }

  get leftMs(): number {
    return Math.min(this.lease.leftMs, this.longest.leftMs);
  }

  renew(ttlSeconds: number): void {
    this.lease = new Deadline(ttlSeconds * 1000);
  }

  /** Aborted when the pod should no longer prepare the release. */
  get stopped(): AbortSignal {
    return this.stopping.signal;
  }

  stop(): void {
    this.stopping.abort();
  }
}
