import { forEachLimited } from '../../core/concurrency';
import { UserError } from '../../core/errors';
import type { RepositoryLocation } from '../../release/location';
import { archiveKey } from '../../release/location';
import type { ReleasedFile } from '../../release/manifest';
import type { S3Store } from '../../s3/store';
import { CONFIG_FILE, getVersion, isTraceRecord } from '../keys';
import { computeChecksum, type DesiredModel, type DesiredObject } from '../plan/desired';
import { isChanged, isGoldenChanged, type Plan, type PlannedModel, type PlannedObject } from '../plan/plan';
import { manifestConfig } from './config-texts';
import { isBeside, type AgentRelease, type AgentSnapshot, type RetainedReleases } from './snapshot';

/** A plan, and what the manifest needs beyond it. */
export interface ReleasePlan {
  plan: Plan;
  /** Objects that a retained release has, so that they are not uploaded. */
  released: ReadonlyMap<DesiredObject, ReleasedFile>;
  /** Model -> text of config.pbtxt in the manifest. */
  configs: ReadonlyMap<string, string>;
}

export interface PlanReleaseOptions {
  store: S3Store;
  location: RepositoryLocation;
  /** Models of the current release that the next one does not have. */
  remove: readonly string[];
  /** Upload other content of a released version, instead of reporting a conflict. */
  replacePublished?: boolean | undefined;
}

/**
 * Compares the desired models with the current release by content, and with the other retained ones if the bucket has
 * files that the current one lacks. An object has the action
 *
 * | a retained release has its path | content | action                                                      |
 * | ------------------------------- | ------- | ----------------------------------------------------------- |
 * | no                              |         | `upload`                                                    |
 * | yes                             | same    | `keep`                                                      |
 * | yes                             | other   | `conflict`, because numbers of versions are for one content; `upload` with `replacePublished` |
 *
 * Files beside the versions have keys by content, so they are never in conflict. Versions that are not served, and trace
 * records, are left out, because no replica needs them.
 */
export async function planRelease(
  desired: readonly DesiredModel[],
  archive: RetainedReleases,
  { store, location, remove, replacePublished = false }: PlanReleaseOptions,
): Promise<ReleasePlan> {
  const { current } = archive;
  const models = desired.map((model) => ({
    ...model,
    objects: model.objects.filter((object) => isNeeded(model, object)),
  }));
  let known = getFiles(current === undefined ? [] : [current], location);
  const isThere = async ({ name, objects }: DesiredModel): Promise<boolean> => {
    const inVersions = objects.filter(({ key }) => getVersion(key) !== undefined);
    const lacking = inVersions.map(({ key }) => `${location.prefix}/${key}`).filter((key) => !known.has(key));
    if (lacking.length === 0) return false;
    const listed = new Set((await store.list(`${location.prefix}/${name}/`)).map(({ key }) => key));
    return lacking.some((key) => listed.has(key));
  };
  if (archive.ids.length > 1 && (await Promise.all(models.map(isThere))).includes(true)) {
    known = getFiles(await archive.readAll(), location);
  }
  const released = new Map<DesiredObject, ReleasedFile>();
  const planned = new Map<DesiredObject, PlannedObject>();
  await forEachLimited(
    models.flatMap(({ objects }) => objects),
    store.concurrency,
    async (object) => {
      const inVersion = getVersion(object.key) !== undefined;
      const candidates = inVersion
        ? (known.get(`${location.prefix}/${object.key}`) ?? [])
        : (known.get(archiveKey(location, (await computeChecksum(object)) ?? '')) ?? []);
      // A file of another size is not read.
      const checksum = candidates.some(({ bytes }) => bytes === object.bytes)
        ? await computeChecksum(object)
        : undefined;
      const same = candidates.find((file) => file.checksum === checksum);
      if (same !== undefined) released.set(object, same);
      const isConflict = inVersion && candidates.length > 0 && !replacePublished;
      const action = same !== undefined ? 'keep' : isConflict ? 'conflict' : 'upload';
      planned.set(object, { object, action });
    },
  );
  const configs = new Map<string, string>();
  for (const model of models) configs.set(model.name, manifestConfig(await readText(model.config)));
  const plan: Plan = {
    models: models.map((model): PlannedModel => {
      const before = current?.manifest.models[model.name];
      const own = model.objects.map((object) => planned.get(object) as PlannedObject);
      const isSame =
        before !== undefined &&
        before.config === configs.get(model.name) &&
        before.served.join() === model.served.join() &&
        own.every(({ action }) => action === 'keep') &&
        listFiles(before.files) === listFiles(model.objects.flatMap((object) => released.get(object) ?? []));
      return {
        model,
        before: before?.served,
        objects: own,
        config: { object: model.config, action: isSame ? 'keep' : before === undefined ? 'upload' : 'replace' },
        extraneous: missingFiles(model, before?.files ?? []),
        orphaned: [],
        unmanaged: false,
      };
    }),
    remove: [...remove],
    prune: [],
    archivePruned: false,
    lost: [],
  };
  return { plan, released, configs };
}

/** The files of releases, by their keys in a model repository, or by content. */
function getFiles(releases: readonly AgentRelease[], location: RepositoryLocation): Map<string, ReleasedFile[]> {
  const known = new Map<string, ReleasedFile[]>();
  for (const { manifest } of releases) {
    for (const [name, { files }] of Object.entries(manifest.models)) {
      for (const file of files) {
        // The bytes of a version may be stored under another key.
        const key = isBeside(file) ? archiveKey(location, file.checksum) : `${location.prefix}/${name}/${file.path}`;
        const same = known.get(key);
        if (same === undefined) known.set(key, [file]);
        else same.push(file);
      }
    }
  }
  return known;
}

/** Whether the next release would differ from the current one, or is the first one. */
export const needsRelease = ({ models, remove }: Plan, { current }: AgentSnapshot): boolean =>
  current === undefined ||
  remove.length > 0 ||
  models.some((planned) => isChanged(planned) || isGoldenChanged(planned.model, current.models[planned.model.name]));

function isNeeded({ served, name }: DesiredModel, { key }: DesiredObject): boolean {
  const version = getVersion(key);
  if (key === `${name}/${CONFIG_FILE}` || isTraceRecord(key)) return false;
  return version === undefined || served.includes(version);
}

const listFiles = (files: readonly ReleasedFile[]): string =>
  files
    .map(({ path, checksum }) => `${path}\0${checksum}`)
    .sort()
    .join('\n');

/** Files of a released version that the desired version of that number does not have. */
function missingFiles({ name, objects }: DesiredModel, before: readonly ReleasedFile[]): string[] {
  const keys = new Set(objects.map(({ key }) => key));
  const versions = new Set(objects.map(({ key }) => getVersion(key)));
  return before
    .map(({ path }) => `${name}/${path}`)
    .filter((key) => getVersion(key) !== undefined && versions.has(getVersion(key)) && !keys.has(key));
}

/** Returns the text of a configuration, from the first of its copies that exists. */
async function readText({ key, source }: DesiredObject): Promise<string> {
  if ('body' in source) return source.body.toString('utf8');
  if ('stored' in source) {
    for (const copy of source.stored) {
      const found = await copy.store?.get(copy.key);
      if (found !== undefined) return found.body.toString('utf8');
    }
  }
  throw new UserError(`cannot read ${key} of the release: it is not in the bucket`, {
    hint: 'choose another release of "npm run releases"',
  });
}
