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

/** A repository of format 3 at one generation of head.json. */
export interface AgentSnapshot {
  base: Base;
  current: AgentRelease | undefined;
}

/** @throws UserError if the manifest of the current release is missing */
export async function readAgentSnapshot(head: HeadFile, where: string): Promise<AgentSnapshot> {
  const base = await head.read();
  return { base, current: base.head && (await requireRelease(head, base.head.release, where)) };
}

async function requireRelease(head: HeadFile, id: string, where: string): Promise<AgentRelease> {
  const manifest = await head.readManifest(id);
  if (manifest !== undefined) return asRelease(manifest);
  throw new UserError(`cannot read release ${id} of ${where}: its manifest is missing`, {
    hint: 'restore the first version of that object',
  });
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

  get current(): AgentRelease | undefined {
    return this.snapshot.current;
  }

  /** Ids, newest first. */
  get ids(): string[] {
    return [...(this.snapshot.base.head?.retained ?? [])].reverse();
  }

  /** @throws UserError if a manifest is missing */
  readAll(ids: readonly string[] = this.ids): Promise<AgentRelease[]> {
    return Promise.all(ids.map((id) => requireRelease(this.head, id, formatLocation(this.from.location))));
  }

  async find(id: string): Promise<Release> {
    const { ids } = this;
    const same = ids.filter((one) => one === id);
    const [only, ...others] = same.length > 0 ? same : ids.filter((one) => one.includes(id));
    if (only !== undefined && others.length === 0) return (await this.readAll([only]))[0] as AgentRelease;
    throw new UserError(
      `${formatLocation(this.from.location)} retains ${only === undefined ? 'no' : 'more than one'} release whose id contains "${id}"`,
      { hint: `retained releases: ${ids.join(', ')}` },
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
