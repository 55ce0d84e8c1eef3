import { UserError } from '../core/errors';

/** What a release says of a model's weights. */
interface Weighted {
  name: string;
  served: readonly number[];
  /** Version -> where they come from. */
  weights: Readonly<Record<string, string>>;
  /** Version -> kind; releases from before it was recorded have none. */
  weightKinds?: Readonly<Record<string, string>>;
}

/** What tracing says of weights that it drew: `Weights.random` in python/tracing/contract.py. */
const DRAWN = /^seeded random weights/;

/**
 * Refuses models of which a served version has random weights. What no trace made, such as a model.pt of the user's
 * own, has no kind: only a trace draws weights.
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
  throw new UserError(`release ${release} serves random weights, which --require-pretrained refuses`, {
    problems,
    hint: 'name trained weights in model-repo/MODEL/weights.yaml, trace a new version and publish it; or leave the models out with --models',
  });
}
