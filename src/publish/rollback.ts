import { UserError } from '../core/errors';
import { firstLines } from '../core/format';
import { nextCommand } from '../core/next-command';
import type { S3Store, StoredObject } from '../s3/store';
import type { ApplyResult, ApplyOptions } from './apply/options';
import { change } from './change';
import type { Plan } from './plan/plan';
import type { ReleaseArchive } from './release/archive';
import { releaseHistory, wasReleased } from './release/history';
import { storedGolden } from './release/golden-object';
import { CONFIG_FILE, isReplaceable, getModelName, getVersion, getVersions } from './keys';
import { formatLocation, archiveKey, releaseKey, type RepositoryLocation } from '../release/location';
import type { Provenance } from '../release/released';
import {
  readHead,
  readRelease,
  releaseIds,
  type Release,
  type ReleasedModel,
  type ReleasedObject,
} from './release/release';
import { selectModels } from './plan/select-models';
import { topologicalOrder, type DesiredModel, type DesiredObject } from './plan/desired';

export interface RollbackOptions extends ApplyOptions {
  /**
   * Restore only these models; the others stay as they are. They must include the composing models of their ensembles.
   */
  models?: readonly string[];
}

/**
 * Restores the repository and the replicas to a release, from its archived configurations and the objects that are
 * still in the bucket. Models that the release does not have are removed from service, and their objects are archived.
 * @param id default: the release before the current one; after a rollback, the release before the restored one
 */
export async function rollBack(id: string | undefined, options: RollbackOptions): Promise<ApplyResult> {
  const { store, location, models: selection } = options;
  let announced: string | undefined;
  return change(async (current, archive = directArchive(store, location, current)) => {
    const goal = id ?? (await releaseBefore(store, location, current, archive));
    const release = await archive.find(goal);
    const { createdAt, by, origin } = release;
    if (announced !== release.id)
      options.onStage?.(`roll back to release ${release.id} of ${createdAt} by ${by} (${origin})`);
    announced = release.id;
    const all = getModels(release, (key, object) => archive.origin(release, key, object), { store, location });
    const models = selectModels(all, selection, { release, where: formatLocation(location) });
    const shared = {
      models,
      archiveRemoved: true,
      prune: false,
      conflictHint: (keys: readonly string[]) =>
        `nothing was changed, because the files of that version were replaced after the release; ${alternatives(release, keys.map(getModelName))}`,
      provenance: () => Promise.resolve(carriedProvenance(release, options)),
      check: (plan: Plan) => requireBytes(plan, release, options),
    };
    if (selection !== undefined) {
      return { ...shared, remove: [], origin: `rollback of ${selection.join(', ')} to ${release.id}` };
    }
    return {
      ...shared,
      remove: Object.keys(current?.models ?? {}).filter((name) => release.models[name] === undefined),
      origin: `rollback to ${release.id}`,
      restores: release.id,
    };
  }, options);
}

/** The releases of a repository without agents. */
export const directArchive = (
  store: S3Store,
  location: RepositoryLocation,
  current: Release | undefined,
): ReleaseArchive => ({
  current,
  find: (id) => findRelease(store, location, id, current),
  read: (id) => readRelease(store, location, id),
  origin: (_, key, object) => ({ source: { stored: getPlaces(location, key, object) }, etag: object.etag }),
});

/**
 * Verifies before anything is written that the bytes of the release still exist.
 * @throws UserError that names the missing versions
 */
async function requireBytes(plan: Plan, release: Release, { store, location }: ApplyOptions): Promise<void> {
  const needed = plan.models
    .flatMap(({ objects }) => objects)
    .filter(({ object, action }) => action !== 'keep' && getVersion(object.key) !== undefined);
  if (needed.length === 0) return;
  const aside = new Set((await store.list(archiveKey(location, ''))).map(({ key }) => key));
  const isThere = ({ source }: DesiredObject): boolean =>
    'stored' in source && source.stored.some(({ key, versionId }) => versionId !== undefined || aside.has(key));
  const gone = needed.map(({ object }) => object).filter((object) => !isThere(object));
  if (gone.length === 0) return;
  const files = gone.map(({ key }) => key);
  throw new UserError(
    `cannot restore release ${release.id}: --prune deleted ${getVersions(files).join(', ')} (${firstLines(files).join(', ')})`,
    {
      hint: `nothing was changed; publish that version again from its files, or ${alternatives(release, files.map(getModelName))}`,
    },
  );
}

/** The next steps if these models of the release cannot be restored. */
function alternatives({ id, models }: Release, lost: readonly string[]): string {
  const others = Object.entries(models).filter(
    ([name, { composedOf }]) => ![name, ...composedOf].some((one) => lost.includes(one)),
  );
  const names = others.map(([name]) => name).join(',');
  const command = nextCommand('rollback', id, '--models', names);
  const another = 'choose another release of "npm run releases"';
  return names === '' ? another : `${another}, or roll back the other models: ${command}`;
}

/** The models that a release serves, as desired state. Versions that it no longer serves are left out. */
export function getModels(
  release: Release,
  origin: (key: string, object: ReleasedObject) => Pick<DesiredObject, 'source' | 'etag'>,
  from: { store: S3Store; location: RepositoryLocation },
): DesiredModel[] {
  const toWanted = (name: string, released: ReleasedModel): DesiredModel => {
    const { served, digest, composedOf, weights, weightKinds, golden } = released;
    const objects = Object.entries(released.objects).flatMap(([key, object]): DesiredObject[] => {
      const version = getVersion(key);
      if (version !== undefined && !served.includes(version)) return [];
      const { bytes, checksum } = object;
      // An object that was never compared has no checksum. S3 is asked for it on demand.
      return [{ key, bytes, ...origin(key, object), checksum: checksum === '' ? undefined : checksum }];
    });
    const config = objects.find(({ key }) => key === `${name}/${CONFIG_FILE}`);
    if (config === undefined) {
      throw new UserError(`cannot restore release ${release.id}: it has no configuration of ${name}`, {
        hint: 'choose another release of "npm run releases"',
      });
    }
    return {
      name,
      served,
      digest,
      composedOf,
      weights,
      weightKinds,
      golden: golden && storedGolden(from.store, from.location, golden),
      config,
      objects: objects.filter((object) => object !== config),
    };
  };
  return topologicalOrder(Object.entries(release.models).map(([name, released]) => toWanted(name, released)));
}

/** A restored or promoted release keeps its commit, and its message unless another message is given. */
export function carriedProvenance({ commit, message }: Release, options: Pick<ApplyOptions, 'message'>): Provenance {
  return { commit, message: options.message ?? message };
}

/** The places in this bucket that may still have the bytes of a release's object. */
function getPlaces(location: RepositoryLocation, key: string, { checksum, versionId }: ReleasedObject): StoredObject[] {
  const kept = checksum === '' ? [] : [{ key: archiveKey(location, checksum) }];
  if (isReplaceable(key)) return kept;
  return [...kept, ...(versionId === undefined ? [] : [{ key: `${location.prefix}/${key}`, versionId }])];
}

/** The id of the previous release. The predecessor of a rollback is the predecessor of the release that it restored. */
async function releaseBefore(
  store: S3Store,
  location: RepositoryLocation,
  release: Release | undefined,
  archive: ReleaseArchive,
): Promise<string> {
  const where = formatLocation(location);
  if (release === undefined) {
    throw new UserError(`cannot roll back ${where}: the repository has no release`, {
      hint: 'publish a release first: npm run sync-models',
    });
  }
  const { restores } = release;
  if (restores !== undefined) {
    const restored = await archive.read(restores);
    if (restored !== undefined) return releaseBefore(store, location, restored, archive);
    const manifest = `s3://${store.bucket}/${releaseKey(location, restores)}`;
    throw new UserError(
      `cannot determine the release before ${release.id}: it restored ${restores}, and ${manifest} is missing`,
      { hint: 'choose the release yourself: npm run rollback -- ID; "npm run releases" lists the ids' },
    );
  }
  let { previous } = release;
  while (previous !== undefined) {
    const before: Release | undefined = await archive.read(previous);
    // Releases without models begin a repository (npm run local), so they are no state to go back to.
    if (before === undefined || Object.keys(before.models).length > 0) return previous;
    ({ previous } = before);
  }
  throw new UserError(`cannot roll back ${where}: there is no release before ${release.id}`, {
    hint: 'name a release: npm run rollback -- ID; "npm run releases" lists the ids',
  });
}

/**
 * Finds the release with that id, or the only one whose id contains it.
 * @param current the current release
 * @throws UserError also if the release was never current
 */
export async function findRelease(
  store: S3Store,
  location: RepositoryLocation,
  id: string,
  current: Release | undefined,
): Promise<Release> {
  const where = formatLocation(location);
  const ids = await releaseIds(store, location);
  const [only, ...others] = ids.includes(id) ? [id] : ids.filter((one) => one.includes(id));
  const found = only === undefined || others.length > 0 ? undefined : await readRelease(store, location, only);
  if (found === undefined) {
    const newest: string[] = [];
    for await (const release of releaseHistory(store, location, { head: current, ids, most: 5 })) {
      newest.push(release.id);
    }
    throw new UserError(
      `${where} has ${only === undefined ? 'no' : 'more than one'} release whose id contains "${id}"`,
      {
        hint: `newest releases: ${newest.join(', ')}; "npm run releases" lists all`,
      },
    );
  }
  for (let head = current; ;) {
    if (await wasReleased(store, location, found, { head, ids })) return found;
    // The release may have become current since `current` was read.
    const now = (await readHead(store, location))?.release;
    if (now?.id === head?.id) break;
    head = now;
  }
  throw new UserError(`release ${found.id} of ${where} was never activated: its publisher was interrupted`, {
    hint: 'publish it again from its files; "npm run releases" lists the releases that were activated',
  });
}
