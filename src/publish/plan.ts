import type { RepositoryLocation } from '../release/location';
import { filesOf, type Manifest, type ManifestModel, type ReleasedFile } from '../release/manifest';
import type { S3Store } from '../s3/store';
import type { DesiredFile, DesiredModel } from './desired';
import { getVersion } from './keys';
import type { Releases } from './releases';

export interface PlannedFile {
  file: DesiredFile;
  action: 'upload' | 'keep' | 'conflict';
  /** The same content in a retained release: where it is in the bucket. */
  released: ReleasedFile | undefined;
}

export interface PlannedModel {
  model: DesiredModel;
  /** Versions that the current release serves; undefined if it does not have the model. */
  before: number[] | undefined;
  files: PlannedFile[];
  /** Files of a released version that the desired version of that number does not have. */
  missing: string[];
  /** Whether the next release has another configuration, other files, versions or golden requests than the current one. */
  isChanged: boolean;
}

/** The changes to make. A plan is plain data, so that it can be printed and tested. */
export interface Plan {
  /** In load order: composing models before their ensembles. */
  models: PlannedModel[];
  /** Models that the next release does not have. */
  remove: string[];
}

export interface PlanOptions {
  store: S3Store;
  location: RepositoryLocation;
  remove: readonly string[];
  /** Upload other content of a released version, instead of reporting a conflict. */
  replacePublished?: boolean | undefined;
}

/**
 * Compares the desired models with the current release by content, and with the other retained ones if the bucket has
 * files that the current one lacks. A file has the action
 *
 * | a retained release has its path | content | action                                                      |
 * | ------------------------------- | ------- | ----------------------------------------------------------- |
 * | no                              |         | `upload`                                                    |
 * | yes                             | same    | `keep`                                                      |
 * | yes                             | other   | `conflict`, because numbers of versions are for one content; `upload` with `replacePublished` |
 *
 * Files beside the versions have keys by content, so they are never in conflict.
 */
export async function makePlan(
  desired: readonly DesiredModel[],
  releases: Releases,
  { store, location, remove, replacePublished = false }: PlanOptions,
): Promise<Plan> {
  const { current } = releases;
  let known = getFiles(current === undefined ? [] : [current]);
  const isThere = async ({ name, files }: DesiredModel): Promise<boolean> => {
    const lacking = files.filter(({ path }) => getVersion(path) !== undefined && !known.has(`${name}/${path}`));
    if (lacking.length === 0) return false;
    const listed = new Set((await store.list(`${location.prefix}/${name}/`)).map(({ key }) => key));
    return lacking.some(({ path }) => listed.has(`${location.prefix}/${name}/${path}`));
  };
  if (releases.ids.length > 1 && (await Promise.all(desired.map(isThere))).includes(true)) {
    known = getFiles(await releases.readAll());
  }
  const planFile = (name: string, file: DesiredFile): PlannedFile => {
    const inVersion = getVersion(file.path) !== undefined;
    const found = known.get(inVersion ? `${name}/${file.path}` : file.checksum) ?? [];
    const released = found.find(({ bytes, checksum }) => bytes === file.bytes && checksum === file.checksum);
    const isConflict = inVersion && found.length > 0 && !replacePublished;
    return { file, released, action: released !== undefined ? 'keep' : isConflict ? 'conflict' : 'upload' };
  };
  return {
    models: desired.map((model): PlannedModel => {
      const before = current?.models[model.name];
      return {
        model,
        before: before?.served,
        files: filesOf(model).map((file) => planFile(model.name, file)),
        missing: missingFiles(model, before?.files ?? []),
        isChanged: before === undefined || !isSame(model, before),
      };
    }),
    remove: [...remove],
  };
}

/** Whether the plan would change a published version of the model. */
export const isConflict = ({ files, missing }: PlannedModel): boolean =>
  missing.length > 0 || files.some(({ action }) => action === 'conflict');

/** Whether the next release would differ from the current one, or is the first one. */
export const needsRelease = ({ models, remove }: Plan, current: Manifest | undefined): boolean =>
  current === undefined || remove.length > 0 || models.some(({ isChanged }) => isChanged);

/** The files of releases: of versions by model and path, the others by content. */
function getFiles(releases: readonly Manifest[]): Map<string, ReleasedFile[]> {
  const known = new Map<string, ReleasedFile[]>();
  for (const { models } of releases) {
    for (const [name, model] of Object.entries(models)) {
      for (const file of filesOf(model)) {
        const key = getVersion(file.path) === undefined ? file.checksum : `${name}/${file.path}`;
        const same = known.get(key);
        if (same === undefined) known.set(key, [file]);
        else same.push(file);
      }
    }
  }
  return known;
}

const isSame = (model: DesiredModel, before: ManifestModel): boolean =>
  before.config === model.config &&
  before.served.join() === model.served.join() &&
  before.golden?.checksum === model.golden?.checksum &&
  listFiles(before.files) === listFiles(model.files);

const listFiles = (files: readonly Pick<ReleasedFile, 'path' | 'checksum'>[]): string =>
  files
    .map(({ path, checksum }) => `${path}\0${checksum}`)
    .sort()
    .join('\n');

function missingFiles({ files }: DesiredModel, before: readonly ReleasedFile[]): string[] {
  const paths = new Set(files.map(({ path }) => path));
  const versions = new Set(files.map(({ path }) => getVersion(path)));
  return before
    .map(({ path }) => path)
    .filter((path) => getVersion(path) !== undefined && versions.has(getVersion(path)) && !paths.has(path));
}
