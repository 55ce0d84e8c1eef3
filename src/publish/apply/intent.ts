import { PART_BYTES } from '../../s3/store';
import { NO_INTENT, type Intent } from '../lock';
import { isChanged, getObjects, type Plan } from '../plan/plan';

/** The changes of a plan, for the lock. The next publisher undoes or finishes them if this publisher is killed. */
export function createIntent(plan: Plan): Intent {
  const changed = plan.models.filter(isChanged).map(({ model }) => model);
  return {
    switching: changed.map(({ name }) => name),
    digests: Object.fromEntries(changed.map(({ name, digest }) => [name, digest])),
    removing: plan.remove,
    deleting: plan.prune,
    keepDeleted: plan.archivePruned,
    uploads: uploadsInParts(plan),
  };
}

/**
 * The intent until models of other tools are recorded as a release. Those models must not be changed before, so the
 * intent then contains no changes.
 */
export const firstIntent = (plan: Plan): Intent =>
  plan.models.some(({ unmanaged }) => unmanaged) ? { ...NO_INTENT, uploads: uploadsInParts(plan) } : createIntent(plan);

const uploadsInParts = (plan: Plan): boolean =>
  plan.models.flatMap(getObjects).some(({ object, action }) => action !== 'keep' && object.bytes > PART_BYTES);

/**
 * Whether the holder left changes to undo or finish. Open multipart uploads do not count, because they do not affect
 * other publishers.
 */
export const isUnfinished = ({ switching, removing, deleting }: Intent): boolean =>
  switching.length + removing.length + deleting.length > 0;
