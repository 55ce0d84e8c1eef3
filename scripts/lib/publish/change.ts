import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../abort';
import { Incomplete, UserError } from '../errors';
import type { ReplicaSource } from '../replicas/source';
import { PART_BYTES, PreconditionFailed, S3Error, type S3Store } from '../s3/store';
import { ensurePlaceholder, RepositoryWriter } from './apply';
import { Lock, LockLost, NO_INTENT, type Intent } from './lock';
import { versionOf } from './keys';
import { releasesPrefix, type RepositoryLocation } from './location';
import { lookAt, type SeenRepository } from './look';
import { conflicts, isChanged, isConflict, makePlan, objectsOf, type Plan, type PlannedModel } from './plan';
import { newRelease, writeHead, type Head, type Release, type ReleasedModel } from './release';
import {
  requireAnswers,
  rollOut,
  type RolloutOptions,
  type RolloutResult,
  type RolloutTarget,
  type ServedModel,
} from './rollout';
import { composingFirst, type WantedModel } from './wanted';

const LOOK_AGAIN_MS = 1000;

/** For who lost the lock. */
const RUN_AGAIN = 'run it again to publish on top of what the other one published';

/** What the repository and the servers are to be brought to. */
export interface Target {
  models: WantedModel[];
  /** Models of the release that are to be taken out of service and out of the repository. */
  remove: string[];
  /** Keep the bytes of what is removed beside the repository. */
  keepRemoved: boolean;
  /** Delete versions and files of `models` that are not part of them any more. */
  prune: boolean;
  /** For the release: what made it. */
  origin: string;
  /** For the release: which one it goes back to. */
  restores?: string;
  /** @throws UserError when the plan cannot be carried out, which a dry run is to tell as well */
  check?: (plan: Plan) => Promise<void>;
}

export interface ChangeOptions extends RolloutOptions {
  store: S3Store;
  location: RepositoryLocation;
  /** Undefined: the servers are not told. */
  replicas: ReplicaSource | undefined;
  dryRun?: boolean;
  /** How long to wait for another publisher. */
  lockTimeoutMs: number;
  /** A look that was begun before, while the target was read. */
  firstLook?: Promise<SeenRepository>;
  /** Called before anything is written; again if the repository changed meanwhile. */
  onPlan?: (plan: Plan) => void;
  /** Asked before anything is deleted; no is an error. */
  confirmPrune?: (keys: readonly string[]) => Promise<boolean>;
  onBytes?: (key: string, bytes: number) => void;
  /** What is being done, and what is waited for. */
  onStage?: (text: string) => void;
}

export interface Changed {
  plan: Plan;
  /** Undefined after a dry run on a bucket without a release. */
  release: Release | undefined;
  /** Whether it is a new one. */
  isNew: boolean;
  /** Undefined when the servers were not told. */
  replicas?: RolloutResult | undefined;
}

/**
 * Changes the repository and what is served from it, or leaves both as they were:
 *
 * 1. take the lock; undo what a publisher that was killed had begun
 * 2. upload what lies in version folders, which no configuration names yet
 * 3. switch the configurations, what an ensemble is made of before the ensemble
 * 4. load on one replica after the other and look at each version until it is READY
 * 5. note the release; only then delete what is no longer needed
 *
 * If 3 or 4 fails, the configurations of the release before are put back and loaded.
 *
 * @param targetOf what is wanted, given the release that the repository is at
 */
export async function change(
  targetOf: (release: Release | undefined) => Promise<Target>,
  options: ChangeOptions,
): Promise<Changed> {
  const { store, location } = options;
  let confirmed = new Set<string>();
  const waiting = new WaitForLock(options);
  for (let look = options.firstLook; ; look = undefined) {
    options.signal?.throwIfAborted();
    const seen = await (look ?? lookAt(store, location));
    if (options.dryRun !== true && (await waiting.isHeld(seen))) continue;
    if (options.dryRun !== true && isUnfinished(seen.lock.unfinished)) {
      await recover(seen, options);
      continue;
    }
    const target = await targetOf(seen.head?.release);
    requireRemovable(target, seen.head?.release);
    const remove = ensemblesFirst(target.remove, seen.head?.release);
    const { prune, keepRemoved } = target;
    const plan = await makePlan(target.models, seen, { store, location, prune, remove, keepRemoved });
    options.onPlan?.(plan);
    requireNoConflict(plan);
    await target.check?.(plan);
    await requireReplicas(options);
    const idle = !needsWriting(plan, seen);
    const tidy = !seen.lock.unfinished.uploads;
    if (options.dryRun === true || (idle && tidy && options.replicas === undefined)) {
      return { plan, release: seen.head?.release, isNew: false };
    }
    if (plan.prune.some((key) => !confirmed.has(key)) && !plan.keepPruned) {
      if ((await options.confirmPrune?.(plan.prune)) === false) {
        throw new UserError('nothing was done: the deletion was not confirmed', {
          hint: 'leave out --prune, or say --yes',
        });
      }
      confirmed = new Set(plan.prune);
    }
    const lock = await Lock.take(store, location, seen.lock, firstIntent(plan));
    if (lock !== undefined) return new Change({ seen, plan, target, lock, options }).carryOut(idle);
  }
}

/**
 * Undoes what a killed publisher had begun to switch, in the bucket and on the servers, and finishes what it had begun
 * to delete. What cannot be done is told, and does not keep later publishers from their work: what they publish is
 * compared with what is there.
 * @param ours further models to put back
 * @returns whether it got the lock
 */
async function recover(seen: SeenRepository, options: ChangeOptions, ours: readonly string[] = []): Promise<boolean> {
  const { store, location, onStage } = options;
  const { unfinished } = seen.lock;
  const lock = await Lock.take(store, location, seen.lock, { ...NO_INTENT, switching: [...ours] });
  if (lock === undefined) return false;
  if (isUnfinished(unfinished)) onStage?.('an earlier publisher was interrupted: undo what it had begun');
  const attempt = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      if (error instanceof LockLost || options.signal?.aborted === true) throw error;
      onStage?.(`${what}: ${(error as Error).message}`);
    }
  };
  try {
    const writer = new RepositoryWriter(store, location, lock);
    const released = seen.head?.release.models ?? {};
    const switching = [...new Set([...unfinished.switching, ...ours])];
    for (const name of [...switching].reverse()) {
      await attempt(`${name} cannot be put back`, () => writer.restoreModel(name, released[name]));
    }
    await attempt('not every server could be put back', () => recoverServers(unfinished, released, options));
    const kept = new Set(Object.values(released).flatMap(({ objects }) => Object.keys(objects)));
    const gone = unfinished.deleting.filter((key) => !kept.has(key));
    const { keepDeleted: keep } = unfinished;
    await attempt('not everything could be deleted', () => writer.removeObjects(gone, seen, { keep }));
    // Copies that it had begun: nobody goes on with them. Uploads of files are gone on with, by uploadVersions.
    await attempt('unfinished copies are left', () => store.abortUploads(`${releasesPrefix(location)}/`));
  } catch (error) {
    await lock.release({ unfinished: true });
    throw error;
  }
  await lock.release();
  return true;
}

/** Brings servers back to the release, in what a killed publisher may have asked of them. */
async function recoverServers(
  { switching, digests, removing }: Intent,
  released: Readonly<Record<string, ReleasedModel>>,
  options: ChangeOptions,
): Promise<void> {
  const names = [...new Set([...switching, ...removing])];
  if (names.length === 0) return;
  if (options.replicas === undefined) {
    options.onStage?.(`servers may serve ${names.join(', ')} other than released: "npm run status" tells`);
    return;
  }
  const unknown = names.filter((name) => released[name] === undefined && (digests[name] ?? '') !== '');
  const target = {
    models: servedModels(names, released),
    removed: unknown.reverse().map((name) => ({ name, served: [], digest: digests[name] ?? '' })),
  };
  await rollOut(options.replicas, target, { ...options, reload: true, patient: false });
}

/**
 * Puts models back to what the release says by now. For a publisher that lost the lock without noticing: of a model
 * that the next one did not touch, it may have written the configuration.
 */
async function putRight(models: readonly string[], options: ChangeOptions): Promise<void> {
  const waiting = new WaitForLock(options);
  for (;;) {
    const seen = await lookAt(options.store, options.location);
    if (!(await waiting.isHeld(seen)) && (await recover(seen, options, models))) return;
  }
}

interface Begun {
  seen: SeenRepository;
  plan: Plan;
  target: Target;
  lock: Lock;
  options: ChangeOptions;
}

/** A change for which we have the lock. */
class Change {
  private readonly writer: RepositoryWriter;
  private readonly changed: PlannedModel[];
  private head: Head | undefined;
  private readonly unsure = new Set<string>();
  /** Whether no part of an upload is left in the bucket. */
  private tidy = false;
  /** What the last rollout came to. */
  private replicas: RolloutResult | undefined;

  constructor(private readonly begun: Begun) {
    const { options, lock, plan, seen } = begun;
    const { onBytes, signal } = options;
    this.writer = new RepositoryWriter(options.store, options.location, lock, {
      ...(onBytes === undefined ? {} : { onBytes }),
      ...(signal === undefined ? {} : { signal }),
    });
    this.changed = plan.models.filter(isChanged);
    this.head = seen.head;
  }

  async carryOut(idle: boolean): Promise<Changed> {
    const { lock, options, plan } = this.begun;
    let unfinished = false;
    try {
      await this.upload(idle);
      unfinished = true;
      try {
        await this.putIntoService(idle);
      } catch (error) {
        const trouble = await this.askForLock();
        const reason = reasonOf(error, trouble);
        await this.restore(reason, trouble);
        unfinished = false;
        throw reason;
      }
      await this.prune();
      unfinished = false;
      const release = this.head?.release;
      return { plan, release, isNew: !idle, replicas: this.replicas };
    } finally {
      await lock.release({ unfinished, tidy: this.tidy }).catch((error: unknown) => {
        // It expires by itself.
        options.onStage?.(`the lock could not be given back: ${(error as Error).message}`);
      });
    }
  }

  private async upload(idle: boolean): Promise<void> {
    const { options, plan } = this.begun;
    try {
      if (!idle) await this.adopt();
      await this.writer.uploadVersions(plan.models);
    } catch (error) {
      throw await this.explained(error);
    }
    options.signal?.throwIfAborted();
  }

  /** The error, or the loss of the lock that caused it. */
  private async explained(error: unknown): Promise<unknown> {
    return isOfBucket(error) ? reasonOf(error, await this.askForLock()) : error;
  }

  /** @returns undefined while the lock is ours, else LockLost, or why the bucket cannot tell */
  private async askForLock(): Promise<Error | undefined> {
    try {
      await this.begun.lock.confirm();
      return undefined;
    } catch (error) {
      return error as Error;
    }
  }

  private async putIntoService(idle: boolean): Promise<void> {
    const { plan } = this.begun;
    // What later releases need of this one; nothing waits for it but the release.
    const before = (name: string): ReleasedModel | undefined => this.head?.release.models[name];
    const keeping = this.writer.keepCopies(this.changed, before);
    keeping.catch(() => undefined);
    for (const planned of this.changed) await this.writer.switchModel(planned);
    await this.load({ ...this.newTarget(), removed: [] });
    // Only when every server took the new ones: a model that is unloaded cannot be had back without a gap.
    if (plan.remove.length > 0) await this.load(this.newTarget(), { patient: false });
    await keeping;
    await this.giveUpUploads();
    if (!idle) await this.release();
  }

  /** Before anything of somebody else's is changed, it is recorded as a release that can be gone back to. */
  private async adopt(): Promise<void> {
    const { seen, plan, options, lock } = this.begun;
    const foreign = plan.models.filter((planned) => planned.foreign);
    if (foreign.length === 0) return;
    const models: Record<string, ReleasedModel> = { ...this.head?.release.models };
    for (const { model, config } of foreign) {
      const adopted = await this.writer.adopt(model.name, seen);
      models[model.name] = adopted;
      const etag = adopted.objects[config.object.key]?.etag;
      if (etag !== undefined) config.etag = etag;
    }
    const origin = 'found in the bucket';
    const release = newRelease({ previous: this.head?.release.id, origin, models });
    this.head = await writeHead(options.store, options.location, release, this.head);
    await lock.setIntent(intentOf(plan));
  }

  /** Nobody else uploads while we have the lock: what is unfinished now will never be finished. */
  private async giveUpUploads(): Promise<void> {
    const { options, lock, seen } = this.begun;
    if (this.changed.length === 0 && !seen.lock.unfinished.uploads) return;
    lock.requireHeld();
    try {
      for (const prefix of [options.location.prefix, releasesPrefix(options.location)]) {
        await options.store.abortUploads(`${prefix}/`);
      }
      this.tidy = true;
    } catch (error) {
      // Housekeeping, for which not everybody has the right. Then the next run has it no more, and need not try.
      this.tidy = error instanceof S3Error && error.status === 403;
      options.onStage?.(`unfinished uploads are left: ${(error as Error).message}`);
    }
  }

  private async load(target: RolloutTarget, more: Partial<RolloutOptions> = {}): Promise<void> {
    const { options } = this.begun;
    if (options.replicas === undefined) return;
    this.replicas = await rollOut(options.replicas, target, { ...options, unsure: this.unsure, ...more });
  }

  private async release(): Promise<void> {
    const { seen, plan, options, target, lock } = this.begun;
    const before = this.head?.release.models ?? {};
    const kept = Object.entries(before).filter(([name]) => !target.remove.includes(name));
    const models: Record<string, ReleasedModel> = Object.fromEntries(kept);
    const pruned = new Set(plan.prune);
    for (const planned of plan.models) {
      const { name } = planned.model;
      models[name] = this.writer.describe(planned, seen, before[name], pruned);
    }
    const { origin, restores } = target;
    const release = newRelease({
      previous: this.head?.release.id,
      origin,
      models,
      ...(restores === undefined ? {} : { restores }),
    });
    lock.requireHeld();
    try {
      this.head = await writeHead(options.store, options.location, release, this.head);
    } catch (error) {
      if (!(error instanceof PreconditionFailed)) throw error;
      throw new LockLost('another publisher finished a release while this one was running', {
        hint: RUN_AGAIN,
        cause: error,
      });
    }
  }

  /** The release is in service by now: whatever fails here does not undo it. */
  private async prune(): Promise<void> {
    const { plan, options, seen, lock } = this.begun;
    if (plan.prune.length === 0) return;
    options.onStage?.(
      `${plan.keepPruned ? 'move aside' : 'delete'} what is no longer needed: ${plan.prune.length} objects`,
    );
    try {
      await lock.confirm();
      await this.writer.removeObjects(plan.prune, seen, { keep: plan.keepPruned });
      // An empty repository is none to Triton.
      if (seen.objects.size <= plan.prune.length) await ensurePlaceholder(options.store, options.location);
      // A server that started before the deletion may have loaded what is gone now.
      await this.load(this.newTarget(), { patient: false });
    } catch (error) {
      const { message } = (await this.explained(error)) as Error;
      throw new Incomplete(`release ${this.head?.release.id} is in service, but not all was deleted: ${message}`, {
        hint: 'the next sync-models or rollback goes on with it',
        cause: error,
      });
    }
  }

  /**
   * Puts back and loads what was there before.
   * @param trouble what askForLock() gave
   * @throws Incomplete when that fails too
   */
  private async restore(reason: unknown, trouble: Error | undefined): Promise<void> {
    const { options, plan } = this.begun;
    if (this.changed.length + plan.remove.length === 0) return;
    try {
      await this.putBack(trouble);
    } catch (error) {
      throw new Incomplete(
        `${(reason as Error).message}\nPutting back what was there before failed too: ${(error as Error).message}`,
        {
          hint: '"npm run status" tells what each replica serves; the next sync-models or rollback tries again',
          cause: reason,
        },
      );
    }
    options.onStage?.(`restored: the repository is at ${this.head?.release.id ?? 'no release'}`);
  }

  private async putBack(trouble: Error | undefined): Promise<void> {
    const { options, plan } = this.begun;
    const before = this.head?.release.models ?? {};
    const names = this.changed.map(({ model }) => model.name);
    if (trouble instanceof LockLost) return putRight(names, options);
    if (trouble !== undefined) throw trouble;
    options.onStage?.('it failed: restore what was served before');
    for (const name of [...names].reverse()) await this.writer.restoreModel(name, before[name]);
    if (options.replicas === undefined) return;
    const withoutSignal = { ...options };
    delete withoutSignal.signal;
    const failed: string[] = [];
    const target = {
      models: [...servedModels([...names, ...plan.remove], before), ...this.dependents()],
      removed: this.changed
        .map(({ model }) => model)
        .filter(({ name }) => before[name] === undefined)
        .reverse(),
    };
    await rollOut(options.replicas, target, {
      ...withoutSignal,
      patient: false,
      unsure: this.unsure,
      onFailure: (replica, error) => failed.push(`${replica}: ${error.message}`),
    });
    if (failed.length > 0) throw new UserError(`not every replica serves it\n  ${failed.join('\n  ')}`);
  }

  private newTarget(): RolloutTarget {
    const { plan, seen } = this.begun;
    const before = seen.head?.release.models ?? {};
    return {
      models: [...plan.models.map(({ model }) => model), ...this.dependents()],
      removed: plan.remove.map((name) => servedModel(name, before[name] as ReleasedModel)),
    };
  }

  /** Ensembles that are not published now, of models that are: they have to go on being served. */
  private dependents(): ServedModel[] {
    const { plan } = this.begun;
    const planned = new Set([...plan.models.map(({ model }) => model.name), ...plan.remove]);
    const others = Object.entries(this.begun.seen.head?.release.models ?? {})
      .filter(([name]) => !planned.has(name))
      .map(([name, model]) => servedModel(name, model));
    const touched = new Set(this.changed.map(({ model }) => model.name));
    return composingFirst(others).filter(({ name, composedOf }) => {
      const depends = composedOf.some((step) => touched.has(step));
      if (depends) touched.add(name);
      return depends;
    });
  }
}

/** A model of a release as servers are to have it. */
export function servedModel(name: string, released: ReleasedModel): ServedModel & { composedOf: string[] } {
  const { served, digest, composedOf } = released;
  return { name, served, digest, composedOf };
}

/** Those of the models that a release has, what an ensemble is made of before the ensemble. */
function servedModels(names: readonly string[], released: Readonly<Record<string, ReleasedModel>>) {
  return composingFirst(
    names.flatMap((name) => {
      const model = released[name];
      return model === undefined ? [] : [servedModel(name, model)];
    }),
  );
}

/** Waits while another publisher has the lock, and says so once. */
class WaitForLock {
  private readonly deadline: number;
  private announced: string | undefined;

  constructor(private readonly options: ChangeOptions) {
    this.deadline = Date.now() + options.lockTimeoutMs;
  }

  async isHeld({ lock: { heldBy } }: SeenRepository): Promise<boolean> {
    if (heldBy === undefined) return false;
    if (Date.now() > this.deadline) {
      throw new UserError(`another publisher is at work: ${heldBy}`, {
        hint: 'wait for it, or give more time with --lock-timeout; one that died is taken over after a minute',
      });
    }
    if (this.announced !== heldBy) this.options.onStage?.(`another publisher is at work, waiting: ${heldBy}`);
    this.announced = heldBy;
    const { signal } = this.options;
    await abortable(sleep(LOOK_AGAIN_MS), signal);
    return true;
  }
}

/** A version folder of the bucket is never changed: what is served from it may be loaded again at any time. */
export class VersionConflict extends UserError {
  override readonly name = 'VersionConflict';
}

function requireNoConflict(plan: Plan): void {
  const found = conflicts(plan);
  if (found.length === 0) return;
  throw new VersionConflict(`published versions are never changed, and these would be:\n  ${found.join('\n  ')}`, {
    hint: `put the new files into a new version folder, ${nextFolder(plan)}; nothing was uploaded`,
  });
}

/** The folder to use instead: `resnet/3`. */
function nextFolder(plan: Plan): string {
  const planned = plan.models.find(isConflict);
  const versions = planned?.objects.flatMap(({ object }) => versionOf(object.key) ?? []) ?? [];
  return `${planned?.model.name}/${Math.max(...versions, ...(planned?.before ?? [])) + 1}`;
}

/** An ensemble that stays must keep what it is made of. */
function requireRemovable(target: Target, release: Release | undefined): void {
  const removed = new Set(target.remove);
  const wanted = new Map(target.models.map((model) => [model.name, model.composedOf]));
  for (const [name, { composedOf }] of Object.entries(release?.models ?? {})) {
    if (!removed.has(name) && !wanted.has(name)) wanted.set(name, composedOf);
  }
  for (const [name, composedOf] of wanted) {
    const missing = composedOf.find((step) => removed.has(step));
    if (missing === undefined) continue;
    throw new UserError(`${missing} would be removed, and ${name} is made of it`, {
      hint: `remove ${name} too, or keep ${missing}`,
    });
  }
}

/** Found out before anything is written. */
async function requireReplicas({ replicas, onStage }: ChangeOptions): Promise<void> {
  if (replicas === undefined) return;
  const found = await replicas.list();
  if (found.length === 0)
    onStage?.(`no replica yet in ${replicas.describe()}: those that start later load it by themselves`);
  for (const replica of found) if (replica.ready) await requireAnswers(replica);
}

function intentOf(plan: Plan): Intent {
  const changed = plan.models.filter(isChanged).map(({ model }) => model);
  return {
    switching: changed.map(({ name }) => name),
    digests: Object.fromEntries(changed.map(({ name, digest }) => [name, digest])),
    removing: plan.remove,
    deleting: plan.prune,
    keepDeleted: plan.keepPruned,
    uploads: uploadsInParts(plan),
  };
}

/** What was found in the bucket is to be changed only once there is a record of it to go back to. */
const firstIntent = (plan: Plan): Intent =>
  plan.models.some(({ foreign }) => foreign) ? { ...NO_INTENT, uploads: uploadsInParts(plan) } : intentOf(plan);

const uploadsInParts = (plan: Plan): boolean =>
  plan.models.flatMap(objectsOf).some(({ object, action }) => action !== 'keep' && object.bytes > PART_BYTES);

/** Why work under the lock failed: when another one has it, S3 refuses things for reasons that say nothing of that. */
function reasonOf(error: unknown, trouble: Error | undefined): unknown {
  // That the lock could not be renewed in time tells nothing new: what failed has the reason.
  const isTaken = trouble instanceof LockLost && trouble.cause instanceof PreconditionFailed;
  if (!isTaken || error instanceof LockLost || !isOfBucket(error)) return error;
  return new LockLost(trouble.message, { hint: RUN_AGAIN, cause: error });
}

/** Whether it comes from what S3 said, or did not say. */
function isOfBucket(error: unknown): boolean {
  if (error instanceof S3Error || error instanceof PreconditionFailed) return true;
  return error instanceof Error && error.cause !== undefined && isOfBucket(error.cause);
}

/** Models of a release in the order in which to take them out: no ensemble is ever without what it is made of. */
function ensemblesFirst(names: readonly string[], release: Release | undefined): string[] {
  return servedModels(names, release?.models ?? {})
    .map(({ name }) => name)
    .reverse();
}

const isUnfinished = ({ switching, removing, deleting }: Intent): boolean =>
  switching.length + removing.length + deleting.length > 0;

/** Whether the bucket or the release would be another one afterwards. */
function needsWriting(plan: Plan, { head }: SeenRepository): boolean {
  if (plan.prune.length > 0 || plan.remove.length > 0 || plan.models.some(isChanged)) return true;
  return plan.models.some((planned) => {
    const released = head?.release.models[planned.model.name];
    return objectsOf(planned).some(({ object, etag }) => released?.objects[object.key]?.etag !== etag);
  });
}
