import { UserError } from '../../core/errors';
import { formatLocation, type RepositoryLocation } from '../../release/location';
import { sha256Hex, type Manifest, type ReleasedFile, type ManifestModel } from '../../release/manifest';
import { checksumOfBytes, type S3Store } from '../../s3/store';
import { CONFIG_FILE, getVersion } from '../keys';
import type { ReleaseArchive } from '../release/archive';
import type { Release, ReleasedModel } from '../release/release';
import type { DesiredObject } from '../plan/desired';
import { publishedConfig } from './config-texts';
import { HeadFile, type Base } from './head-file';

/** A release of format 3 as the parts of this package that serve both formats see it. */
export interface AgentRelease extends Release {
  manifest: Manifest;
}

/** The releases of a repository of format 3 at one generation of head.json. */
export interface AgentSnapshot {
  base: Base;
  current: AgentRelease | undefined;
  /** The releases that head.json retains, newest first. */
  retained: AgentRelease[];
}

/** @throws UserError if a manifest that head.json names is missing */
export async function readAgentSnapshot(head: HeadFile, where: string): Promise<AgentSnapshot> {
  const base = await head.read();
  const ids = [...(base.head?.retained ?? [])].reverse();
  const manifests = await Promise.all(ids.map((id) => head.readManifest(id)));
  const missing = ids.find((_, i) => manifests[i] === undefined);
  if (missing !== undefined) {
    throw new UserError(`cannot read release ${missing} of ${where}: its manifest is missing`, {
      hint: 'restore the first version of that object',
    });
  }
  const retained = (manifests as Manifest[]).map(asRelease);
  return { base, current: retained.find(({ id }) => id === base.head?.release), retained };
}

/** A model's objects under the keys of a Triton model repository, with the config.pbtxt of the view. */
export function asRelease(manifest: Manifest): AgentRelease {
  const models = Object.entries(manifest.models).map(([name, model]): [string, ReleasedModel] => {
    const digest = computeDigest(model);
    const config = Buffer.from(publishedConfig(model.config, model.served, digest));
    const { served, composedOf, weights = {}, weightKinds, golden, files } = model;
    const objects = Object.fromEntries(
      files.map(({ path, bytes, checksum, versionId }) => [
        `${name}/${path}`,
        { bytes, checksum, etag: '', versionId },
      ]),
    );
    return [
      name,
      {
        ...{ served, composedOf, weights, weightKinds, golden, digest },
        asked: manifest.notAsked === true || golden === undefined ? undefined : 'golden',
        objects: {
          ...objects,
          [`${name}/${CONFIG_FILE}`]: { bytes: config.byteLength, checksum: checksumOfBytes(config), etag: '' },
        },
      },
    ];
  });
  return { ...manifest, models: Object.fromEntries(models), manifest };
}

/** Identifies the configuration, and the files that it refers to, for servers that read the view. */
const computeDigest = ({ config, files }: ManifestModel): string =>
  sha256Hex([config, ...files.filter(isBeside).map(({ path, checksum }) => `${path}\0${checksum}`)].join('\0')).slice(
    0,
    32,
  );

export const isBeside = ({ path }: Pick<ReleasedFile, 'path'>): boolean => getVersion(`model/${path}`) === undefined;

/** The text of a model's config.pbtxt for servers that read the bucket. */
export function viewConfig(release: AgentRelease, name: string): Buffer {
  const { config, served } = release.manifest.models[name] as ManifestModel;
  return Buffer.from(publishedConfig(config, served, release.models[name]?.digest ?? ''));
}

/** The releases that a rollback or a promotion may name: those that head.json retains. */
export class RetainedReleases implements ReleaseArchive {
  constructor(
    private readonly snapshot: AgentSnapshot,
    private readonly head: HeadFile,
    private readonly from: { store: S3Store; location: RepositoryLocation },
  ) {}

  static async read(from: { store: S3Store; location: RepositoryLocation }): Promise<RetainedReleases> {
    const head = new HeadFile(from.store, from.location);
    return new RetainedReleases(await readAgentSnapshot(head, formatLocation(from.location)), head, from);
  }

  get current(): Release | undefined {
    return this.snapshot.current;
  }

  get newestFirst(): readonly Release[] {
    return this.snapshot.retained;
  }

  find(id: string): Promise<Release> {
    const { retained } = this.snapshot;
    const same = retained.filter((release) => release.id === id);
    const [only, ...others] = same.length > 0 ? same : retained.filter((release) => release.id.includes(id));
    if (only !== undefined && others.length === 0) return Promise.resolve(only);
    throw new UserError(
      `${formatLocation(this.from.location)} retains ${only === undefined ? 'no' : 'more than one'} release whose id contains "${id}"`,
      { hint: `retained releases: ${retained.map((release) => release.id).join(', ')}` },
    );
  }

  async read(id: string): Promise<Release | undefined> {
    const manifest = await this.head.readManifest(id);
    return manifest === undefined ? undefined : asRelease(manifest);
  }

  /** Where the bytes of an object of a release are. */
  origin(release: Release, key: string): Pick<DesiredObject, 'source'> {
    const { manifest } = release as AgentRelease;
    const name = key.slice(0, key.indexOf('/'));
    if (key === `${name}/${CONFIG_FILE}`) return { source: { body: viewConfig(release as AgentRelease, name) } };
    const file = manifest.models[name]?.files.find(({ path }) => `${name}/${path}` === key);
    if (file === undefined) throw new Error(`${key} is not in release ${release.id}`);
    return { source: { stored: [{ store: this.from.store, key: file.key, versionId: file.versionId }] } };
  }
}
