import { UserError } from '../core/errors';
import { topologicalOrder } from '../release/load-order';
import { filesPrefix, formatLocation, type RepositoryLocation } from '../release/location';
import { getVersion, type Manifest, type ReleasedFile, type Provenance } from '../release/manifest';
import type { S3Store } from '../s3/store';
import type { DesiredFile, DesiredModel } from './desired';
import { HeadFile, type Base } from './head-file';
import { requireNoReleases } from './repair-head';

export interface Bucket {
  store: S3Store;
  location: RepositoryLocation;
}

/** The releases that a repository retains, at one generation of head.json. Manifests are read when they are needed. */
export class Releases {
  private constructor(
    readonly base: Base,
    readonly current: Manifest | undefined,
    private readonly head: HeadFile,
    readonly bucket: Bucket,
  ) {}

  /** @throws UserError if head.json, or the manifest of the current release, is lost */
  static async read(bucket: Bucket, head = new HeadFile(bucket.store, bucket.location)): Promise<Releases> {
    const base = await head.read();
    if (base.head === undefined) await requireNoReleases(head, bucket);
    const current = base.head && (await requireRelease(head, base.head.release, bucket, base.head.manifestSha256));
    return new Releases(base, current, head, bucket);
  }

  /** Ids, newest first. */
  get ids(): string[] {
    return [...(this.base.head?.retained ?? [])].reverse();
  }

  /** @throws UserError if a manifest is missing */
  requireAll(): Promise<Manifest[]> {
    return Promise.all(this.ids.map((id) => requireRelease(this.head, id, this.bucket)));
  }

  /** Without those whose manifests are missing. */
  async readAll(ids: readonly string[] = this.ids): Promise<Manifest[]> {
    return (await Promise.all(ids.map((id) => this.head.readManifest(id)))).filter((one) => one !== undefined);
  }

  /**
   * The retained release with that id, or the only one whose id contains it.
   * @throws UserError if there is none
   */
  async find(id: string): Promise<Manifest> {
    const { ids } = this;
    const same = ids.filter((one) => one === id);
    const [only, ...others] = same.length > 0 ? same : ids.filter((one) => one.includes(id));
    if (only !== undefined && others.length === 0) return requireRelease(this.head, only, this.bucket);
    throw new UserError(
      `${formatLocation(this.bucket.location)} retains ${only === undefined ? 'no' : 'more than one'} release whose id contains "${id}"`,
      { hint: `retained releases: ${ids.join(', ')}` },
    );
  }

  async listFiles(): Promise<Set<string>> {
    const { store, location } = this.bucket;
    return new Set((await store.list(filesPrefix(location))).map(({ key }) => key));
  }

  /** A release that was current once; undefined if its manifest is gone. */
  read(id: string): Promise<Manifest | undefined> {
    return this.head.readManifest(id);
  }
}

async function requireRelease(
  head: HeadFile,
  id: string,
  { location }: Bucket,
  manifestSha256?: string,
): Promise<Manifest> {
  const manifest = await head.readManifest(id, manifestSha256);
  if (manifest !== undefined) return manifest;
  throw new UserError(`cannot read release ${id} of ${formatLocation(location)}: its manifest is missing`, {
    hint: 'restore the first version of that object',
  });
}

/** The models of a release as the desired state of another one, or of another repository. */
export function getModels(release: Manifest, { store }: Pick<Bucket, 'store'>): DesiredModel[] {
  const fromStore = ({ path, bytes, checksum, key }: ReleasedFile): DesiredFile => ({
    ...{ path, bytes, checksum },
    source: { stored: { store, key } },
  });
  return topologicalOrder(
    Object.entries(release.models).map(([name, model]): DesiredModel => ({
      name,
      served: model.served,
      composedOf: model.composedOf,
      config: model.config,
      files: model.files.map(fromStore),
      newest: Math.max(0, ...model.files.map(({ path }) => getVersion(path) ?? 0)),
      weights: model.weights ?? {},
      weightKinds: model.weightKinds,
      compiled: model.compiled,
      golden: model.golden && fromStore(model.golden),
    })),
  );
}

/**
 * Selects the models of a release that --models names; all models if it was not given.
 * @param where the repository of the release, for messages
 * @throws UserError for a name that the release lacks, and for an ensemble without one of its composing models
 */
export function selectModels(
  all: DesiredModel[],
  selection: readonly string[] | undefined,
  { release, where }: { release: Manifest; where: string },
): DesiredModel[] {
  if (selection === undefined) return all;
  const unknown = selection.find((name) => release.models[name] === undefined);
  if (unknown !== undefined) {
    throw new UserError(`release ${release.id} of ${where} has no model "${unknown}"`, {
      hint: `models of the release: ${Object.keys(release.models).join(', ')}`,
    });
  }
  const models = all.filter(({ name }) => selection.includes(name));
  for (const { name, composedOf } of models) {
    const missing = composedOf.find((step) => !selection.includes(step));
    if (missing !== undefined) {
      throw new UserError(`ensemble ${name} contains ${missing}, which --models does not name`, {
        hint: `add ${missing} to --models`,
      });
    }
  }
  return models;
}

/** A restored or promoted release keeps its commit, and its message unless another message is given. */
export const carriedProvenance = ({ commit, message }: Manifest, given: string | undefined): Provenance => ({
  commit,
  message: given ?? message,
});
