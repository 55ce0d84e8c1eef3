import { UserError } from '../core/errors';
import { S3Error, type S3Store } from '../s3/store';
import { change } from './apply/apply';
import type { Changed, ChangeOptions } from './apply/options';
import { isReplaceable } from './keys';
import { formatLocation, keptKey, type RepositoryLocation } from './location';
import type { Provenance } from './release/provenance';
import { readHead, type ReleasedObject } from './release/release';
import { requirePretrained } from './require-pretrained';
import { carriedProvenance, findRelease, modelsOf } from './rollback';
import { selectModels } from './plan/select-models';
import type { WantedObject } from './plan/desired';

export interface PromoteOptions extends ChangeOptions {
  from: { store: S3Store; location: RepositoryLocation };
  /** Of `from`; undefined: the one it is at. */
  release?: string;
  /** Only these models of it; what an ensemble is made of has to be among them. */
  models?: readonly string[];
  /** Refuses random weights. */
  requirePretrained?: boolean;
}

/**
 * Publishes the very bytes of a release of one repository to another one, copied by S3 itself where it can.
 * Models that only the other one has stay as they are.
 */
export async function promote(options: PromoteOptions): Promise<Changed> {
  const { from, models: selection } = options;
  const where = formatLocation(from.location);
  const head = await readHead(from.store, from.location).catch((error: unknown) => {
    // Whether the current manifest can be read does not matter to a release that was asked for by its id.
    if (options.release === undefined || error instanceof S3Error) throw error;
    return undefined;
  });
  const current = head?.release;
  const release =
    options.release === undefined ? current : await findRelease(from.store, from.location, options.release, current);
  if (release === undefined) {
    throw new UserError(`${where} has no release yet`, { hint: 'publish one there first: npm run sync-models' });
  }
  const sourceOf = (key: string, { checksum }: ReleasedObject): Pick<WantedObject, 'source'> => {
    const kept = { store: from.store, key: keptKey(from.location, checksum) };
    const there = { store: from.store, key: `${from.location.prefix}/${key}` };
    return { source: { stored: isReplaceable(key) ? [kept] : [there, kept] } };
  };
  const models = selectModels(modelsOf(release, sourceOf, from), selection, { release, where });
  if (options.requirePretrained === true) requirePretrained(models, release.id);
  for (const object of models.flatMap(({ objects }) => objects)) {
    // Found in the bucket by the first release, and nobody had to compare it since.
    if (object.checksum !== undefined) continue;
    const checksum = await from.store.checksum(`${from.location.prefix}/${object.key}`, object.bytes);
    if (checksum !== undefined) object.checksum = checksum;
  }
  const origin = `promoted from ${where}, release ${release.id}`;
  const provenance = (): Promise<Provenance> => Promise.resolve(carriedProvenance(release, options));
  const target = { models, remove: [], keepRemoved: true, prune: false, origin, provenance };
  return change(() => Promise.resolve(target), options);
}
