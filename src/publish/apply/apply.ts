import { isDeepStrictEqual } from 'node:util';
import { PartialFailureError, UserError } from '../../core/errors';
import { formatCount } from '../../core/format';
import { PreconditionFailedError, type S3Store, type SeenObject } from '../../s3/store';
import { ensurePlaceholder, RepositoryWriter } from './repository-writer';
import { Asker } from './asker';
import type { ApplyResult, ApplyOptions, DesiredState } from './options';
import { storedGolden } from '../release/golden-object';
import { firstIntent, createIntent, isUnfinished } from './intent';
import { isOfBucket, Lock, LockLostError, getReason, RUN_AGAIN } from '../lock';
import { isReplaceable } from '../keys';
import { archiveKey } from '../../release/location';
import { readSnapshot, type RepositorySnapshot } from '../plan/snapshot';
import { isChanged, isGoldenChanged, makePlan, needsWriting, type Plan, type PlannedModel } from '../plan/plan';
import { repair, recover } from './recover';
import {
  newRelease,
  UnknownHeadError,
  writeHead,
  type CurrentRelease,
  type Release,
  type ReleasedModel,
} from '../release/release';
import { requireNoConflict, requireRemovable, requireReplicas } from './preconditions';
import {
  requireNoneStarting,
  rollOut,
  STARTING_HINT,
  stillLoadedError,
  type RolloutOptions,
  type RolloutResult,
  type RolloutTarget,
  type ServedModel,
  type StillLoaded,
} from './rollout';
import { dependentsOf, reverseTopologicalOrder, servedModel, servedModels } from './served';
import { WaitForLock } from './wait-for-lock';
import type { DesiredModel } from '../plan/desired';

/**
 * Changes the repository and what is served from it, or leaves both as they were:
 *
 * 1. acquire the lock; undo what a killed publisher had begun
 * 2. upload the version folders, which no configuration refers to yet
 * 3. activate the configurations, composing models before their ensembles
 * 4. load the models on one replica after the other, and wait until each version is READY
 * 5. write the release; only then delete objects that are no longer needed
 *
 * If step 3 or 4 fails, the configurations of the previous release are restored and loaded. A model that cannot be
 * unloaded is not a failure, because every replica serves the desired versions by then.
 *
 * @param getTarget returns the desired state, given the current release
 */
export async function applyChange(
  getTarget: (release: Release | undefined) => Promise<DesiredState>,
  options: ApplyOptions,
): Promise<ApplyResult> {
  const { store, location } = options;
  let confirmed = new Set<string>();
  const waiting = new WaitForLock(options);
  for (let snapshot = options.firstSnapshot; ; snapshot = undefined) {
    options.signal?.throwIfAborted();
    const seen = await (snapshot ?? readSnapshot(store, location));
    if (options.dryRun !== true && (await waiting.isHeld(seen))) continue;
    if (options.dryRun !== true && isUnfinished(seen.lock.unfinished)) {
      await recover(seen, options);
      continue;
    }
    const target = await getTarget(seen.head?.release);
    requireRemovable(target, seen.head?.release);
    const remove = reverseTopologicalOrder(target.remove, seen.head?.release);
    const { prune, archiveRemoved, replacePublished = false } = target;
    const plan = await makePlan(target.models, seen, {
      store,
      location,
      prune,
      remove,
      archiveRemoved,
      replacePublished,
    });
    options.onPlan?.(plan);
    requireNoConflict(plan, target);
    await target.check?.(plan);
    await requireReplicas(options);
    const noChanges = !needsWriting(plan, seen);
    const noOpenUploads = !seen.lock.unfinished.uploads;
    const hasReplicas = options.replicas !== undefined || options.activate !== undefined;
    if (options.dryRun === true || (noChanges && noOpenUploads && !hasReplicas)) {
      return { plan, release: seen.head?.release, isNew: false };
    }
    if (plan.prune.some((key) => !confirmed.has(key)) && !plan.archivePruned) {
      if ((await options.confirmPrune?.(plan)) === false) {
        throw new UserError('nothing was published, because the deletion was not confirmed', {
          hint: 'omit --prune, or confirm the deletion with --yes',
        });
      }
      confirmed = new Set(plan.prune);
    }
    const lock = await Lock.take(store, location, seen.lock, firstIntent(plan));
    if (lock !== undefined) return new ChangeRun({ seen, plan, target, lock, options }).run(noChanges);
  }
}

interface Begun {
  seen: RepositorySnapshot;
  plan: Plan;
  target: DesiredState;
  lock: Lock;
  options: ApplyOptions;
}

/** A change for which we hold the lock. */
class ChangeRun {
  /** The bucket; its writes need the lock. */
  private readonly store: S3Store;
  private readonly writer: RepositoryWriter;
  private readonly changed: PlannedModel[];
  private head: CurrentRelease | undefined;
  private readonly unconfirmedLoads = new Set<string>();
  /** Undefined with --no-ask. */
  private readonly asker: Asker | undefined;
  /** Models that could not be unloaded, by `REPLICA MODEL`. */
  private readonly stuck = new Map<string, StillLoaded>();
  /** Models that `activate` reported as failed, steps before their ensembles. */
  private failed: readonly string[] = [];
  /** Whether this change replaces objects of released versions in place. */
  private replacesVersions = false;
  /** Archived copies of objects that this change replaces in place, with their full keys. */
  private copies: SeenObject[] = [];
  /** Settles when the replaceable objects of the new release have copies. */
  private keeping: Promise<void> | undefined;
  /** The result of the last rollout. */
  private replicas: RolloutResult | undefined;

  constructor(private readonly begun: Begun) {
    const { options, lock, plan, seen } = begun;
    const { onBytes, signal } = options;
    this.store = options.store.withLease(lock);
    this.writer = new RepositoryWriter(this.store, options.location, {
      onBytes,
      signal,
    });
    this.changed = plan.models.filter(isChanged);
    this.head = seen.head;
    if (options.noAsk !== true && options.ask === undefined) this.asker = this.newAsker();
  }

  private newAsker(): Asker {
    const { options, plan, seen } = this.begun;
    const { store, location } = options;
    const released = seen.head?.release.models ?? {};
    const models = plan.models.map(({ model }) => model);
    const desired = new Map(models.map((model) => [model.name, model]));
    const due = [
      ...this.changed.map(({ model }) => model),
      ...models.filter((model) => isGoldenChanged(model, released[model.name])),
    ];
    return new Asker({
      golden: (name) => {
        const model = desired.get(name);
        if (model !== undefined) return model.golden;
        const golden = released[name]?.golden;
        return golden === undefined ? undefined : storedGolden(store, location, golden);
      },
      before: (name) => released[name]?.asked,
      due: new Set(due.map(({ name }) => name)),
      signal: options.signal,
      onAsked: options.onAsked,
    });
  }

  async run(noChanges: boolean): Promise<ApplyResult> {
    const { lock, options, plan } = this.begun;
    let unfinished = false;
    try {
      await this.upload(noChanges);
      unfinished = true;
      try {
        await this.activate(noChanges);
      } catch (error) {
        if (error instanceof UnknownHeadError) throw error;
        const lockError = await this.checkLock();
        const reason = getReason(error, lockError);
        const result = await this.restore(reason, lockError);
        unfinished = false;
        await this.deleteCopies();
        throw result;
      }
      await this.prune();
      unfinished = false;
      await this.deleteCopies();
      const release = this.head?.release;
      return {
        plan,
        release,
        isNew: !noChanges,
        replicas: this.replicas,
        stillLoaded: [...this.stuck.values()],
        asked: this.asker?.asked,
      };
    } finally {
      await lock.release({ unfinished, noOpenUploads: true }).catch((error: unknown) => {
        // The lock expires without a release.
        options.onStage?.(`cannot release the lock, which expires after a minute: ${(error as Error).message}`);
      });
    }
  }

  private async upload(noChanges: boolean): Promise<void> {
    const { options, plan } = this.begun;
    try {
      if (!noChanges) await this.recordUnmanaged();
      await this.archiveReplaced();
      // Later releases need these copies. Only the release of this change waits for them.
      this.keeping = this.writer.archiveCopies(this.changed, (name) => this.head?.release.models[name]);
      this.keeping.catch(() => undefined);
      if (plan.models.some(({ orphaned }) => orphaned.length > 0)) {
        await requireNoneStarting(options, 'cannot delete orphaned objects of version folders');
      }
      await this.writer.uploadVersions(plan.models, this.begun.seen);
      const released = this.head?.release.models ?? {};
      const models = plan.models.map(({ model }) => model);
      await this.writer.uploadGolden(models.filter((model) => isGoldenChanged(model, released[model.name])));
    } catch (error) {
      throw await this.explained(error);
    }
    options.signal?.throwIfAborted();
  }

  /** Archives released objects of version folders that this change replaces or deletes, until it is finished. */
  private async archiveReplaced(): Promise<void> {
    const { plan, seen, options } = this.begun;
    const replaced = plan.models.flatMap(({ model, objects, orphaned }) => {
      const keys = objects.filter(({ action }) => action === 'replace').map(({ object }) => object.key);
      const released = this.head?.release.models[model.name]?.objects ?? {};
      return [...keys, ...orphaned].filter((key) => released[key] !== undefined && !isReplaceable(key));
    });
    this.replacesVersions = replaced.length > 0;
    if (!this.replacesVersions) return;
    const there = new Set((await this.store.list(archiveKey(options.location, ''))).map(({ key }) => key));
    this.copies = (await this.writer.archive(replaced, seen)).filter(({ key }) => !there.has(key));
  }

  /** Without this, each edit under `npm run local` would leave a copy of the weights. */
  private async deleteCopies(): Promise<void> {
    await this.store.delete(this.copies).catch(() => undefined);
  }

  /** Returns a LockLostError if the loss of the lock caused the error, else the error itself. */
  private async explained(error: unknown): Promise<unknown> {
    return isOfBucket(error) ? getReason(error, await this.checkLock()) : error;
  }

  /** @returns undefined while we hold the lock, else LockLostError or the error that prevented the check */
  private async checkLock(): Promise<Error | undefined> {
    try {
      await this.begun.lock.confirm();
      return undefined;
    } catch (error) {
      return error as Error;
    }
  }

  private async activate(noChanges: boolean): Promise<void> {
    const { plan, options } = this.begun;
    await this.writer.switchModels(this.changed);
    this.failed = (await options.activate?.(plan.models.map(({ model }) => model))) ?? [];
    const lost = await this.restoreFailed();
    const ask = options.ask ?? this.asker?.ask;
    await this.load({ ...this.newTarget(), removed: [] }, { ask });
    // Unload models only after every replica accepted the new ones, because an unloaded model cannot be restored
    // without an interruption.
    if (plan.remove.length > 0) await this.load(this.newTarget(), { waitForPending: false, ask });
    await this.keeping;
    if (!noChanges || this.failed.length > 0) await this.release(lost);
  }

  /**
   * Restores the models that `activate` reported as failed to the previous release, and loads that.
   * @returns the models that are not served: the previous release has no other files of them and of their steps, or these
   * fail to load
   */
  private async restoreFailed(): Promise<string[]> {
    const { plan } = this.begun;
    const before = this.head?.release.models ?? {};
    const restored: string[] = [];
    const lost: DesiredModel[] = [];
    for (const planned of plan.models.filter(({ model }) => this.failed.includes(model.name))) {
      const { model } = planned;
      const released = before[model.name];
      const differs =
        isChanged(planned) ||
        isGoldenChanged(model, released) ||
        model.composedOf.some((step) => restored.includes(step));
      if (released !== undefined && differs && (await this.loadPrevious(model.name, released))) {
        restored.push(model.name);
      } else {
        await this.writer.restoreModel(model.name, undefined);
        lost.unshift(model);
      }
    }
    if (lost.length > 0) await this.load({ models: [], removed: lost }, { waitForPending: false });
    return lost.map(({ name }) => name);
  }

  /** @returns whether the model was restored and loaded */
  private async loadPrevious(name: string, released: ReleasedModel): Promise<boolean> {
    await this.writer.restoreModel(name, released);
    const target = { models: [servedModel(name, released)], removed: [] };
    try {
      await this.load(target, { reload: true, waitForPending: false });
      return true;
    } catch {
      this.begun.options.signal?.throwIfAborted();
      return false;
    }
  }

  /**
   * Records models that another tool published as a release before they are changed, so that this release can be
   * restored.
   */
  private async recordUnmanaged(): Promise<void> {
    const { seen, plan, options, lock } = this.begun;
    const unmanaged = plan.models.filter((planned) => planned.unmanaged);
    if (unmanaged.length === 0) return;
    const models: Record<string, ReleasedModel> = { ...this.head?.release.models };
    for (const { model, config } of unmanaged) {
      const recorded = await this.writer.recordUnmanaged(model.name, seen);
      models[model.name] = recorded;
      const etag = recorded.objects[config.object.key]?.etag;
      if (etag !== undefined) config.etag = etag;
    }
    const origin = 'found in the bucket';
    const release = newRelease({ previous: this.head?.release.id, origin, models });
    this.head = await writeHead(this.store, options.location, release, this.head);
    await lock.setIntent(createIntent(plan));
  }

  private async load(target: RolloutTarget, more: Partial<RolloutOptions> = {}): Promise<void> {
    const { options } = this.begun;
    if (options.replicas === undefined) return;
    const { unconfirmedLoads, onStillLoaded } = this;
    const rollout = { ...options, lock: this.begun.lock, unconfirmedLoads, onStillLoaded, ...more };
    this.replicas = await rollOut(options.replicas, target, rollout);
  }

  private readonly onStillLoaded = (stuck: StillLoaded): void => {
    this.stuck.set(`${stuck.replica} ${stuck.model}`, stuck);
  };

  /** @param lost failed models that are left out of the release */
  private async release(lost: readonly string[]): Promise<void> {
    const { seen, plan, options, target } = this.begun;
    const before = this.head?.release.models ?? {};
    const gone = [...target.remove, ...lost];
    const kept = Object.entries(before).filter(([name]) => !gone.includes(name));
    const models: Record<string, ReleasedModel> = Object.fromEntries(kept);
    const pruned = new Set(plan.prune);
    for (const planned of plan.models) {
      const { name } = planned.model;
      if (this.failed.includes(name)) continue;
      const described = this.writer.describe(planned, seen, before[name], pruned);
      // An unchanged model keeps the result that an earlier release recorded.
      const stays = !isChanged(planned) && !isGoldenChanged(planned.model, before[name]);
      const asked = this.asker?.asked.get(name) ?? (stays ? before[name]?.asked : undefined);
      models[name] = { ...described, asked };
    }
    // The previous release was read from JSON, which omits undefined fields.
    if (this.failed.length > 0 && isDeepStrictEqual(JSON.parse(JSON.stringify(models)), before)) return;
    const { origin, restores } = target;
    const provenance = await target.provenance?.();
    const release = newRelease({
      previous: this.head?.release.id,
      origin,
      models,
      restores,
      provenance,
      notAsked: options.noAsk === true ? true : undefined,
    });
    try {
      this.head = await writeHead(this.store, options.location, release, this.head);
    } catch (error) {
      if (!(error instanceof PreconditionFailedError)) throw error;
      throw new LockLostError('another publisher wrote a release while this publisher was running', {
        hint: RUN_AGAIN,
        cause: error,
      });
    }
  }

  /**
   * Deletes objects that are no longer needed. The release is already in service, so a failure here does not undo it.
   */
  private async prune(): Promise<void> {
    const { plan, options, seen, lock } = this.begun;
    if (plan.prune.length === 0) return;
    options.onStage?.(
      `${plan.archivePruned ? 'archive' : 'delete'} ${formatCount(plan.prune.length, 'object')} that the release no longer needs`,
    );
    try {
      await requireNoneStarting(options, 'objects cannot be deleted');
      await lock.confirm();
      await this.writer.removeObjects(plan.prune, seen, { keep: plan.archivePruned });
      // Triton does not start on a repository without objects.
      if (seen.objects.size <= plan.prune.length) await ensurePlaceholder(this.store, options.location);
      // A replica that started meanwhile may have loaded models that are deleted now, or have failed to load others.
      await this.load(this.newTarget());
    } catch (error) {
      const { message, hint } = (await this.explained(error)) as UserError;
      const next = 'the next sync-models or rollback continues the deletion';
      throw new PartialFailureError(
        `release ${this.head?.release.id} is active, but not every object was deleted: ${message}`,
        { hint: hint === STARTING_HINT ? `${hint}; ${next}` : next, cause: error },
      );
    }
    const starting = this.replicas?.starting ?? [];
    if (starting.length === 0) return;
    throw new PartialFailureError(
      `release ${this.head?.release.id} is active, but replicas that started during the deletion are still starting: ${starting.join(', ')}`,
      { hint: STARTING_HINT },
    );
  }

  /**
   * Restores and loads the previous release.
   * @param lockError the result of checkLock()
   * @returns the error to throw: the reason, or an error that also names models that could not be unloaded
   * @throws PartialFailureError if the previous release cannot be restored
   */
  private async restore(reason: unknown, lockError: Error | undefined): Promise<unknown> {
    const { options, plan } = this.begun;
    if (this.changed.length + plan.remove.length === 0) return reason;
    if (this.unconfirmedLoads.size > 0) {
      // The same model may wait for the unanswered load, until its own limit.
      const { message, hint } = reason as UserError;
      options.onStage?.(`${message}${hint === undefined ? '' : `\n       -> ${hint}`}`);
    }
    let starting: readonly string[];
    try {
      starting = await this.restorePrevious(lockError);
    } catch (error) {
      throw new PartialFailureError(
        `${(reason as Error).message}\nRestoring the previous release failed too: ${(error as Error).message}`,
        {
          hint: '"npm run status" shows what each replica serves; the next sync-models or rollback tries again',
          cause: reason,
        },
      );
    }
    if (starting.length > 0) {
      throw new PartialFailureError(
        `${(reason as Error).message}\nThe previous release is restored, except on replicas that are still starting: ${starting.join(', ')}`,
        { hint: STARTING_HINT, cause: reason },
      );
    }
    options.onStage?.(
      `restored ${this.head === undefined ? 'the repository, which has no release' : `release ${this.head.release.id}`}`,
    );
    if (this.stuck.size === 0) return reason;
    const message = `${(reason as Error).message}\nEvery replica serves the previous release, but not every new model could be unloaded:`;
    return stillLoadedError(message, [...this.stuck.values()], reason);
  }

  /** @returns the replicas that are still starting, and may load what is undone here */
  private async restorePrevious(lockError: Error | undefined): Promise<readonly string[]> {
    const { options, plan } = this.begun;
    const before = this.head?.release.models ?? {};
    const names = this.changed.map(({ model }) => model.name);
    if (lockError instanceof LockLostError) {
      await repair(createIntent(plan), options);
      return [];
    }
    if (lockError !== undefined) throw lockError;
    options.onStage?.('the change failed: restore the previous release');
    for (const name of [...names].reverse()) await this.writer.restoreModel(name, before[name]);
    await this.writer.delete(this.modelsWithUnansweredLoad(before).flatMap((model) => this.writer.getPresent(model)));
    if (options.replicas === undefined) return [];
    const failed: string[] = [];
    const target = {
      models: [...servedModels([...names, ...plan.remove], before), ...this.dependents()],
      removed: this.changed
        .map(({ model }) => model)
        .filter(({ name }) => before[name] === undefined)
        .reverse(),
    };
    const { starting } = await rollOut(options.replicas, target, {
      ...options,
      lock: this.begun.lock,
      signal: undefined,
      // A replica that rejected a new version still serves the previous one, which need not be loaded again, unless its
      // files were replaced in place: a replica that started meanwhile has loaded them with the previous configuration.
      reload: this.replacesVersions,
      unconfirmedLoads: this.unconfirmedLoads,
      onFailure: (replica, error) => failed.push(`${replica}: ${error.message}`),
      onStillLoaded: this.onStillLoaded,
    });
    if (failed.length > 0)
      throw new UserError(`not every replica serves the previous release\n  ${failed.join('\n  ')}`);
    return starting;
  }

  /**
   * New models with an unanswered load, which may have crashed the server. All their files are deleted: Triton
   * generates a missing configuration for some backends, so a starting server could load the model without config.pbtxt
   * and crash again.
   */
  private modelsWithUnansweredLoad(before: Release['models']): PlannedModel[] {
    if (this.begun.options.signal?.aborted === true) return [];
    const isUnanswered = (name: string): boolean =>
      [...this.unconfirmedLoads].some((load) => load.endsWith(` ${name}`));
    return this.changed.filter(({ model: { name } }) => before[name] === undefined && isUnanswered(name));
  }

  private newTarget(): RolloutTarget {
    const { plan, seen } = this.begun;
    const before = seen.head?.release.models ?? {};
    return {
      models: [
        ...plan.models.map(({ model }) => model).filter(({ name }) => !this.failed.includes(name)),
        ...this.dependents(),
      ],
      removed: plan.remove.map((name) => servedModel(name, before[name] as ReleasedModel)),
    };
  }

  /** Ensembles that this change does not publish, but whose composing models it does. They must remain in service. */
  private dependents(): ServedModel[] {
    const { plan, seen } = this.begun;
    const planned = new Set([...plan.models.map(({ model }) => model.name), ...plan.remove]);
    const changed = this.changed.map(({ model }) => model.name);
    const others = Object.entries(seen.head?.release.models ?? {}).filter(([name]) => !planned.has(name));
    return dependentsOf(changed, Object.fromEntries(others));
  }
}
