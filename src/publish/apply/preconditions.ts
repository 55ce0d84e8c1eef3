import { UserError } from '../../core/errors';
import type { ChangeOptions, Target } from './options';
import { versionOf } from '../keys';
import { conflicts, isConflict, type Plan } from '../plan/plan';
import type { Release } from '../release/release';
import { requireAnswers } from './rollout';

/** A version folder of the bucket is never changed: what is served from it may be loaded again at any time. */
export class VersionConflict extends UserError {
  override readonly name = 'VersionConflict';
}

/**
 * @param hint what to do; default: to put the files into a new version folder
 * @throws VersionConflict
 */
export function requireNoConflict(plan: Plan, hint: Target['conflictHint']): void {
  const found = conflicts(plan);
  if (found.length === 0) return;
  const lines = found.map(({ key, reason }) => `${key} ${reason}`);
  throw new VersionConflict(`published versions are never changed, and these would be:\n  ${lines.join('\n  ')}`, {
    hint:
      hint?.(found.map(({ key }) => key)) ??
      `put the new files into a new version folder, ${nextFolder(plan)}; nothing was uploaded`,
  });
}

/** The folder to use instead: `resnet/3`. */
function nextFolder(plan: Plan): string {
  const planned = plan.models.find(isConflict);
  const versions = planned?.objects.flatMap(({ object }) => versionOf(object.key) ?? []) ?? [];
  return `${planned?.model.name}/${Math.max(...versions, ...(planned?.before ?? [])) + 1}`;
}

/**
 * An ensemble that stays must keep what it is made of.
 * @throws UserError when it would not
 */
export function requireRemovable(target: Target, release: Release | undefined): void {
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

/**
 * Whether the servers answer is found out before anything is written.
 * @throws UserError when one that is ready does not
 */
export async function requireReplicas({ replicas, onStage }: ChangeOptions): Promise<void> {
  if (replicas === undefined) return;
  const found = await replicas.list();
  if (found.length === 0)
    onStage?.(`no replica yet in ${replicas.describe()}: those that start later load it by themselves`);
  for (const replica of found) if (replica.ready) await requireAnswers(replica);
}
