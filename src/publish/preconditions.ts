import { UserError } from '../core/errors';
import { GOLDEN_FOLDER } from '../model/golden/request';
import { getVersion, type Manifest } from '../release/manifest';
import type { DesiredState } from './options';
import { isConflict, type Plan, type PlannedModel } from './plan';

/** The plan would change a published version. A number of a version is for one content. */
export class VersionConflictError extends UserError {
  override readonly name = 'VersionConflictError';
}

/** @throws VersionConflictError */
export function requireNoConflict(plan: Plan, { traceCommand }: DesiredState): void {
  const models = plan.models.filter(isConflict);
  if (models.length === 0) return;
  const lines = models.flatMap(({ model: { name }, files, missing }) => [
    ...files
      .filter(({ action }) => action === 'conflict')
      .map(({ file }) => `${name}/${file.path} is in the bucket with other bytes`),
    ...missing.map((path) => `${name}/${path} is in the bucket, but not in the folder that is published`),
  ]);
  const hint = `${models.map((model) => describeWayOut(model, traceCommand)).join('\n  -> ')}; nothing was uploaded`;
  throw new VersionConflictError(`cannot change published versions:\n  ${lines.join('\n  ')}`, { hint });
}

/** The next steps for one model. Without the last one, the next run would refuse the same files. */
function describeWayOut(
  { model: { name, newest }, files, missing, before = [] }: PlannedModel,
  traceCommand: DesiredState['traceCommand'],
): string {
  const conflicting = files.filter(({ action }) => action === 'conflict').map(({ file }) => file.path);
  const changed = [...new Set([...conflicting, ...missing].map(getVersion))];
  const folders = changed.map((version) => `${name}/${version}`).join(', ');
  const next = Math.max(newest, ...before) + 1;
  const create = traceCommand?.(name, next) ?? `put the new files into a new version folder, ${name}/${next}`;
  const golden = changed.map((version) => `${name}/${GOLDEN_FOLDER}/${version}`).join(', ');
  return `${create}; name ${next} in version_policy, if the model has one; then restore ${folders}, or delete ${folders} and ${golden}`;
}

/**
 * Verifies that the composing models of a remaining ensemble are not removed.
 * @throws UserError if one would be removed
 */
export function requireRemovable(target: DesiredState, release: Manifest | undefined): void {
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
