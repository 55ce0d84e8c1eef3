import { UserError } from '../../core/errors';
import type { ApplyOptions, DesiredState } from './options';
import { getVersion } from '../keys';
import { conflicts, isConflict, type Plan } from '../plan/plan';
import type { Release } from '../release/release';
import { requireAnswers } from './rollout';

/**
 * The plan would change a published version. Version folders in the bucket are immutable, because replicas may load a
 * served version again at any time.
 */
export class VersionConflictError extends UserError {
  override readonly name = 'VersionConflictError';
}

/**
 * @param hint returns the next step; default: put the files into a new version folder
 * @throws VersionConflictError
 */
export function requireNoConflict(plan: Plan, hint: DesiredState['conflictHint']): void {
  const found = conflicts(plan);
  if (found.length === 0) return;
  const lines = found.map(({ key, reason }) => `${key} ${reason}`);
  throw new VersionConflictError(`cannot change published versions:\n  ${lines.join('\n  ')}`, {
    hint:
      hint?.(found.map(({ key }) => key)) ??
      `put the new files into a new version folder, ${nextFolder(plan)}; nothing was uploaded`,
  });
}

/** The version folder to use instead: `resnet/3`. */
function nextFolder(plan: Plan): string {
  const planned = plan.models.find(isConflict);
  const versions = planned?.objects.flatMap(({ object }) => getVersion(object.key) ?? []) ?? [];
  return `${planned?.model.name}/${Math.max(...versions, ...(planned?.before ?? [])) + 1}`;
}

/**
 * Verifies that the composing models of a remaining ensemble are not removed.
 * @throws UserError if one would be removed
 */
export function requireRemovable(target: DesiredState, release: Release | undefined): void {
  const removed = new Set(target.remove);
  const wanted = new Map(target.models.map((model) => [model.name, model.composedOf]));
  for (const [name, { composedOf }] of Object.entries(release?.models ?? {})) {
    if (!removed.has(name) && !wanted.has(name)) wanted.set(name, composedOf);
  }
  for (const [name, composedOf] of wanted) {
    const missing = composedOf.find((step) => removed.has(step));
    if (missing === undefined) continue;
    throw new UserError(`cannot remove ${missing}, because ensemble ${name} contains it`, {
      hint: `remove ${name} too, or keep ${missing}`,
    });
  }
}

/**
 * Verifies that the replicas answer before anything is written.
 * @throws UserError if a ready replica does not answer
 */
export async function requireReplicas({ replicas, onStage }: ApplyOptions): Promise<void> {
  if (replicas === undefined) return;
  const found = await replicas.list();
  if (found.length === 0) {
    onStage?.(`no replica is running (${replicas.describe()}); replicas that start later load the release themselves`);
  }
  for (const replica of found) if (replica.ready) await requireAnswers(replica);
}
