import { publish } from '../../src/publish/publish';
import type { ReleaseOptions } from '../../src/publish/options';
import { Releases } from '../../src/publish/releases';
import { archiveKey, releasesPrefix, type RepositoryLocation } from '../../src/release/location';
import type { Manifest } from '../../src/release/manifest';
import { rollBack } from '../../src/publish/rollback';
import { checksumOfBytes, type S3Store } from '../../src/s3/store';
import { snapshot, type Snapshot } from './consistency-checker';

/** Keys that the publisher stores beside the repository. */
const KEPT = /^(head\.json|\d{8}T\d{9}Z-[0-9a-f]{8}\.json|kept\/[\w-]+|golden\/[0-9a-f]{64}\.json)$/;

/** A repository in a bucket of a test server, with its own prefix. */
export class TestRepository {
  readonly location: RepositoryLocation;

  constructor(
    readonly store: S3Store,
    readonly prefix: string,
  ) {
    this.location = { bucket: store.bucket, prefix };
  }

  options(more: Partial<ReleaseOptions> = {}): ReleaseOptions {
    const { store, location } = this;
    return { store, location, untried: true, loadTimeoutMs: 60_000, waitMs: 60_000, ...more };
  }

  async publish(repository: string, more: Partial<ReleaseOptions & { prune: boolean }> = {}): Promise<Manifest> {
    return (await publish({ ...this.options(), repository, ...more })).release as Manifest;
  }

  /** Keys that change when the folder is published now; none if it is already published. */
  async changedByPublishing(repository: string): Promise<string[]> {
    const before = await this.store.list(this.prefix);
    const { isNew } = await publish({ ...this.options({ waitMs: 0 }), repository });
    const known = new Set(before.map(({ key, etag }) => `${key} ${etag}`));
    const changed = (await this.store.list(this.prefix)).filter(({ key, etag }) => !known.has(`${key} ${etag}`));
    return [...(isNew ? ['a new release'] : []), ...changed.map(({ key }) => key)];
  }

  /** Origins of all retained releases, the oldest first. */
  async origins(): Promise<string[]> {
    return (await (await Releases.read(this)).readAll()).map(({ origin }) => origin).reverse();
  }

  async rollBack(id: string, more: Partial<ReleaseOptions> = {}): Promise<Manifest> {
    return (await rollBack(id, this.options(more))).release as Manifest;
  }

  async release(id: string): Promise<Manifest> {
    return (await (await Releases.read(this)).read(id)) as Manifest;
  }

  async head(): Promise<Manifest | undefined> {
    return (await Releases.read(this)).current;
  }

  /** Flags for a command on this place, through `endpoint`. */
  flags(endpoint: string): string[] {
    return ['--bucket', `s3://${this.location.bucket}/${this.prefix}`, '--endpoint-url', endpoint];
  }

  snapshot(): Promise<Snapshot> {
    return snapshot(this.store, `${this.prefix}/`);
  }

  /** Model -> text of its config.pbtxt. */
  async configs(): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    for (const { key } of await this.store.list(`${this.prefix}/`)) {
      const [, name] = /([^/]+)\/config\.pbtxt$/.exec(key) ?? [];
      if (name !== undefined) found.set(name, (await this.store.get(key))?.body.toString() ?? '');
    }
    return found;
  }

  /** Unknown objects, which a publisher must not leave. */
  async leftovers(): Promise<string[]> {
    const folder = `${releasesPrefix(this.location)}/`;
    const beside = (await this.store.list(folder)).map(({ key }) => key.slice(folder.length));
    return beside.filter((key) => !KEPT.test(key));
  }

  /** Archived copies whose checksum differs from their name. */
  async wrongCopies(): Promise<string[]> {
    const wrong: string[] = [];
    for (const { key } of await this.store.list(`${releasesPrefix(this.location)}/kept/`)) {
      const { body = Buffer.alloc(0) } = (await this.store.get(key)) ?? {};
      if (archiveKey(this.location, checksumOfBytes(body)) !== key) wrong.push(key);
    }
    return wrong;
  }

  /** Deletes all objects of the place. */
  async clear(): Promise<void> {
    await this.store.delete(await this.store.list(this.prefix));
  }
}
