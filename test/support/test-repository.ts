import { publish } from '../../src/publish/publish';
import { archiveKey, lockKey, releasesPrefix, type RepositoryLocation } from '../../src/release/location';
import { readHead, readRelease, type Release } from '../../src/publish/release/release';
import { rollBack } from '../../src/publish/rollback';
import type { ApplyOptions } from '../../src/publish/apply/options';
import { checksumOfBytes, type S3Store } from '../../src/s3/store';
import { snapshot, type Snapshot } from './consistency-checker';
import type { Scratch } from './temp-dir';
import { IS_LONG } from './soak';
import { startRecordingProxy } from './recording-proxy';

/** Keys that the publisher stores beside the repository. */
const KEPT = /^(head\.json|lock\.json|\d{8}T\d{9}Z-[0-9a-f]{8}\.json|kept\/[\w-]+|golden\/[0-9a-f]{64}\.json)$/;

/** A repository in a bucket of a test server, with its own prefix. */
export class TestRepository {
  readonly location: RepositoryLocation;

  constructor(
    readonly store: S3Store,
    readonly prefix: string,
  ) {
    this.location = { bucket: store.bucket, prefix };
  }

  options(more: Partial<ApplyOptions> = {}): ApplyOptions {
    const { store, location } = this;
    return { store, location, replicas: undefined, loadTimeoutMs: 60_000, lockTimeoutMs: 60_000, ...more };
  }

  async publish(repository: string, more: Partial<ApplyOptions & { prune: boolean }> = {}): Promise<Release> {
    return (await publish({ ...this.options(), repository, ...more })).release as Release;
  }

  /** Keys that change when the folder is published now; none if it is already published. The lock must be free. */
  async changedByPublishing(repository: string): Promise<string[]> {
    const before = await this.store.list(this.prefix);
    const { isNew } = await publish({ ...this.options({ lockTimeoutMs: 0 }), repository });
    const known = new Set(before.map(({ key, etag }) => `${key} ${etag}`));
    const changed = (await this.store.list(this.prefix)).filter(({ key, etag }) => !known.has(`${key} ${etag}`));
    return [...(isNew ? ['a new release'] : []), ...changed.map(({ key }) => key)];
  }

  /** Origins of all releases, the oldest first. */
  async origins(): Promise<string[]> {
    const origins: string[] = [];
    let release = await this.head();
    while (release !== undefined) {
      origins.unshift(release.origin);
      release =
        release.previous === undefined ? undefined : await readRelease(this.store, this.location, release.previous);
    }
    return origins;
  }

  async rollBack(id: string, more: Partial<ApplyOptions> = {}): Promise<Release> {
    return (await rollBack(id, this.options(more))).release as Release;
  }

  async release(id: string): Promise<Release> {
    return (await readRelease(this.store, this.location, id)) as Release;
  }

  async head(): Promise<Release | undefined> {
    return (await readHead(this.store, this.location))?.release;
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

  /** Things that a publisher must not leave: a lock that is held, unknown objects. */
  async leftovers(): Promise<string[]> {
    const folder = `${releasesPrefix(this.location)}/`;
    const beside = (await this.store.list(folder)).map(({ key }) => key.slice(folder.length));
    const lock = await this.store.get(lockKey(this.location));
    const { state } = JSON.parse(lock?.body.toString() ?? '{"state": "free"}') as { state: string };
    return [...(state === 'free' ? [] : [`the lock is ${state}`]), ...beside.filter((key) => !KEPT.test(key))];
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

/**
 * Endpoint for publishers to a server that no Triton reads. Before publishers replace a configuration that was just
 * written, they wait for the next second, because Triton needs it. These waits would dominate the tests, so in the
 * short form the server's clock is ahead by some seconds.
 */
export async function withoutWaiting(scratch: Scratch, endpoint: string): Promise<string> {
  if (IS_LONG) return endpoint;
  const tap = await startRecordingProxy(endpoint, { clockOffsetMs: 10_000 });
  scratch.defer(() => tap.stop());
  return tap.endpoint;
}
