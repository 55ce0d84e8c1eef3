import { UserError } from '../core/errors';
import { GOLDEN_FOLDER } from '../model/golden/request';
import {
  getVersion,
  filesOf,
  type FormerFile,
  type Manifest,
  type ManifestModel,
  type ReleasedFile,
} from '../release/manifest';
import type { S3Store } from '../s3/store';
import type { DesiredFile, DesiredModel } from './desired';
import type { DesiredState } from './options';
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
  /**
   * Whether the next release has another configuration, other files, versions or golden requests than the current one, or
   * uploads files of it that are gone from the bucket.
   */
  isChanged: boolean;
}

/** The changes to make. A plan is plain data, so that it can be printed and tested. */
export interface Plan {
  /** In load order: composing models before their ensembles. */
  models: PlannedModel[];
  /** Models that the next release does not have. */
  remove: string[];
}

/**
 * Compares the desired models with the files of the retained releases, which the current manifest names. Content whose
 * object is gone from the bucket counts as not released. A file has the action
 *
 * | content is released | its version is released with other content | action                                      |
 * | ------------------- | ------------------------------------------- | ------------------------------------------- |
 * | yes                 | no                                          | `keep`                                      |
 * | no                  | no                                          | `upload`                                    |
 * |                     | yes                                         | `conflict`, because numbers of versions are for one content; with `replacePublished` as above |
 *
 * @param stored keys of the files in the bucket
 */
export function makePlan(
  desired: readonly DesiredModel[],
  releases: Releases,
  { remove, replacePublished = false }: Pick<DesiredState, 'remove' | 'replacePublished'>,
  stored: ReadonlySet<string>,
): Plan {
  const { current } = releases;
  const known = getFiles(releases);
  const planFile = ({ name, compiled }: DesiredModel, file: DesiredFile): PlannedFile => {
    const same = known.contents.get(file.checksum);
    // A rollback has no other source of the bytes.
    const isThere = same !== undefined && (stored.has(same.key) || isAt(file, same.key, releases.bucket.store));
    const released = isThere ? same : undefined;
    const before = getVersion(file.path) === undefined ? undefined : known.versions.get(`${name}/${file.path}`);
    // The same program may be compiled again, for another release of Triton.
    const program = (all: DesiredModel['compiled']): string | undefined => all?.[getVersion(file.path) ?? 0]?.program;
    const isSameProgram =
      program(compiled) !== undefined && program(compiled) === program(current?.models[name]?.compiled);
    const isConflict = before !== undefined && !before.has(file.checksum) && !replacePublished && !isSameProgram;
    return { file, released, action: isConflict ? 'conflict' : released === undefined ? 'upload' : 'keep' };
  };
  return {
    models: desired.map((model): PlannedModel => {
      const before = current?.models[model.name];
      const files = filesOf(model).map((file) => planFile(model, file));
      return {
        ...{ model, files },
        before: before?.served,
        missing: missingFiles(model, before?.files ?? []),
        isChanged: before === undefined || !isSame(model, before) || files.some(({ action }) => action === 'upload'),
      };
    }),
    remove: [...remove],
  };
}

const isAt = ({ source }: DesiredFile, key: string, store: S3Store): boolean =>
  'stored' in source && source.stored.key === key && source.stored.store === store;

/** Whether the plan would change a published version of the model. */
export const isConflict = ({ files, missing }: PlannedModel): boolean =>
  missing.length > 0 || files.some(({ action }) => action === 'conflict');

/** Whether the next release would differ from the current one, or is the first one. */
export const needsRelease = ({ models, remove }: Plan, current: Manifest | undefined): boolean =>
  current === undefined || remove.length > 0 || models.some(({ isChanged }) => isChanged);

/** The files of the retained releases: by content, and the contents of each file by model and path. */
function getFiles({ current, ids }: Releases): {
  contents: Map<string, ReleasedFile>;
  versions: Map<string, Set<string>>;
} {
  const named = Object.entries(current?.models ?? {}).flatMap(([name, model]) =>
    filesOf(model).map((file) => ({ ...file, model: name })),
  );
  const contents = new Map<string, ReleasedFile>();
  const versions = new Map<string, Set<string>>();
  for (const file of [...named, ...(current?.former ?? []).filter(({ release }) => ids.includes(release))]) {
    contents.set(file.checksum, file);
    const place = `${file.model}/${file.path}`;
    versions.set(place, (versions.get(place) ?? new Set()).add(file.checksum));
  }
  return { contents, versions };
}

/** Files of the releases up to `before` that a release with these models, which retains `retained`, does not have. */
export function formerFiles(
  before: Manifest | undefined,
  models: Manifest['models'],
  retained: readonly string[],
): FormerFile[] {
  if (before === undefined) return [];
  const last = Object.entries(before.models).flatMap(([model, of]) =>
    filesOf(of).map((file) => ({ ...file, model, release: before.id })),
  );
  const isSame = (a: ReleasedFile, b: ReleasedFile): boolean => a.path === b.path && a.checksum === b.checksum;
  const has = (file: FormerFile): boolean => {
    const model = models[file.model];
    return model !== undefined && filesOf(model).some((one) => isSame(one, file));
  };
  return [...last, ...before.former].filter((file) => retained.includes(file.release) && !has(file));
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

/** The plan would change a published version. A number of a version is for one content. */
export class VersionConflictError extends UserError {
  override readonly name = 'VersionConflictError';
}

/** @throws VersionConflictError */
export function requireNoConflict(plan: Plan, { traceCommand }: DesiredState): void {
  const models = plan.models.filter(isConflict);
  if (models.length === 0) return;
  const lines = models.flatMap(({ model: { name }, files, missing }) => [
    ...files
      .filter(({ action }) => action === 'conflict')
      .map(({ file }) => `${name}/${file.path} is in the bucket with other bytes`),
    ...missing.map((path) => `${name}/${path} is in the bucket, but not in the folder that is published`),
  ]);
  const hint = `${models.map((model) => describeWayOut(model, traceCommand)).join('\n  -> ')}; nothing was uploaded`;
  throw new VersionConflictError(`cannot change published versions:\n  ${lines.join('\n  ')}`, { hint });
}

/** The next steps for one model. Without the last one, the next run would refuse the same files. */
function describeWayOut(
  { model: { name, newest }, files, missing, before = [] }: PlannedModel,
  traceCommand: DesiredState['traceCommand'],
): string {
  const conflicting = files.filter(({ action }) => action === 'conflict').map(({ file }) => file.path);
  const changed = [...new Set([...conflicting, ...missing].map(getVersion))];
  const folders = changed.map((version) => `${name}/${version}`).join(', ');
  const next = Math.max(newest, ...before) + 1;
  const create = traceCommand?.(name, next) ?? `put the new files into a new version folder, ${name}/${next}`;
  const golden = changed.map((version) => `${name}/${GOLDEN_FOLDER}/${version}`).join(', ');
  return `${create}; name ${next} in version_policy, if the model has one; then restore ${folders}, or delete ${folders} and ${golden}`;
}

/**
 * Verifies that the composing models of a remaining ensemble are not removed.
 * @throws UserError if one would be removed
 */
export function requireRemovable(target: DesiredState, release: Manifest | undefined): void {
  const removed = new Set(target.remove);
  const wanted = new Map(target.models.map((model) => [model.name, model.composedOf]));
  for (const [name, { composedOf }] of Object.entries(release?.models ?? {})) {
    if (!removed.has(name) && !wanted.has(name)) wanted.set(name, composedOf);
  }
  for (const [name, composedOf] of wanted) {
    const missing = composedOf.find((step) => removed.has(step));
    if (missing === undefined) continue;
    throw new UserError(`cannot remove ${missing}, because ensemble ${name} contains it`, {
      hint: `remove ${name} too, or keep ${missing}`,
    });
  }
}
