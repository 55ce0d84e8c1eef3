import { PART_BYTES } from '../../s3/store';
import { NO_INTENT, type Intent } from '../lock';
import { isChanged, objectsOf, type Plan } from '../plan/plan';

/** What the plan is about to change, for the lock: what has to be undone or finished after us if we do not. */
export function intentOf(plan: Plan): Intent {
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
export const firstIntent = (plan: Plan): Intent =>
  plan.models.some(({ foreign }) => foreign) ? { ...NO_INTENT, uploads: uploadsInParts(plan) } : intentOf(plan);

const uploadsInParts = (plan: Plan): boolean =>
  plan.models.flatMap(objectsOf).some(({ object, action }) => action !== 'keep' && object.bytes > PART_BYTES);

/** Whether its holder left something to undo or to finish. Parts of uploads alone are none: they disturb nobody. */
export const isUnfinished = ({ switching, removing, deleting }: Intent): boolean =>
  switching.length + removing.length + deleting.length > 0;
