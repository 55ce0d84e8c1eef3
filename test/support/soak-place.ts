import { publish } from '../../src/publish/publish';
import { keptKey, lockKey, releasesPrefix, type RepositoryLocation } from '../../src/publish/location';
import { readHead, readRelease, type Release } from '../../src/publish/release/release';
import { rollBack } from '../../src/publish/rollback';
import type { ChangeOptions } from '../../src/publish/apply/options';
import { checksumOfBytes, type S3Store } from '../../src/s3/store';
import { snapshot, type Snapshot } from './observer';
import type { Scratch } from './scratch';
import { IS_LONG } from './soak';
import { startTap } from './tap';

/** What the publisher keeps beside the repository. */
const KEPT = /^(head\.json|lock\.json|\d{8}T\d{9}Z-[0-9a-f]{8}\.json|kept\/[\w-]+|golden\/[0-9a-f]{64}\.json)$/;

/** A repository in a bucket of a test server, with a prefix of its own. */
export class Place {
  readonly location: RepositoryLocation;

  constructor(
    readonly store: S3Store,
    readonly prefix: string,
  ) {
    this.location = { bucket: store.bucket, prefix };
  }

  options(more: Partial<ChangeOptions> = {}): ChangeOptions {
    const { store, location } = this;
    return { store, location, replicas: undefined, loadTimeoutMs: 60_000, lockTimeoutMs: 60_000, ...more };
  }

  async publish(repository: string, more: Partial<ChangeOptions & { prune: boolean }> = {}): Promise<Release> {
    return (await publish({ ...this.options(), repository, ...more })).release as Release;
  }

  /** What publishing the folder now changes, with the lock free: nothing, if it is what is there. */
  async changedByPublishing(repository: string): Promise<string[]> {
    const before = await this.store.list(this.prefix);
    const { isNew } = await publish({ ...this.options({ lockTimeoutMs: 0 }), repository });
    const known = new Set(before.map(({ key, etag }) => `${key} ${etag}`));
    const changed = (await this.store.list(this.prefix)).filter(({ key, etag }) => !known.has(`${key} ${etag}`));
    return [...(isNew ? ['a new release'] : []), ...changed.map(({ key }) => key)];
  }

  /** Where the releases came from, the first one first. */
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

  async rollBack(id: string, more: Partial<ChangeOptions> = {}): Promise<Release> {
    return (await rollBack(id, this.options(more))).release as Release;
  }

  async release(id: string): Promise<Release> {
    return (await readRelease(this.store, this.location, id)) as Release;
  }

  async head(): Promise<Release | undefined> {
    return (await readHead(this.store, this.location))?.release;
  }

  /** Flags for a command line that works here, through `endpoint`. */
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

  /** What a publisher should not have left: a lock that is not free, unfinished uploads, objects of unknown use. */
  async leftovers(): Promise<string[]> {
    const folder = `${releasesPrefix(this.location)}/`;
    const beside = (await this.store.list(folder)).map(({ key }) => key.slice(folder.length));
    const lock = await this.store.get(lockKey(this.location));
    const { state } = JSON.parse(lock?.body.toString() ?? '{"state": "free"}') as { state: string };
    return [
      ...(state === 'free' ? [] : [`the lock is ${state}`]),
      ...beside.filter((key) => !KEPT.test(key)),
      ...(await this.store.abortUploads(this.prefix)).map((key) => `unfinished upload of ${key}`),
    ];
  }

  /** Copies beside the repository whose bytes are not what their name says. */
  async wrongCopies(): Promise<string[]> {
    const wrong: string[] = [];
    for (const { key } of await this.store.list(`${releasesPrefix(this.location)}/kept/`)) {
      const { body = Buffer.alloc(0) } = (await this.store.get(key)) ?? {};
      if (keptKey(this.location, checksumOfBytes(body)) !== key) wrong.push(key);
    }
    return wrong;
  }

  /** Deletes all of it. */
  async clear(): Promise<void> {
    await this.store.delete((await this.store.list(this.prefix)).map(({ key }) => key));
  }
}

/**
 * Where publishers are to find a server that no Triton reads from. They wait for a new second before they replace a
 * configuration that was written just now, for Triton's sake; here that would be most of the time. So in the short form
 * the server's clock is some seconds ahead.
 */
export async function withoutWaiting(scratch: Scratch, endpoint: string): Promise<string> {
  if (IS_LONG) return endpoint;
  const tap = await startTap(endpoint, { clockOffsetMs: 10_000 });
  scratch.defer(() => tap.stop());
  return tap.endpoint;
}
