import { UserError } from '../core/errors';
import type { DesiredModel } from './desired';

/**
 * Rejects models with a served version that has random weights. A version that tracing did not make, such as the user's
 * own model.pt, has no kind and is accepted, because only tracing makes random weights.
 * @throws UserError that names each of them
 */
export function requirePretrained(
  models: readonly Pick<DesiredModel, 'name' | 'served' | 'weights' | 'weightKinds'>[],
  release: string,
): void {
  const problems = models.flatMap(({ name, served, weights, weightKinds }) =>
    served
      .filter((version) => weightKinds?.[String(version)] === 'random')
      .map((version) => ({ file: `${name} ${version}`, message: weights[String(version)] ?? 'random weights' })),
  );
  if (problems.length === 0) return;
  throw new UserError(`release ${release} serves random weights, which --require-pretrained does not allow`, {
    problems,
    hint: 'set trained weights in model-repo/MODEL/weights.yaml, trace a new version and publish it; or promote other models with --models',
  });
}
