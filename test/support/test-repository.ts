import { publish } from '../../src/publish/publish';
import type { ReleaseOptions } from '../../src/publish/options';
import { Releases } from '../../src/publish/releases';
import type { RepositoryLocation } from '../../src/release/location';
import { configWithVersions, type Manifest } from '../../src/release/manifest';
import { rollBack } from '../../src/publish/rollback';
import { checksumOfBytes, type S3Store } from '../../src/s3/store';

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

  /** Key under the prefix -> checksum of the bytes. */
  async snapshot(): Promise<Map<string, string>> {
    const folder = `${this.prefix}/`;
    const objects = (await this.store.list(folder)).map(async ({ key }): Promise<[string, string]> => {
      return [key.slice(folder.length), (await this.readChecksum(key)) ?? 'gone'];
    });
    return new Map(await Promise.all(objects));
  }

  private async readChecksum(key: string): Promise<string | undefined> {
    const found = await this.store.get(key);
    return found && checksumOfBytes(found.body);
  }

  /** Files whose bytes are not those of a retained release, and files of the plain repository that belong to none. */
  async wrongBytes(): Promise<string[]> {
    const releases = await (await Releases.read(this)).readAll();
    const view = new Map<string, Set<string>>();
    const admit = (path: string, checksum: string): unknown =>
      view.set(path, (view.get(path) ?? new Set()).add(checksum));
    const wrong: string[] = [];
    for (const { id, models } of releases) {
      for (const [name, model] of Object.entries(models)) {
        admit(`${name}/config.pbtxt`, checksumOfBytes(Buffer.from(configWithVersions(model, model.served))));
        for (const { path, key, checksum } of model.files) {
          admit(`${name}/${path}`, checksum);
          if ((await this.readChecksum(key)) !== checksum) wrong.push(`${id}: ${key}`);
        }
      }
    }
    for (const [path, checksum] of await this.snapshot())
      if (view.has(path) && view.get(path)?.has(checksum) !== true) wrong.push(path);
    return wrong;
  }

  /** Deletes all objects of the place. */
  async clear(): Promise<void> {
    await this.store.delete(await this.store.list(this.prefix));
  }
}
