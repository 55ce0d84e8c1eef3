import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Replica, ReplicaSource } from '../../../src/cluster/source';
import { PartialFailureError } from '../../../src/core/errors';
import { recover } from '../../../src/publish/apply/recover';
import { NO_INTENT } from '../../../src/publish/lock';
import { readSnapshot } from '../../../src/publish/plan/snapshot';
import { isAsReleased, repositoryStatus } from '../../../src/publish/status';
import { fakeTriton, type FakeTriton, type Loading } from '../../support/fake-triton';
import { MemoryStore } from '../../support/memory-store';
import { CONFIG, ONE_MODEL, publisher, TWO_MODELS } from '../../support/publish';
import { writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';

/** Pods that start while a publisher works: they have read the bucket, and are not ready. */

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'bucket', prefix: 'models' };
const config = (version: number): string => CONFIG.replace('[1]', `[${version}]`);
/** The publisher lists the pods once per second, so this timeout ends before the second list. */
const SHORT = { loadTimeoutMs: 100 };

let folders = 0;
const write = (files: Record<string, string>): string =>
  writeRepository(join(scratch.directory, `repository-${(folders += 1)}`), files);

interface Pods extends ReplicaSource {
  /** A pod that starts, and the one that serves. */
  fresh: FakeTriton;
  canary: FakeTriton;
  /** The fresh pod starts and loads model a from the bucket. */
  start: () => void;
  state: 'absent' | 'starting' | 'ready';
}

/** @param onLoad the reaction of the canary */
async function pods(memory: MemoryStore, onLoad: (model: string) => Loading = () => 'ok'): Promise<Pods> {
  const canary = await fakeTriton(scratch, memory.store, onLoad);
  const fresh = await fakeTriton(scratch, memory.store);
  const made: Pods = {
    canary,
    fresh,
    state: 'absent',
    start() {
      this.state = 'starting';
      const text = memory.text('models/a/config.pbtxt') ?? '';
      const [, digest] = /published_digest[\s\S]*?string_value: "(\w+)"/.exec(text) ?? [];
      const [, versions = ''] = /versions: \[?([\d, ]+)/.exec(text) ?? [];
      fresh.loaded.set('a', { digest, versions: versions.split(', ') });
    },
    describe: () => 'pods',
    list() {
      const pod: Replica = { name: 'fresh', url: fresh.url, ready: this.state === 'ready', started: true };
      return Promise.resolve([
        { name: 'canary', url: canary.url, ready: true },
        ...(this.state === 'absent' ? [] : [pod]),
      ]);
    },
    close: () => Promise.resolve(),
  };
  return made;
}

/** The fresh pod starts when objects are deleted: it has listed them, and finds none of its models complete. */
function startsAtDeletion(replicas: Pods, memory: MemoryStore): void {
  memory.onDelete = (keys) => {
    if (keys.length > 0) replicas.state = 'starting';
  };
}

/** A publish of a new version that the canary rejects, while a pod starts with that version. */
async function rejected() {
  const memory = new MemoryStore();
  let rejects = false;
  const replicas: Pods = await pods(memory, () => {
    if (!rejects) return 'ok';
    replicas.start();
    rejects = false;
    return 'refuse';
  });
  const bucket = publisher(memory.store, LOCATION, write(ONE_MODEL));
  await bucket.publish({ replicas });
  const repository = write({ 'a/config.pbtxt': config(2), 'a/2/weights.bin': 'bad' });
  const publish = (more: object): Promise<unknown> => {
    rejects = true;
    return bucket.publish({ repository, replicas, ...more });
  };
  return { memory, replicas, bucket, publish };
}

test('a publish that restores waits for a pod that starts, and loads the previous version on it', async () => {
  const { memory, replicas, publish } = await rejected();
  const waiting: (readonly string[])[] = [];
  const onWaiting = (names: readonly string[]): void => {
    waiting.push(names);
    replicas.state = 'ready';
  };
  await expect(publish({ onWaiting })).rejects.toThrow('canary could not load a');
  expect(waiting).toEqual([['fresh']]);
  expect(replicas.fresh.loads).toEqual(['a']);
  expect(replicas.fresh.loaded.get('a')?.versions).toEqual(['1']);
  expect(isAsReleased(await repositoryStatus(memory.store, LOCATION, replicas))).toBe(true);
});

test('a publish that restores is incomplete while a pod starts, and the next publisher restores that pod', async () => {
  const { memory, replicas, bucket, publish } = await rejected();
  const error: unknown = await publish(SHORT).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(PartialFailureError);
  expect((error as Error).message).toMatch(/restored, except on replicas that are still starting: fresh$/);
  expect((await repositoryStatus(memory.store, LOCATION, undefined)).unfinished).toEqual(['a']);

  const again: unknown = await bucket.publish({ replicas, ...SHORT }).catch((caught: unknown) => caught);
  expect(again).toBeInstanceOf(PartialFailureError);
  expect((again as Error).message).toMatch(/undone, except on replicas that are still starting: fresh$/);
  expect((await repositoryStatus(memory.store, LOCATION, undefined)).unfinished).toEqual(['a']);

  replicas.state = 'ready';
  await bucket.publish({ replicas });
  expect(replicas.fresh.loaded.get('a')?.versions).toEqual(['1']);
  expect(isAsReleased(await repositoryStatus(memory.store, LOCATION, replicas))).toBe(true);
});

test('other bytes under the same version number are loaded on a pod that serves the number already', async () => {
  const memory = new MemoryStore();
  const replicas = await pods(memory);
  const bad = { 'a/config.pbtxt': config(2), 'a/2/weights.bin': 'bad' };
  await publisher(memory.store, LOCATION, write(bad)).publish({ replicas });
  replicas.start();
  const loaded = replicas.fresh.loaded.get('a');
  // The version was deleted, and its number is free again.
  memory.objects.clear();
  replicas.state = 'ready';
  await publisher(memory.store, LOCATION, write({ ...bad, 'a/2/weights.bin': 'fixed' })).publish({ replicas });
  expect(replicas.fresh.loads).toEqual(['a']);
  expect(replicas.fresh.loaded.get('a')?.versions).toEqual(['2']);
  expect(replicas.fresh.loaded.get('a')?.digest).not.toBe(loaded?.digest);
});

describe('publish with prune', () => {
  /** Model b is pruned; `during` is called before its objects are deleted. */
  async function prune(more: (replicas: Pods, memory: MemoryStore) => object) {
    const memory = new MemoryStore();
    const replicas = await pods(memory);
    const repository = write(TWO_MODELS);
    const bucket = publisher(memory.store, LOCATION, repository, () => undefined);
    await bucket.publish({ replicas });
    rmSync(join(repository, 'b'), { recursive: true });
    const options = more(replicas, memory);
    const result = await bucket.publish({ prune: true, replicas, ...options }).catch((caught: unknown) => caught);
    const left = [...memory.objects.keys()].filter((key) => key.startsWith('models/b/'));
    return { memory, replicas, bucket, result, left };
  }

  test('deletes nothing while a pod starts, and the next publisher deletes when the pod is ready', async () => {
    const { memory, replicas, bucket, result, left } = await prune((pod) => ({
      ...SHORT,
      onStage: (text: string) => {
        if (text.startsWith('delete ')) pod.state = 'starting';
      },
    }));
    expect(result).toBeInstanceOf(PartialFailureError);
    expect((result as Error).message).toMatch(/not every object was deleted: .* still starting: fresh$/);
    expect(left).toHaveLength(2);

    const again: unknown = await bucket.publish({ replicas, ...SHORT }).catch((caught: unknown) => caught);
    expect(again).toBeInstanceOf(PartialFailureError);
    expect([...memory.objects.keys()]).toEqual(expect.arrayContaining(left));

    replicas.state = 'ready';
    await bucket.publish({ replicas });
    expect(await memory.list('models/b/')).toEqual([]);
    expect(isAsReleased(await repositoryStatus(memory.store, LOCATION, replicas))).toBe(true);
  });

  test('loads a model again on a pod that failed to load it because it started during the deletion', async () => {
    const { memory, replicas, result } = await prune((pod, bucket) => {
      startsAtDeletion(pod, bucket);
      return { onWaiting: () => (pod.state = 'ready') };
    });
    expect(result).toMatchObject({ isNew: true });
    expect(replicas.fresh.loads).toEqual(['a']);
    expect(isAsReleased(await repositoryStatus(memory.store, LOCATION, replicas))).toBe(true);
  });

  test('is incomplete if a pod that started during the deletion is still starting', async () => {
    const { result, left, bucket, replicas } = await prune((pod, bucket) => {
      startsAtDeletion(pod, bucket);
      return SHORT;
    });
    expect(result).toBeInstanceOf(PartialFailureError);
    expect((result as Error).message).toMatch(/started during the deletion are still starting: fresh$/);
    expect(left).toEqual([]);
    replicas.state = 'ready';
    await bucket.publish({ replicas });
    expect(replicas.fresh.loads).toEqual(['a']);
  });
});

test('recover loads a model again on a pod that started while it deleted objects of that model', async () => {
  const memory = new MemoryStore();
  const replicas = await pods(memory);
  await publisher(memory.store, LOCATION, write(ONE_MODEL)).publish({ replicas });
  await memory.putBytes('models/a/9/weights.bin', 'x');
  startsAtDeletion(replicas, memory);
  const onWaiting = (): void => void (replicas.state = 'ready');
  const seen = await readSnapshot(memory.store, LOCATION);
  const lock = { ...seen.lock, unfinished: { ...NO_INTENT, deleting: ['a/9/weights.bin'] } };
  const options = { store: memory.store, location: LOCATION, replicas, loadTimeoutMs: 60_000, lockTimeoutMs: 1 };
  await recover({ ...seen, lock }, { ...options, onWaiting });
  expect(memory.text('models/a/9/weights.bin')).toBeUndefined();
  expect(replicas.fresh.loads).toEqual(['a']);
});

test('publish does not delete orphaned objects of a version folder while a pod starts', async () => {
  const memory = new MemoryStore();
  const replicas = await pods(memory);
  replicas.state = 'starting';
  await memory.putBytes('models/a/1/orphan.bin', 'x');
  const publishing = publisher(memory.store, LOCATION, write(ONE_MODEL)).publish({ replicas, ...SHORT });
  await expect(publishing).rejects.toThrow(
    'cannot delete orphaned objects of version folders while replicas are still starting: fresh',
  );
  expect(memory.text('models/a/1/orphan.bin')).toBe('x');
  replicas.state = 'ready';
  await publisher(memory.store, LOCATION, write(ONE_MODEL)).publish({ replicas });
  expect(memory.text('models/a/1/orphan.bin')).toBeUndefined();
});
