import { randomBytes, timingSafeEqual } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { AgentState, TrialOutcome, TrialPhase, TrialRenewal, TrialRequest } from '../release/agent-api';
import { UserError } from '../core/errors';
import { FormatError } from '../release/format';
import { sha256Hex, type Manifest } from '../release/manifest';
import type { AgentEvent } from './events';
import { Deadline } from './deadline';

/** An answer of the control API other than success. */
export class RequestRefusedError extends UserError {
  override readonly name = 'RequestRefusedError';
  constructor(
    readonly status: number,
    message: string,
    readonly details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}

/** A state tag is accepted for this long. */
const TAG_MS = 15_000;
const MOST_ENDED = 1000;

/**
 * A lease, held by a publisher, that makes this pod serve a release that head.json does not name. It lasts while it is
 * renewed: only the publisher knows how long its other replicas need, and it stops to renew after its own time limits.
 */
export interface Trial extends TrialRequest {
  /** SHA-256 of the secret that its requests need, from the manifest. */
  trialKey: string;
  lease: Deadline;
  phase: TrialPhase;
  asking?: string | undefined;
  /** Of its last renewal. */
  note?: string | undefined;
  /** Aborted when the pod should no longer prepare the release. */
  stopping: AbortController;
}

export interface TrialDeskOptions {
  /** Whether Triton has answered. The pod may serve nothing: then it returns to nothing. */
  isStarted: () => boolean;
  generation: () => number;
  /** The manifest of the release, after head.json of at least the request's base was read. */
  readManifest: (request: TrialRequest) => Promise<Manifest>;
  /** @throws RequestRefusedError if the release does not fit on the disk */
  requireSpace: (manifest: Manifest) => void;
  /** Called after each change that makes earlier state tags stale. */
  onChange: (event: AgentEvent) => void;
}

/** Begins, renews and ends trials. At most one runs. test/proof/Publish.tla specifies the conditions. */
export class TrialDesk {
  current: Trial | undefined;
  last: AgentState['lastTrial'] = null;
  private tag = newTag();
  /** Trials that were ended before the requests that begin them arrived. */
  private ended: { id: string; until: Deadline }[] = [];

  constructor(private readonly options: TrialDeskOptions) {}

  get stateTag(): string {
    return `${this.tag}.${Math.floor(performance.now())}`;
  }

  /**
   * Begins a trial, or finds that it has begun.
   * @throws RequestRefusedError
   */
  async begin(request: TrialRequest): Promise<void> {
    if (this.current?.id === request.id) return;
    this.check(request);
    const manifest = await this.read(request);
    this.check(request);
    this.options.requireSpace(manifest);
    const { trialKey } = manifest;
    const lease = new Deadline(request.ttlSeconds * 1000);
    this.current = { ...request, trialKey, lease, phase: 'downloading', stopping: new AbortController() };
    this.changed({ event: 'trial', id: request.id, release: request.release, by: request.by, base: request.base });
  }

  private check({ id: asked, stateTag, base }: TrialRequest): void {
    if (this.ended.some(({ id }) => id === asked)) throw new RequestRefusedError(412, 'this trial was ended');
    if (!this.options.isStarted()) throw new RequestRefusedError(503, 'Triton has not answered yet');
    const [tag, given] = stateTag.split('.');
    if (tag !== this.tag || performance.now() - Number(given) > TAG_MS) {
      throw new RequestRefusedError(412, 'the state of this pod has changed: read it again');
    }
    const generation = this.options.generation();
    if (generation > base) {
      throw new RequestRefusedError(410, `head.json is at generation ${generation}, after ${base}`);
    }
    if (this.current === undefined) return;
    const { id, by, lease } = this.current;
    const leftSeconds = Math.ceil(lease.leftMs / 1000);
    throw new RequestRefusedError(409, `${by} tries another release on this pod`, { id, by, leftSeconds });
  }

  private async read(request: TrialRequest): Promise<Manifest> {
    const { generation, readManifest } = this.options;
    let manifest: Manifest;
    try {
      manifest = await readManifest(request);
    } catch (error) {
      // A publisher repeats requests with status 503.
      const status = error instanceof FormatError ? 422 : 503;
      throw new RequestRefusedError(status, `cannot read the release: ${(error as Error).message}`);
    }
    if (!isEqual(sha256Hex(request.secret), manifest.trialKey)) throw new RequestRefusedError(403, 'wrong secret');
    if (generation() >= request.base) return manifest;
    throw new RequestRefusedError(503, `this pod does not see generation ${request.base} of head.json`);
  }

  /** @throws RequestRefusedError if no such trial runs */
  renew(id: string, { secret, ttlSeconds, note }: TrialRenewal): void {
    const trial = this.find(id, secret);
    if (trial === undefined) throw new RequestRefusedError(404, 'no such trial: it has ended');
    trial.lease = new Deadline(ttlSeconds * 1000);
    trial.note = note;
  }

  /** Ends a trial. If the request that begins it is still under way, that request will be refused. */
  end(id: string, secret: string): void {
    if (this.find(id, secret) !== undefined) return this.finish('ended');
    // Only this request is refused, because who does not know the secret must not disturb others.
    this.ended.push({ id, until: new Deadline(TAG_MS) });
    this.ended = this.ended.filter(({ until }) => until.leftMs > 0).slice(-MOST_ENDED);
  }

  endIfExpired(): void {
    if (this.current?.lease.leftMs === 0) this.finish('expired');
  }

  /** @param why for outcome `refused` */
  finish(outcome: TrialOutcome, why?: Pick<Error, 'message'> & { hint?: string | undefined }): void {
    const { current } = this;
    if (current === undefined) return;
    this.current = undefined;
    const { id, release } = current;
    const { message: reason, hint } = why ?? {};
    this.last = { id, release, outcome, reason, hint };
    // A release that is the current one now is loaded to its end.
    if (outcome !== 'released') current.stopping.abort();
    this.changed({ event: 'trial end', ...this.last });
  }

  /** Makes the tags stale that were given out: no trial that was decided on before may begin any more. */
  changed(event: AgentEvent): void {
    this.tag = newTag();
    this.options.onChange(event);
  }

  private find(id: string, secret: string): Trial | undefined {
    const { current } = this;
    if (current?.id !== id) return undefined;
    if (isEqual(sha256Hex(secret), current.trialKey)) return current;
    throw new RequestRefusedError(403, 'wrong secret');
  }
}

const newTag = (): string => randomBytes(12).toString('hex');

const isEqual = (a: string, b: string): boolean =>
  a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
