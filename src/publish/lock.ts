import { randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { UserError } from '../core/errors';
import { isAlive } from '../launch/lock.cjs';
import { PreconditionFailedError, S3Error, type Lease, type S3Store } from '../s3/store';
import { requireConditions } from './require-conditions';
import { lockKey, type RepositoryLocation } from '../release/location';

/** The holder is assumed dead when the lock was not renewed for this long, by the clock of the S3 server. */
const EXPIRES_MS = 60_000;
/**
 * The holder stops this long after its last renewal, by its own clocks. It stops earlier than others take over, because a
 * network may delay a request, and the holder counts from before the renewal was sent.
 */
const HELD_MS = 50_000;
const RENEW_MS = 15_000;

/**
 * The changes that the holder of the lock is about to make. The next publisher undoes or finishes them if the holder is
 * killed.
 */
export interface Intent {
  /**
   * Models whose configuration is being activated. The previous release stays valid until the head points to a new one.
   */
  switching: string[];
  /** Model -> digest of the new configuration, which shows whether a replica has loaded that configuration. */
  digests: Record<string, string>;
  /** Models that are being removed from service. */
  removing: string[];
  /** Keys under the repository prefix that will be deleted once the head no longer contains them. */
  deleting: string[];
  /** Whether the deleted objects are archived beside the repository. */
  keepDeleted: boolean;
  /** Whether multipart uploads may be open. Stays true until they have been aborted. */
  uploads: boolean;
}

export const NO_INTENT: Intent = {
  switching: [],
  digests: {},
  removing: [],
  deleting: [],
  keepDeleted: false,
  uploads: false,
};

interface LockBody {
  state: 'free' | 'held';
  /** New for each write, so that each write changes the ETag. */
  id: string;
  holder: Holder;
  since: string;
  intent: Intent;
}

interface Holder {
  user: string;
  host: string;
  pid: number;
  /**
   * Identifies the machine since its boot and, on Linux, the container. A process id is only unique within this scope.
   */
  place: string;
}

/** A snapshot of the lock. */
export interface LockSnapshot {
  /** ETag for the conditional write that acquires the lock; undefined if the lock does not exist yet. */
  etag: string | undefined;
  /** The holder, if it is alive: `ana@build-7, process 4711, since 2026-11-20T10:00:00Z`. */
  heldBy: string | undefined;
  /** Changes that a dead holder had begun, or that a holder left behind after an error. */
  unfinished: Intent;
}

export async function readLock(store: S3Store, location: RepositoryLocation): Promise<LockSnapshot> {
  const found = await store.get(lockKey(location));
  if (found === undefined) return { etag: undefined, heldBy: undefined, unfinished: NO_INTENT };
  const { state, holder, since, intent } = parse(found.body);
  const held = state === 'held' && isHolderAlive(holder, found.ageMs);
  const name =
    holder === undefined
      ? `an unknown publisher (s3://${store.bucket}/${lockKey(location)} is not a lock of this version)`
      : `${holder.user}@${holder.host}, process ${holder.pid}, since ${since}`;
  return { etag: found.etag, heldBy: held ? name : undefined, unfinished: intent };
}

/**
 * The right to change the repository. The lock is an object in the bucket. Each write of it requires the ETag that was
 * read before, so exactly one of several concurrent publishers acquires it. A publisher that reads the lock, then the
 * repository, and then acquires the lock knows that the repository has not changed in between.
 */
export class Lock implements Lease {
  private readonly timer: NodeJS.Timeout;
  private lost: Error | undefined;
  private isReleased = false;
  /** Why the last renewal failed; undefined if it succeeded. */
  private lockError: unknown;
  /** Ids of all our writes of the lock. */
  private readonly ids: Set<string>;
  /** Serializes the writes of the lock. */
  private queue: Promise<void> = Promise.resolve();

  /** @param store sends requests at once, because the lock must not expire while its renewal waits for uploads */
  private constructor(
    private readonly store: S3Store,
    private readonly location: RepositoryLocation,
    private body: LockBody,
    private etag: string,
    /** When the last successful write of the lock was sent. S3 may have applied that write long before it answered. */
    private renewed: Clocks,
  ) {
    this.ids = new Set([body.id]);
    this.timer = setInterval(() => void this.renew(), RENEW_MS);
    this.timer.unref();
  }

  /**
   * Acquires the lock. Returns undefined if it was written since `seen`. The new intent includes what the last holder
   * left unfinished.
   */
  static async take(
    store: S3Store,
    location: RepositoryLocation,
    seen: LockSnapshot,
    intent: Intent,
  ): Promise<Lock | undefined> {
    const body: LockBody = {
      state: 'held',
      id: newId(),
      holder: ourselves(),
      since: new Date().toISOString(),
      intent: {
        switching: [...new Set([...seen.unfinished.switching, ...intent.switching])],
        digests: { ...seen.unfinished.digests, ...intent.digests },
        removing: [...new Set([...seen.unfinished.removing, ...intent.removing])],
        deleting: [...new Set([...seen.unfinished.deleting, ...intent.deleting])],
        keepDeleted: seen.unfinished.keepDeleted || intent.keepDeleted,
        uploads: seen.unfinished.uploads || intent.uploads,
      },
    };
    const urgent = store.urgent();
    const sent = readClocks();
    try {
      const condition = seen.etag === undefined ? ({ ifAbsent: true } as const) : { ifEtag: seen.etag };
      const { etag } = await urgent.putBytes(lockKey(location), encode(body), condition);
      if (seen.etag === undefined) await requireConditions(urgent, lockKey(location), encode(body));
      return new Lock(urgent, location, body, etag, sent);
    } catch (error) {
      if (error instanceof PreconditionFailedError) return undefined;
      throw error;
    }
  }

  /** What this holder, or one before it, has begun. */
  get intent(): Intent {
    return this.body.intent;
  }

  private async renew(): Promise<void> {
    try {
      await this.write({});
    } catch (error) {
      this.lockError = error;
    }
  }

  /** Records changes before they are made. */
  async setIntent(intent: Intent): Promise<void> {
    await this.write({ intent: { ...intent, uploads: intent.uploads || this.body.intent.uploads } });
  }

  /**
   * Verifies against the bucket that we still hold the lock. Local clocks cannot be trusted after the machine was
   * suspended.
   * @throws LockLostError
   */
  async confirm(): Promise<void> {
    await this.write({});
  }

  /**
   * Call before each change that would conflict with another publisher. Checks local clocks only and sends no request.
   * @throws LockLostError
   */
  requireHeld(): void {
    if (this.isReleased) throw new LockLostError('the lock of the repository was released');
    this.requireRenewed();
  }

  private requireRenewed(): void {
    if (this.lost !== undefined) throw this.lost;
    if (this.leftMs <= 0) {
      const why = this.lockError instanceof Error ? `: ${this.lockError.message}` : '';
      throw new LockLostError(
        `cannot renew the lock of the repository within ${HELD_MS / 1000} s; another publisher may hold it now${why}`,
        { cause: this.lockError },
      );
    }
  }

  /** Time until the holder must stop, in ms. */
  getLeftMs(): number {
    return this.isReleased ? 0 : this.leftMs;
  }

  private get leftMs(): number {
    if (this.lost !== undefined) return 0;
    const { monotonic, wall } = readClocks();
    return HELD_MS - Math.max(monotonic - this.renewed.monotonic, wall - this.renewed.wall);
  }

  /**
   * Releases the lock, and first ends the lease: a retry of an abandoned write must not meet the next holder. `unfinished` leaves the intent to the next holder; `noOpenUploads` means that no
   * multipart upload is open.
   */
  async release(options: { unfinished?: boolean; noOpenUploads?: boolean } = {}): Promise<void> {
    clearInterval(this.timer);
    this.isReleased = true;
    if (this.lost !== undefined) return;
    const uploads = this.body.intent.uploads && options.noOpenUploads !== true;
    // Process id 0 marks a holder that does not exist, so the next publisher takes over the lock and finds the intent.
    const changes: Partial<LockBody> =
      options.unfinished === true
        ? { holder: { ...this.body.holder, pid: 0 }, intent: { ...this.body.intent, uploads } }
        : { state: 'free', intent: { ...NO_INTENT, uploads } };
    await this.write(changes).catch((error: unknown) => {
      if (!(error instanceof LockLostError)) throw error;
    });
  }

  private write(changes: Partial<LockBody>): Promise<void> {
    const next = this.queue.then(async () => {
      for (;;) {
        this.requireRenewed();
        const body = { ...this.body, ...changes, id: newId() };
        this.ids.add(body.id);
        const sent = readClocks();
        try {
          const condition = { ifEtag: this.etag };
          const { etag } = await this.store.putBytes(lockKey(this.location), encode(body), condition);
          this.body = body;
          this.etag = etag;
          this.renewed = sent;
          this.lockError = undefined;
          return;
        } catch (error) {
          if (!(error instanceof PreconditionFailedError)) throw error;
          // An earlier write of ours may have been applied although it got no answer.
          const found = await this.store.get(lockKey(this.location));
          const isOurs = found !== undefined && found.etag !== this.etag && this.ids.has(getId(found.body));
          if (!isOurs) throw (this.lost = takenOver(error));
          this.etag = found.etag;
        }
      }
    });
    this.queue = next.catch(() => undefined);
    return next;
  }
}

/** Both clocks, because performance.now() stops while the machine is suspended, and Date.now() can be set. */
interface Clocks {
  monotonic: number;
  wall: number;
}

const readClocks = (): Clocks => ({ monotonic: performance.now(), wall: Date.now() });

const takenOver = (cause: unknown): LockLostError =>
  new LockLostError('another publisher took over the lock of the repository while this publisher was running', {
    cause,
  });

const getId = (body: Buffer): string => String(getFields(body).id);

/** Hint for a publisher that lost the lock. */
export const RUN_AGAIN = 'run the command again; it then starts from the release of the other publisher';

export class LockLostError extends UserError {
  override readonly name = 'LockLostError';
}

/**
 * Why work under the lock failed. After another publisher took the lock, S3 rejects requests for reasons that do not
 * mention the lock.
 */
export function getReason(error: unknown, lockError: Error | undefined): unknown {
  // A renewal that was only late explains nothing: then `error` is the actual reason.
  const isTaken = lockError instanceof LockLostError && lockError.cause instanceof PreconditionFailedError;
  if (!isTaken || error instanceof LockLostError || !isOfBucket(error)) return error;
  return new LockLostError(lockError.message, { hint: RUN_AGAIN, cause: error });
}

/** Whether the error was caused by a response of S3, or by a missing response. */
export function isOfBucket(error: unknown): boolean {
  if (error instanceof S3Error || error instanceof PreconditionFailedError) return true;
  return error instanceof Error && error.cause !== undefined && isOfBucket(error.cause);
}

/**
 * Whether the holder may still be running. For a holder on this machine, the process id decides at once. An unknown
 * holder may run until the lock expires.
 */
function isHolderAlive(holder: Holder | undefined, ageMs: number): boolean {
  if (holder === undefined) return ageMs < EXPIRES_MS;
  if (holder.pid === 0) return false;
  // Without a boot id, `place` is only the host name, which two machines may share.
  const isHere = holder.place === place() && holder.place !== hostname();
  if (isHere) return isAlive(holder.pid) && ageMs < EXPIRES_MS;
  return ageMs < EXPIRES_MS;
}

/** `user@host` */
export const ourName = (): string => `${userName()}@${hostname()}`;

function ourselves(): Holder {
  return { user: userName(), host: hostname(), pid: process.pid, place: place() };
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return 'unknown'; // A container may run as a user without a name.
  }
}

/** The scope in which a process id is unique: the machine since its boot and, on Linux, the container. */
function place(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${hostname()} ${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname();
  }
}

const newId = (): string => randomBytes(8).toString('hex');

const encode = (body: LockBody): Buffer => Buffer.from(`${JSON.stringify(body, null, 2)}\n`);

interface ReadLock {
  state: 'free' | 'held';
  /** Undefined if the content is not a lock of this version. */
  holder: Holder | undefined;
  since: string;
  intent: Intent;
}

/**
 * Content that is not a lock of this version counts as held by an unknown publisher, because another version of the
 * tool may have written it. Like any lock, it expires.
 */
function parse(body: Buffer): ReadLock {
  const { state, holder, since, intent } = getFields(body);
  const isLock = (state === 'held' || state === 'free') && isHolder(holder) && typeof since === 'string';
  return {
    state: state === 'free' ? 'free' : 'held',
    holder: isLock ? holder : undefined,
    since: isLock ? since : '',
    intent: parseIntent(intent),
  };
}

function getFields(body: Buffer): Partial<Record<keyof LockBody, unknown>> {
  try {
    return (JSON.parse(body.toString('utf8')) as Partial<Record<keyof LockBody, unknown>> | null) ?? {};
  } catch {
    return {};
  }
}

function isHolder(value: unknown): value is Holder {
  const { user, host, pid, place } = (value ?? {}) as Partial<Record<keyof Holder, unknown>>;
  return typeof pid === 'number' && [user, host, place].every((text) => typeof text === 'string');
}

/** Omits fields of other types. */
function parseIntent(value: unknown): Intent {
  const isTexts = (list: unknown[]): boolean => list.every((one) => typeof one === 'string');
  const accepts: Partial<Record<string, (field: unknown) => boolean>> = {
    switching: (field) => Array.isArray(field) && isTexts(field),
    digests: (field) => typeof field === 'object' && field !== null && isTexts(Object.values(field)),
    removing: (field) => Array.isArray(field) && isTexts(field),
    deleting: (field) => Array.isArray(field) && isTexts(field),
    keepDeleted: (field) => typeof field === 'boolean',
    uploads: (field) => typeof field === 'boolean',
  };
  const valid = Object.entries(value ?? {}).filter(
    ([name, field]) => Object.hasOwn(accepts, name) && accepts[name]?.(field),
  );
  return { ...NO_INTENT, ...(Object.fromEntries(valid) as Partial<Intent>) };
}
