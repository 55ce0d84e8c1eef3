import { UserError } from '../core/errors';
import { S3Error, type S3Store } from '../s3/store';
import type { ApplyResult, ApplyOptions } from './apply/options';
import { change } from './change';
import { isReplaceable } from './keys';
import { FORMAT } from '../release/format';
import { formatLocation, archiveKey, type RepositoryLocation } from '../release/location';
import type { Provenance } from '../release/released';
import type { ReleaseArchive } from './release/archive';
import { readHead } from './release/release';
import { readFormat } from './trial/mode';
import { RetainedReleases } from './trial/snapshot';
import { requirePretrained } from './require-pretrained';
import { carriedProvenance, directArchive, getModels } from './rollback';
import { selectModels } from './plan/select-models';

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
  const archive = await openArchive(from, options);
  const release = options.release === undefined ? archive.current : await archive.find(options.release);
  if (release === undefined) {
    throw new UserError(`cannot promote from ${where}: the repository has no release`, {
      hint: 'publish to that repository first: npm run sync-models',
    });
  }
  const models = selectModels(
    getModels(release, (key, object) => archive.origin(release, key, object), from),
    selection,
    { release, where },
  );
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
  return change(() => Promise.resolve(target), options);
}

/** The releases of the repository to promote from, of either format. */
async function openArchive(
  from: PromoteOptions['from'],
  { release }: Pick<PromoteOptions, 'release'>,
): Promise<ReleaseArchive> {
  const { store, location } = from;
  if ((await readFormat(store, location)) === FORMAT) return RetainedReleases.read(from);
  const head = await readHead(store, location).catch((error: unknown) => {
    // A release that was requested by id does not need a readable current manifest.
    if (release === undefined || error instanceof S3Error) throw error;
    return undefined;
  });
  return {
    ...directArchive(store, location, head?.release),
    origin: (_, key, { checksum }) => {
      const kept = { store, key: archiveKey(location, checksum) };
      const there = { store, key: `${location.prefix}/${key}` };
      return { source: { stored: isReplaceable(key) ? [kept] : [there, kept] } };
    },
  };
}
