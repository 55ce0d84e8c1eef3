import { UserError } from '../../core/errors';
import type { S3Store } from '../../s3/store';
import { RepositoryWriter } from './repository-writer';
import type { ApplyOptions } from './options';
import { isUnfinished } from './intent';
import { Lock, LockLostError, NO_INTENT, type Intent } from '../lock';
import { headKey, lockKey, releasesPrefix, type RepositoryLocation } from '../../release/location';
import { readSnapshot, type RepositorySnapshot } from '../plan/snapshot';
import { readRelease, releaseIds, type ReleasedModel } from '../release/release';
import { rollOut, type StillLoaded } from './rollout';
import { servedModels } from './served';
import { WaitForLock } from './wait-for-lock';

/**
 * Restores configurations that a killed publisher had begun to activate, in the bucket and on the replicas, and
 * finishes its deletions. Failures are reported and do not block later publishers, because these compare their models
 * with the actual contents of the bucket.
 * @param ours further models to restore
 * @returns whether the lock was acquired
 * @throws UserError if the pointer to the current release is missing, because every model then seems to be in no release
 */
export async function recover(
  seen: RepositorySnapshot,
  options: ApplyOptions,
  ours: readonly string[] = [],
): Promise<boolean> {
  const { store, location, onStage } = options;
  const { unfinished } = seen.lock;
  const isFirstRelease = seen.head === undefined && (await hasOnlyFirstRelease(store, location));
  const lock = await Lock.take(store, location, seen.lock, { ...NO_INTENT, switching: [...ours] });
  if (lock === undefined) return false;
  if (isFirstRelease) {
    // The killed publisher had written everything but the pointer. The next publisher adopts the models.
    await lock.release();
    return true;
  }
  if (isUnfinished(unfinished)) onStage?.('an earlier publisher was interrupted: undo its changes');
  const attempt = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      if (error instanceof LockLostError || options.signal?.aborted === true) throw error;
      onStage?.(`${what}: ${(error as Error).message}`);
    }
  };
  try {
    const writer = new RepositoryWriter(store, location, lock);
    const released = seen.head?.release.models ?? {};
    const switching = [...new Set([...unfinished.switching, ...ours])];
    for (const name of [...switching].reverse()) {
      await attempt(`cannot restore ${name}`, () => writer.restoreModel(name, released[name]));
    }
    await attempt('cannot restore every replica', () => recoverServers(unfinished, released, options));
    const kept = new Set(Object.values(released).flatMap(({ objects }) => Object.keys(objects)));
    const gone = unfinished.deleting.filter((key) => !kept.has(key));
    const { keepDeleted: keep } = unfinished;
    await attempt('cannot delete every object', () => writer.removeObjects(gone, seen, { keep }));
    // Abort unfinished copies; they are never resumed. Unfinished uploads are resumed by uploadVersions.
    await attempt('cannot abort unfinished copies', () => store.abortUploads(`${releasesPrefix(location)}/`));
  } catch (error) {
    await lock.release({ unfinished: true });
    throw error;
  }
  await lock.release();
  return true;
}

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

/** Restores the release on replicas that may have loaded the changes of a killed publisher. */
async function recoverServers(
  { switching, digests, removing }: Intent,
  released: Readonly<Record<string, ReleasedModel>>,
  options: ApplyOptions,
): Promise<void> {
  const names = [...new Set([...switching, ...removing])];
  if (names.length === 0) return;
  if (options.replicas === undefined) {
    options.onStage?.(`replicas may not serve ${names.join(', ')} as released; check with "npm run status"`);
    return;
  }
  const unknown = names.filter((name) => released[name] === undefined && (digests[name] ?? '') !== '');
  const target = {
    models: servedModels(names, released),
    removed: unknown.reverse().map((name) => ({ name, served: [], digest: digests[name] ?? '' })),
  };
  const stuck: StillLoaded[] = [];
  const onStillLoaded = (one: StillLoaded): unknown => stuck.push(one);
  await rollOut(options.replicas, target, { ...options, reload: true, waitForPending: false, onStillLoaded });
  for (const { replica, model, reason, restart } of stuck) {
    options.onStage?.(`${replica}: ${model} is still loaded (${reason}) -> ${restart}`);
  }
}

/**
 * Restores models to the current release. For a publisher that lost the lock without noticing: it may have written the
 * configuration of a model that the next publisher did not change.
 */
export async function repair(models: readonly string[], options: ApplyOptions): Promise<void> {
  const waiting = new WaitForLock(options);
  for (;;) {
    const seen = await readSnapshot(options.store, options.location);
    if (!(await waiting.isHeld(seen)) && (await recover(seen, options, models))) return;
  }
}
