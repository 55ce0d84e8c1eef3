import { UserError } from '../core/errors';
import { S3Error, type S3Store } from '../s3/store';
import { applyChange } from './apply/apply';
import type { ApplyResult, ApplyOptions } from './apply/options';
import { isReplaceable } from './keys';
import { formatLocation, archiveKey, type RepositoryLocation } from '../release/location';
import type { Provenance } from '../release/released';
import { readHead, type ReleasedObject } from './release/release';
import { requirePretrained } from './require-pretrained';
import { carriedProvenance, findRelease, getModels } from './rollback';
import { selectModels } from './plan/select-models';
import type { DesiredObject } from './plan/desired';

export interface PromoteOptions extends ApplyOptions {
  from: { store: S3Store; location: RepositoryLocation };
  /** Release of `from`; default: its current release. */
  release?: string;
  /** Promote only these models of the release. They must include the composing models of their ensembles. */
  models?: readonly string[];
  /** Refuses random weights. */
  requirePretrained?: boolean;
}

/**
 * Publishes the exact bytes of a release to another repository. S3 copies them itself where possible. Models that only
 * the other repository has stay as they are.
 */
export async function promote(options: PromoteOptions): Promise<ApplyResult> {
  const { from, models: selection } = options;
  const where = formatLocation(from.location);
  const head = await readHead(from.store, from.location).catch((error: unknown) => {
    // A release that was requested by id does not need a readable current manifest.
    if (options.release === undefined || error instanceof S3Error) throw error;
    return undefined;
  });
  const current = head?.release;
  const release =
    options.release === undefined ? current : await findRelease(from.store, from.location, options.release, current);
  if (release === undefined) {
    throw new UserError(`cannot promote from ${where}: the repository has no release`, {
      hint: 'publish to that repository first: npm run sync-models',
    });
  }
  const getSource = (key: string, { checksum }: ReleasedObject): Pick<DesiredObject, 'source'> => {
    const kept = { store: from.store, key: archiveKey(from.location, checksum) };
    const there = { store: from.store, key: `${from.location.prefix}/${key}` };
    return { source: { stored: isReplaceable(key) ? [kept] : [there, kept] } };
  };
  const models = selectModels(getModels(release, getSource, from), selection, { release, where });
  if (options.requirePretrained === true) requirePretrained(models, release.id);
  for (const object of models.flatMap(({ objects }) => objects)) {
    // The object was found in the bucket by the first release and never compared since, so its checksum is unknown.
    if (object.checksum !== undefined) continue;
    const checksum = await from.store.checksum(`${from.location.prefix}/${object.key}`, object.bytes);
    if (checksum !== undefined) object.checksum = checksum;
  }
  const origin = `promoted from ${where}, release ${release.id}`;
  const provenance = (): Promise<Provenance> => Promise.resolve(carriedProvenance(release, options));
  const target = { models, remove: [], archiveRemoved: true, prune: false, origin, provenance };
  return applyChange(() => Promise.resolve(target), options);
}
