import { UserError } from '../core/errors';
import { formatLocation, releaseKey } from '../release/location';
import type { Manifest } from '../release/manifest';
import { makeRelease } from './make-release';
import type { ReleaseOptions, ReleaseResult } from './options';
import { carriedProvenance, getModels, selectModels, type Bucket, type Releases } from './releases';

export interface RollbackOptions extends ReleaseOptions {
  /**
   * Restore only these models; the others stay as they are. They must include the composing models of their ensembles.
   */
  models?: readonly string[] | undefined;
}

/**
 * Makes a release with the models of an earlier one. Models that the earlier one does not have are removed.
 * @param id default: the release before the current one; after a rollback, the release before the restored one
 */
export async function rollBack(id: string | undefined, options: RollbackOptions): Promise<ReleaseResult> {
  const { location, models: selection } = options;
  let announced: string | undefined;
  return makeRelease(async (releases) => {
    const release = await releases.find(id ?? (await releaseBefore(releases.current, releases, options)));
    const { createdAt, by, origin } = release;
    if (announced !== release.id)
      options.onStage?.(`roll back to release ${release.id} of ${createdAt} by ${by} (${origin})`);
    announced = release.id;
    const models = selectModels(getModels(release, options), selection, { release, where: formatLocation(location) });
    const provenance = () => Promise.resolve(carriedProvenance(release, options.message));
    const shared = { models, provenance, replacePublished: true };
    if (selection !== undefined) {
      return { ...shared, remove: [], origin: `rollback of ${selection.join(', ')} to ${release.id}` };
    }
    return {
      ...shared,
      remove: Object.keys(releases.current?.models ?? {}).filter((name) => release.models[name] === undefined),
      origin: `rollback to ${release.id}`,
      restores: release.id,
    };
  }, options);
}

/** The id of the previous release. The predecessor of a rollback is the predecessor of the release that it restored. */
async function releaseBefore(
  release: Manifest | undefined,
  releases: Releases,
  { store, location }: Bucket,
): Promise<string> {
  const where = formatLocation(location);
  if (release === undefined) {
    throw new UserError(`cannot roll back ${where}: the repository has no release`, {
      hint: 'publish a release first: npm run sync-models',
    });
  }
  const { restores } = release;
  if (restores !== undefined) {
    const restored = await releases.read(restores);
    if (restored !== undefined) return releaseBefore(restored, releases, { store, location });
    const manifest = `s3://${store.bucket}/${releaseKey(location, restores)}`;
    throw new UserError(
      `cannot determine the release before ${release.id}: it restored ${restores}, and ${manifest} is missing`,
      { hint: 'choose the release yourself: npm run rollback -- ID; "npm run releases" lists the ids' },
    );
  }
  let { previous } = release;
  while (previous !== undefined) {
    const before: Manifest | undefined = await releases.read(previous);
    // Releases without models begin a repository (npm run local), so they are no state to go back to.
    if (before === undefined || Object.keys(before.models).length > 0) return previous;
    ({ previous } = before);
  }
  throw new UserError(`cannot roll back ${where}: there is no release before ${release.id}`, {
    hint: 'name a release: npm run rollback -- ID; "npm run releases" lists the ids',
  });
}
