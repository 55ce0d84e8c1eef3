import { UserError } from '../errors';
import type { S3Store } from '../s3/store';
import { change, type ChangeOptions, type Changed } from './change';
import { isSwitched } from './keys';
import { formatLocation, keptKey, type RepositoryLocation } from './location';
import { readHead, readRelease } from './release';
import { modelsOf } from './rollback';

export interface PromoteOptions extends ChangeOptions {
  from: { store: S3Store; location: RepositoryLocation };
  /** Of `from`; undefined: the one it is at. */
  release?: string;
  /** Only these models of it; what an ensemble is made of has to be among them. */
  models?: readonly string[];
}

/**
 * Publishes the very bytes of a release of one repository to another one, copied by S3 itself where it can.
 * Models that only the other one has stay as they are.
 */
export async function promote(options: PromoteOptions): Promise<Changed> {
  const { from, models: selection } = options;
  const where = formatLocation(from.location);
  const head = await readHead(from.store, from.location);
  const release =
    options.release === undefined ? head?.release : await readRelease(from.store, from.location, options.release);
  if (release === undefined) {
    throw new UserError(`${where} has no release ${options.release ?? 'yet'}`, {
      hint: '"npm run releases" lists those there are',
    });
  }
  const all = modelsOf(release, (key, { checksum }) => {
    const at = isSwitched(key) ? keptKey(from.location, checksum) : `${from.location.prefix}/${key}`;
    return { source: { stored: [{ store: from.store, key: at }] } };
  });
  const unknown = selection?.find((name) => release.models[name] === undefined);
  if (unknown !== undefined) {
    throw new UserError(`release ${release.id} of ${where} has no model "${unknown}"`, {
      hint: `it has ${Object.keys(release.models).join(', ')}`,
    });
  }
  const models = selection === undefined ? all : all.filter(({ name }) => selection.includes(name));
  for (const { name, composedOf } of models) {
    const missing = composedOf.find((step) => !models.some((model) => model.name === step));
    if (missing !== undefined) {
      throw new UserError(`${name} is made of ${missing}, which is not among --models`, { hint: `add ${missing}` });
    }
  }
  for (const object of models.flatMap(({ objects }) => objects)) {
    // Found in the bucket by the first release, and nobody had to compare it since.
    if (object.checksum !== undefined) continue;
    const checksum = await from.store.checksum(`${from.location.prefix}/${object.key}`, object.bytes);
    if (checksum !== undefined) object.checksum = checksum;
  }
  const origin = `promoted from ${where}, release ${release.id}`;
  return change(() => Promise.resolve({ models, remove: [], keepRemoved: true, prune: false, origin }), options);
}
