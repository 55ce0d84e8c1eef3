import { PartialFailureError, UserError } from '../../core/errors';
import { PreconditionFailedError, type S3Store } from '../../s3/store';
import { MissingCopyError, RepositoryWriter } from './repository-writer';
import type { ApplyOptions } from './options';
import { isUnfinished } from './intent';
import { getModelName } from '../keys';
import { Lock, LockLostError, NO_INTENT, type Intent } from '../lock';
import { headKey, lockKey, type RepositoryLocation } from '../../release/location';
import { readSnapshot, type RepositorySnapshot } from '../plan/snapshot';
import { readRelease, releaseIds, type ReleasedModel } from '../release/release';
import { rollOut, STARTING_HINT, type RolloutOptions, type StillLoaded } from './rollout';
import { dependentsOf, servedModels } from './served';
import { WaitForLock } from './wait-for-lock';

/**
 * Restores configurations that a killed publisher had begun to activate, in the bucket and on the replicas, and
 * finishes its deletions. What can never succeed is reported and does not block later publishers, because these compare
 * their models with the actual contents of the bucket. If S3 fails, the lock keeps the intent, and the next publisher
 * tries again.
 * @param ours further changes to undo
 * @returns whether the lock was acquired
 * @throws UserError if the pointer to the current release is missing, because every model then seems to be in no release
 */
export async function recover(
  seen: RepositorySnapshot,
  options: ApplyOptions,
  ours: Intent = NO_INTENT,
): Promise<boolean> {
  const { store, location, onStage } = options;
  const isFirstRelease = seen.head === undefined && (await hasOnlyFirstRelease(store, location));
  const lock = await Lock.take(store, location, seen.lock, { ...ours, deleting: [], uploads: false });
  if (lock === undefined) return false;
  if (isFirstRelease) {
    // The killed publisher had written everything but the pointer. The next publisher adopts the models.
    await lock.release();
    return true;
  }
  const { intent: unfinished } = lock;
  if (isUnfinished(seen.lock.unfinished)) onStage?.('an earlier publisher was interrupted: undo its changes');
  /** Reports a failure if `isSkipped` accepts it, and throws any other. */
  const attempt = async (
    what: string,
    work: () => Promise<unknown>,
    isSkipped: (error: unknown) => boolean,
  ): Promise<boolean> => {
    try {
      await work();
      return true;
    } catch (error) {
      if (error instanceof LockLostError || options.signal?.aborted === true || !isSkipped(error)) throw error;
      onStage?.(`${what}: ${(error as Error).message}`);
      return false;
    }
  };
  try {
    const leased = store.withLease(lock);
    const writer = new RepositoryWriter(leased, location);
    const released = seen.head?.release.models ?? {};
    const failed: string[] = [];
    for (const name of [...unfinished.switching].reverse()) {
      const restore = (): Promise<void> => writer.restoreModel(name, released[name]);
      if (!(await attempt(`cannot restore ${name}`, restore, isPermanent))) failed.push(name);
    }
    // These models would be loaded as the killed publisher left them, also with an ensemble that contains them.
    const except = new Set([...failed, ...dependentsOf(failed, released).map(({ name }) => name)]);
    let starting: readonly string[] = [];
    const restoreReplicas = (reload: boolean): Promise<boolean> =>
      attempt(
        'cannot restore every replica',
        async () => (starting = await recoverServers(unfinished, released, { ...options, lock, reload, except })),
        () => true,
      );
    await restoreReplicas(true);
    const kept = new Set(Object.values(released).flatMap(({ objects }) => Object.keys(objects)));
    const gone = unfinished.deleting.filter((key) => !kept.has(key));
    const { keepDeleted: keep } = unfinished;
    // A replica that is starting reads every object of its models.
    if (gone.length > 0 && starting.length === 0) {
      await attempt('cannot delete every object', () => writer.removeObjects(gone, seen, { keep }), isPermanent);
      if (options.replicas !== undefined) await restoreReplicas(false);
    }
    if (starting.length > 0) {
      throw new PartialFailureError(
        `the changes of an earlier publisher are undone, except on replicas that are still starting: ${starting.join(', ')}`,
        { hint: STARTING_HINT },
      );
    }
  } catch (error) {
    await lock.release({ unfinished: true });
    throw error;
  }
  await lock.release();
  return true;
}

/** Whether the bucket lacks or has something that no later attempt changes. Any other error may pass. */
const isPermanent = (error: unknown): boolean =>
  error instanceof MissingCopyError || error instanceof PreconditionFailedError;

/**
 * Whether a publisher was killed between the first release and the pointer to it.
 * @throws UserError if there was a pointer before
 */
async function hasOnlyFirstRelease(store: S3Store, location: RepositoryLocation): Promise<boolean> {
  const [newest] = await releaseIds(store, location);
  if (newest === undefined) return false;
  if ((await readRelease(store, location, newest))?.previous === undefined) return true;
  const [head, lock] = [headKey(location), lockKey(location)].map((key) => `s3://${store.bucket}/${key}`);
  throw new UserError(
    `cannot undo the changes of an interrupted publisher: releases exist, but the pointer to the current one, ${head}, is missing`,
    {
      hint: `if the bucket was created less than 15 minutes ago, try again later; otherwise restore that object, or delete ${lock} to keep all models as they are`,
    },
  );
}

/**
 * Restores the release on replicas that may have loaded the changes of a killed publisher.
 * @param options `reload`: whether to load models again that replicas report as READY; `except`: models not to load
 * @returns replicas that are still starting after the load timeout, and may load those changes or miss deleted objects
 */
async function recoverServers(
  { switching, digests, removing, deleting }: Intent,
  released: Readonly<Record<string, ReleasedModel>>,
  { except, ...options }: ApplyOptions & Pick<RolloutOptions, 'lock' | 'reload'> & { except: ReadonlySet<string> },
): Promise<readonly string[]> {
  const changed = new Set([...switching, ...removing, ...deleting.map(getModelName)]);
  const names = [...changed].filter((name) => !except.has(name));
  if (names.length === 0) return [];
  if (options.replicas === undefined) {
    options.onStage?.(`replicas may not serve ${names.join(', ')} as released; check with "npm run status"`);
    return [];
  }
  const unknown = names.filter((name) => released[name] === undefined && (digests[name] ?? '') !== '');
  const target = {
    models: [...servedModels(names, released), ...dependentsOf(names, released)].filter(
      ({ name }) => !except.has(name),
    ),
    removed: unknown.reverse().map((name) => ({ name, served: [], digest: digests[name] ?? '' })),
  };
  const stuck: StillLoaded[] = [];
  const onStillLoaded = (one: StillLoaded): unknown => stuck.push(one);
  const { starting } = await rollOut(options.replicas, target, { ...options, onStillLoaded });
  for (const { replica, model, reason, restart } of stuck) {
    options.onStage?.(`${replica}: ${model} is still loaded (${reason}) -> ${restart}`);
  }
  return starting;
}

/**
 * Undoes our changes. For a publisher that lost the lock without noticing: it may have activated a model that the next
 * publisher did not change, in the bucket and on replicas.
 */
export async function repair(ours: Intent, options: ApplyOptions): Promise<void> {
  const waiting = new WaitForLock(options);
  for (;;) {
    const seen = await readSnapshot(options.store, options.location);
    if (!(await waiting.isHeld(seen)) && (await recover(seen, options, ours))) return;
  }
}
