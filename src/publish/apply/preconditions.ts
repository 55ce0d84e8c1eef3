import { UserError } from '../../core/errors';
import { GOLDEN_FOLDER } from '../../model/golden/request';
import type { ApplyOptions, DesiredState } from './options';
import { getModelName, getVersion } from '../keys';
import { conflicts, isConflict, type Plan, type PlannedModel } from '../plan/plan';
import type { Release } from '../release/release';
import { requireAnswers } from './rollout';

/**
 * The plan would change a published version. Version folders in the bucket are immutable, because replicas may load a
 * served version again at any time.
 */
export class VersionConflictError extends UserError {
  override readonly name = 'VersionConflictError';
}

/** @throws VersionConflictError */
export function requireNoConflict(plan: Plan, { conflictHint, traceCommand }: ConflictAdvice): void {
  const found = conflicts(plan);
  if (found.length === 0) return;
  const lines = found.map(({ key, reason }) => `${key} ${reason}`);
  const keys = found.map(({ key }) => key);
  const steps = plan.models.filter(isConflict).map((planned) => describeWayOut(planned, keys, traceCommand));
  throw new VersionConflictError(`cannot change published versions:\n  ${lines.join('\n  ')}`, {
    hint: conflictHint?.(keys) ?? `${steps.join('\n  -> ')}; nothing was uploaded`,
  });
}

type ConflictAdvice = Pick<DesiredState, 'conflictHint' | 'traceCommand'>;

/** The next steps for one model. Without the last one, the next run would refuse the same files. */
function describeWayOut(
  { model: { name, served }, objects, before = [] }: PlannedModel,
  keys: readonly string[],
  traceCommand: ConflictAdvice['traceCommand'],
): string {
  const changed = [...new Set(keys.filter((key) => getModelName(key) === name).map(getVersion))] as number[];
  const folders = changed.map((version) => `${name}/${version}`).join(', ');
  if (!changed.some((version) => served.includes(version))) {
    return `restore or delete ${folders}, which version_policy does not name`;
  }
  const next = Math.max(...objects.flatMap(({ object }) => getVersion(object.key) ?? []), ...before) + 1;
  const trace = traceCommand?.(name, next);
  const create = trace ?? `put the new files into a new version folder, ${name}/${next}`;
  const golden = changed.map((version) => `${name}/${GOLDEN_FOLDER}/${version}`).join(', ');
  return `${create}; name ${next} in version_policy, if the model has one; then restore ${folders}, or delete ${folders} and ${golden}`;
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
