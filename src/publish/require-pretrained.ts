import { UserError } from '../core/errors';

/** The weights of a model as a release records them. */
interface Weighted {
  name: string;
  served: readonly number[];
  /** Version -> origin of its weights. */
  weights: Readonly<Record<string, string>>;
  /** Version -> kind of its weights; missing in releases from before it was recorded. */
  weightKinds?: Readonly<Record<string, string>>;
}

/** How tracing describes random weights: `Weights.random` in python/tracing/contract.py. */
const DRAWN = /^seeded random weights/;

/**
 * Rejects models with a served version that has random weights. A version that tracing did not make, such as the user's
 * own model.pt, has no kind and is accepted, because only tracing makes random weights.
 * @throws UserError that names each of them
 */
export function requirePretrained(models: readonly Weighted[], release: string): void {
  const problems = models.flatMap(({ name, served, weights, weightKinds }) =>
    served
      .map((version) => ({ version, kind: weightKinds?.[version], words: weights[version] ?? '' }))
      .filter(({ kind, words }) => kind === 'random' || (kind === undefined && DRAWN.test(words)))
      .map(({ version, words }) => ({ file: `${name} ${version}`, message: words === '' ? 'random weights' : words })),
  );
  if (problems.length === 0) return;
  throw new UserError(`release ${release} serves random weights, which --require-pretrained does not allow`, {
    problems,
    hint: 'set trained weights in model-repo/MODEL/weights.yaml, trace a new version and publish it; or promote other models with --models',
  });
}
