import { randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { UserError } from '../core/errors';
import { isAlive } from '../core/exec';
import { PreconditionFailed, S3Error, type S3Store } from '../s3/store';
import { lockKey, type RepositoryLocation } from './location';

/** Without a sign of life for this long, by the server's clock, the holder is taken for dead. */
const EXPIRES_MS = 60_000;
const RENEW_MS = 15_000;

/** What the holder of the lock is about to change: what has to be undone or finished if it is killed meanwhile. */
export interface Intent {
  /** Models whose configuration is being switched: until the head says otherwise, the release before is what counts. */
  switching: string[];
  /** Digests of what they are being switched to: tells whether a server has it loaded. */
  digests: Record<string, string>;
  /** Models that are being taken out of service. */
  removing: string[];
  /** Keys under the repository prefix to be deleted, once the head does not have them any more. */
  deleting: string[];
  /** Whether copies of them are to stay beside the repository. */
  keepDeleted: boolean;
  /** Whether parts of large files may be left in the bucket: known so long until somebody has given them up. */
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
  /** Makes each write of the lock another one. */
  id: string;
  holder: Holder;
  since: string;
  intent: Intent;
}

interface Holder {
  user: string;
  host: string;
  pid: number;
  /** Tells machines, and containers on one machine, apart: process ids mean something within it only. */
  place: string;
}

/** The lock as it was read. */
export interface SeenLock {
  /** For the conditional write that takes it; undefined when there was none yet. */
  etag: string | undefined;
  /** The holder, if there is one that lives: `ana@build-7, process 4711, since 2026-11-20T10:00:00Z`. */
  heldBy: string | undefined;
  /** What a holder that died had begun; of one that failed in order, what it left. */
  unfinished: Intent;
}

export async function seeLock(store: S3Store, location: RepositoryLocation): Promise<SeenLock> {
  const found = await store.get(lockKey(location));
  if (found === undefined) return { etag: undefined, heldBy: undefined, unfinished: NO_INTENT };
  const body = parse(found.body);
  const held = body.state === 'held' && isThere(body.holder, found.ageMs);
  return {
    etag: found.etag,
    heldBy: held
      ? `${body.holder.user}@${body.holder.host}, process ${body.holder.pid}, since ${body.since}`
      : undefined,
    unfinished: body.intent,
  };
}

/**
 * The right to change the repository. An object in the bucket that is only ever written under the condition that it is
 * still what was read, so of several publishers exactly one gets it; whoever read the repository after the lock and
 * then gets it knows that nobody changed the repository in between.
 */
export class Lock {
  private readonly timer: NodeJS.Timeout;
  private renewed = performance.now();
  private renewedAt = Date.now();
  private lost: Error | undefined;
  /** Why it could not be renewed. */
  private trouble: unknown;
  /** Writes of the lock, one after the other. */
  private queue: Promise<void> = Promise.resolve();

  private constructor(
    private readonly store: S3Store,
    private readonly location: RepositoryLocation,
    private body: LockBody,
    private etag: string,
  ) {
    this.timer = setInterval(() => void this.renew(), RENEW_MS);
    this.timer.unref();
  }

  /** Takes the lock, or undefined if it was written since `seen`. What its last holder left unfinished stays noted. */
  static async take(
    store: S3Store,
    location: RepositoryLocation,
    seen: SeenLock,
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
    try {
      const condition = seen.etag === undefined ? ({ ifAbsent: true } as const) : { ifEtag: seen.etag };
      const { etag } = await store.putBytes(lockKey(location), encode(body), condition);
      return new Lock(store, location, body, etag);
    } catch (error) {
      if (error instanceof PreconditionFailed) return undefined;
      throw error;
    }
  }

  private async renew(): Promise<void> {
    try {
      await this.write({});
    } catch (error) {
      this.trouble = error;
    }
  }

  /** Notes what is about to be changed, before it is. */
  async setIntent(intent: Intent): Promise<void> {
    await this.write({ intent: { ...intent, uploads: intent.uploads || this.body.intent.uploads } });
  }

  /**
   * Asks the bucket whether it is still ours. After the machine slept no clock of ours may tell.
   * @throws LockLost
   */
  async confirm(): Promise<void> {
    await this.write({});
  }

  /** To be called before each write that somebody else's would contradict: as far as our clocks tell. */
  requireHeld(): void {
    if (this.lost !== undefined) throw this.lost;
    // The first of them stands still while a machine sleeps, the other one can be set.
    if (Math.max(performance.now() - this.renewed, Date.now() - this.renewedAt) > EXPIRES_MS) {
      const why = this.trouble instanceof Error ? `: ${this.trouble.message}` : '';
      throw new LockLost(
        `the lock of the repository could not be renewed in time; another publisher may have it now${why}`,
        { cause: this.trouble },
      );
    }
  }

  /**
   * Gives it up. With `unfinished` the next holder is told what was begun; with `tidy` no part of an upload is left.
   */
  async release(options: { unfinished?: boolean; tidy?: boolean } = {}): Promise<void> {
    clearInterval(this.timer);
    if (this.lost !== undefined) return;
    const uploads = this.body.intent.uploads && options.tidy !== true;
    // Held by somebody who is not there: the next publisher takes over, and finds the intent.
    const changes: Partial<LockBody> =
      options.unfinished === true
        ? { holder: { ...this.body.holder, pid: 0 }, intent: { ...this.body.intent, uploads } }
        : { state: 'free', intent: { ...NO_INTENT, uploads } };
    await this.write(changes).catch((error: unknown) => {
      if (!(error instanceof LockLost)) throw error;
    });
  }

  private write(changes: Partial<LockBody>): Promise<void> {
    const next = this.queue.then(async () => {
      this.requireHeld();
      const body = { ...this.body, ...changes, id: newId() };
      try {
        const [started, startedAt] = [performance.now(), Date.now()];
        const { etag } = await this.store.putBytes(lockKey(this.location), encode(body), { ifEtag: this.etag });
        this.body = body;
        this.etag = etag;
        this.renewed = started;
        this.renewedAt = startedAt;
      } catch (error) {
        if (!(error instanceof PreconditionFailed)) throw error;
        this.lost = new LockLost('another publisher took over the repository while this one was running', {
          cause: error,
        });
        throw this.lost;
      }
    });
    this.queue = next.catch(() => undefined);
    return next;
  }
}

/** For who lost the lock. */
export const RUN_AGAIN = 'run it again to publish on top of what the other one published';

export class LockLost extends UserError {
  override readonly name = 'LockLost';
}

/** Why work under the lock failed: when another one has it, S3 refuses things for reasons that say nothing of that. */
export function reasonOf(error: unknown, trouble: Error | undefined): unknown {
  // That the lock could not be renewed in time tells nothing new: what failed has the reason.
  const isTaken = trouble instanceof LockLost && trouble.cause instanceof PreconditionFailed;
  if (!isTaken || error instanceof LockLost || !isOfBucket(error)) return error;
  return new LockLost(trouble.message, { hint: RUN_AGAIN, cause: error });
}

/** Whether it comes from what S3 said, or did not say. */
export function isOfBucket(error: unknown): boolean {
  if (error instanceof S3Error || error instanceof PreconditionFailed) return true;
  return error instanceof Error && error.cause !== undefined && isOfBucket(error.cause);
}

/** Whether the holder may still be at work. On our own machine we can tell at once. */
function isThere(holder: Holder, ageMs: number): boolean {
  if (holder.pid === 0) return false;
  // Without the name of a boot, two machines may have the same name.
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

/** Within it a process id means one process: the machine since its start and, on Linux, the container. */
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

/** What cannot be read is nobody's: it is taken over. */
function parse(body: Buffer): LockBody {
  try {
    const content = JSON.parse(body.toString('utf8')) as LockBody;
    return { ...content, intent: { ...NO_INTENT, ...content.intent } };
  } catch {
    return { state: 'free', id: '', holder: ourselves(), since: '', intent: NO_INTENT };
  }
}
