import { UserError } from '../core/errors';
import { formatLocation } from '../release/location';
import type { DesiredModel } from './desired';
import { makeRelease } from './make-release';
import type { ReleaseOptions, ReleaseResult } from './options';
import { carriedProvenance, getModels, Releases, selectModels, type Bucket } from './releases';

export interface PromoteOptions extends ReleaseOptions {
  from: Bucket;
  /** Release of `from`; default: its current release. */
  release?: string | undefined;
  /** Promote only these models of the release. They must include the composing models of their ensembles. */
  models?: readonly string[] | undefined;
  /** Refuses random weights. */
  requirePretrained?: boolean;
}

/**
 * Publishes the exact bytes of a release to another repository. S3 copies them itself where possible. Models that only
 * the other repository has stay as they are.
 */
export async function promote(options: PromoteOptions): Promise<ReleaseResult> {
  const { from, models: selection } = options;
  const where = formatLocation(from.location);
  const releases = await Releases.read(from);
  const release = options.release === undefined ? releases.current : await releases.find(options.release);
  if (release === undefined) {
    throw new UserError(`cannot promote from ${where}: the repository has no release`, {
      hint: 'publish to that repository first: npm run sync-models',
    });
  }
  const models = selectModels(getModels(release, from), selection, { release, where });
  if (options.requirePretrained === true) requirePretrained(models, release.id);
  return makeRelease(
    () =>
      Promise.resolve({
        models,
        remove: [],
        origin: `promoted from ${where}, release ${release.id}`,
        provenance: () => Promise.resolve(carriedProvenance(release, options.message)),
      }),
    options,
  );
}

/**
 * Rejects models with a served version that has random weights. A version that tracing did not make, such as the user's
 * own model.pt, has no kind and is accepted, because only tracing makes random weights.
 * @throws UserError that names each of them
 */
function requirePretrained(
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
