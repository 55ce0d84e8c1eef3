import type { TrialPhase, TrialRequest } from '../release/agent-api';
import { Deadline } from './deadline';

/**
 * A lease, held by a publisher, that makes this pod serve a release that head.json does not name. It lasts while it is
 * renewed: only the publisher knows how long its other replicas need, and it stops to renew after its own time limits.
 */
export class Trial {
  readonly id: string;
  readonly release: string;
  readonly manifestSha256: string;
  readonly base: number;
  readonly by: string;
  /** Whether models are asked before the release counts as served. */
  readonly ask: boolean;
  /** Whether the pod leaves the Service until its models were asked. */
  readonly outside: boolean;
  /** Whether no other replica gets requests. */
  readonly alone: boolean;
  phase: TrialPhase = 'downloading';
  /** The model that is asked now. */
  asking: string | undefined;
  private readonly stopping = new AbortController();
  private lease: Deadline;

  constructor(
    { id, release, manifestSha256, base, by, ttlSeconds, ask = true, outside = false, alone = false }: TrialRequest,
    /** SHA-256 of the secret that its requests need, from the manifest. */
    readonly trialKey: string,
  ) {
    this.id = id;
    this.release = release;
    this.manifestSha256 = manifestSha256;
    this.base = base;
    this.by = by;
    this.ask = ask;
    this.outside = outside;
    this.alone = alone;
    this.lease = new Deadline(ttlSeconds * 1000);
  }

  get leftMs(): number {
    return this.lease.leftMs;
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
