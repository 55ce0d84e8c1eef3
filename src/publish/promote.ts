import { UserError } from '../core/errors';
import { formatLocation } from '../release/location';
import { makeRelease } from './make-release';
import type { ReleaseOptions, ReleaseResult } from './options';
import { carriedProvenance, getModels, Releases, type Bucket } from './releases';
import { requirePretrained } from './require-pretrained';
import { selectModels } from './select-models';

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
