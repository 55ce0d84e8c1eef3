import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Lock, NO_INTENT, readLock } from '../../src/publish/lock';
import { archiveKey, lockKey } from '../../src/release/location';
import { promote } from '../../src/publish/promote';
import { readHead, type Release } from '../../src/publish/release/release';
import { rollBack } from '../../src/publish/rollback';
import { rollOut } from '../../src/publish/apply/rollout';
import { repositoryStatus } from '../../src/publish/status';
import type { Replica, ReplicaSource } from '../../src/cluster/source';
import { checksumOfBytes, type S3Store } from '../../src/s3/store';
import { fakeTriton, type Loading, type Unloading } from '../support/fake-triton';
import { publisher } from '../support/publish';
import { addingEnsemble, addingModel, writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { withoutWaiting } from '../support/test-repository';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'recovery-test', prefix: 'models' };
const repository = join(scratch.directory, 'repository');
let store: S3Store;

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, await withoutWaiting(scratch, endpoint), LOCATION.bucket);
});
beforeEach(async () => {
  rmSync(repository, { recursive: true, force: true });
  mkdirSync(repository);
  await store.delete(await store.list(''));
});

const serving = (...versions: number[]): string =>
  `backend: "anything"\nversion_policy { specific { versions: [${versions.join(', ')}] } }\n`;
const bucket = (...urls: string[]) =>
  publisher(store, LOCATION, repository, () => (urls.length === 0 ? undefined : urls));
const text = async (key: string): Promise<string | undefined> => (await store.get(key))?.body.toString();
const head = async (): Promise<Release | undefined> => (await readHead(store, LOCATION))?.release;
const drift = async (): Promise<string[]> => (await repositoryStatus(store, LOCATION, undefined)).drift;

function pods(replicas: () => Replica[]): ReplicaSource {
  return { describe: () => 'pods', list: () => Promise.resolve(replicas()), close: () => Promise.resolve() };
}

describe('replicas that disappear during a load', () => {
  const TARGET = { models: [{ name: 'm', served: [1], digest: 'd' }], removed: [] };

  /** Three pods. A pod that is requested to load a model crashes; `state` is the pod's state in the cluster then. */
  async function crashing(state: 'not ready' | 'gone') {
    const alive = [true, true, true];
    const servers = await Promise.all(
      alive.map((_, i) =>
        fakeTriton(scratch, store, (): Loading => {
          alive[i] = false;
          return 'crash';
        }),
      ),
    );
    const source = pods(() =>
      servers
        .map(({ url }, i) => ({ name: `pod-${i}`, url, ready: alive[i] === true }))
        .filter(({ ready }) => ready || state === 'not ready'),
    );
    return { servers, source };
  }

  test('a model that crashes replicas stops the rollout at the first one', async () => {
    const { servers, source } = await crashing('not ready');
    await expect(rollOut(source, TARGET, { loadTimeoutMs: 2000 })).rejects.toThrow(/pod-0 could not load m/);
    expect(servers.map(({ loads }) => loads.length)).toEqual([1, 0, 0]);
  });

  test('rollout tolerates one deleted pod, as in a scale-down, and stops at a second one', async () => {
    const { servers, source } = await crashing('gone');
    await expect(rollOut(source, TARGET, { loadTimeoutMs: 2000 })).rejects.toThrow(/pod-1 could not load m/);
    expect(servers.map(({ loads }) => loads.length)).toEqual([1, 1, 0]);
  });

  test('rollout reports a pod that never becomes ready, and does not wait for a pod that is still starting', async () => {
    const starting = pods(() => [{ name: 'a', url: '', ready: false }]);
    expect(await rollOut(starting, TARGET, { loadTimeoutMs: 100 })).toEqual({ settled: [], starting: ['a'] });
    const pending = pods(() => [{ name: 'a', url: '', ready: false, started: false }]);
    expect(await rollOut(pending, TARGET, { loadTimeoutMs: 60_000 })).toEqual({ settled: [], starting: [] });
  });
});

test.each<[Loading, RegExp]>([
  ['first version unavailable', /a version 1 is UNAVAILABLE/],
  ['absent', /a version 1 is absent/],
])('publish rejects a load answered with 200 that does not end in READY (%s)', async (how, reason) => {
  writeRepository(repository, { 'a/config.pbtxt': serving(1, 2), 'a/1/weights.bin': 'a', 'a/2/weights.bin': 'b' });
  const { url } = await fakeTriton(scratch, store, () => how);
  await expect(bucket(url).publish()).rejects.toThrow(reason);
  // After a failed first publication, nothing is left that a starting server would load.
  expect([await head(), await text('models/a/config.pbtxt')]).toEqual([undefined, undefined]);
});

test('publish waits for a model that becomes ready after the answer to its load', async () => {
  writeRepository(repository, { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a' });
  const { url } = await fakeTriton(scratch, store, () => 'ready later');
  await bucket(url).publish();
  expect((await head())?.models['a']?.served).toEqual([1]);
});

test('a load without an answer is reported with the log and the restart, before the restore waits for it', async () => {
  let loads = 0;
  const { url } = await fakeTriton(scratch, store, () => ((loads += 1) === 2 ? 'no answer' : 'ok'));
  const [restart, log] = ['kubectl delete pod triton-0', 'kubectl logs triton-0'];
  const replicas = pods(() => [{ name: 'triton-0', uid: 'u', url, ready: true, restart, log }]);
  const stages: string[] = [];
  const servers = bucket(url);
  writeRepository(repository, { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a' });
  await servers.publish({ replicas });
  writeRepository(repository, { 'a/config.pbtxt': serving(2), 'a/2/weights.bin': 'a2' });
  const onStage = (text: string): unknown => stages.push(text);
  const error = servers.publish({ replicas, loadTimeoutMs: 300, onStage });
  const message = /^triton-0 could not load a: .* did not answer within 0\.3 s/;
  const hint = /the process of a; its log: kubectl logs triton-0; .*: kubectl delete pod triton-0$/;
  await expect(error).rejects.toMatchObject({
    message: expect.stringMatching(message) as string,
    hint: expect.stringMatching(hint) as string,
  });
  const [first, second] = stages;
  expect(first).toMatch(message);
  expect(first).toMatch(hint);
  expect(second).toBe('the change failed: restore the previous release');
  expect((await head())?.models['a']?.served).toEqual([1]);
});

describe('a model that cannot be unloaded', () => {
  const A = { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a' };
  const B = { 'b/config.pbtxt': serving(1), 'b/1/weights.bin': 'b' };
  const UNLOADS: [Unloading, RegExp][] = [
    ['endless', /^UNLOADING after 0.3 s$/],
    ['no answer', /0.3 s/],
    ['refuse', /^it is needed$/],
  ];
  const unloadTimeoutMs = 300;

  /** Two servers with `a` and `b` of one release. The previous release has only `a`. */
  async function twoServers(how: Unloading) {
    const stuck = await fakeTriton(
      scratch,
      store,
      () => 'ok',
      () => how,
    );
    const other = await fakeTriton(scratch, store);
    const servers = bucket(stuck.url, other.url);
    writeRepository(repository, A);
    await servers.publish();
    writeRepository(repository, B);
    await servers.publish();
    return { stuck, other, options: { ...servers.options(), unloadTimeoutMs }, servers };
  }

  test.each(UNLOADS)('rollback completes and reports the model: %s', async (how, reason) => {
    const { stuck, other, options } = await twoServers(how);
    const seen: string[] = [];
    const { stillLoaded, isNew } = await rollBack(undefined, {
      ...options,
      onUnloading: (replica, model) => seen.push(`${replica} ${model}`),
    });
    expect({ isNew, stillLoaded }).toEqual({
      isNew: true,
      stillLoaded: [
        {
          replica: stuck.url,
          model: 'b',
          reason: expect.stringMatching(reason) as string,
          restart: `restart the server at ${stuck.url}`,
        },
      ],
    });
    expect(seen).toContain(`${stuck.url} b`);
    expect(seen).toContain(`${other.url} b`);
    expect([...other.loaded.keys()]).toEqual(['a']);
    expect(Object.keys((await head())?.models ?? {})).toEqual(['a']);
    expect(await text('models/b/config.pbtxt')).toBeUndefined();
    expect(await drift()).toEqual([]);
  });

  test('publish --prune completes and reports the model', async () => {
    const { stuck, options } = await twoServers('endless');
    rmSync(join(repository, 'b'), { recursive: true });
    const pruned = await bucket().publish({ ...options, prune: true });
    expect(pruned.stillLoaded?.map(({ replica, model }) => [replica, model])).toEqual([[stuck.url, 'b']]);
    expect(Object.keys((await head())?.models ?? {})).toEqual(['a']);
  });

  test('rollback reports the command that deletes the pod', async () => {
    const { stuck, options } = await twoServers('endless');
    const restart = 'kubectl --namespace triton delete pod triton-0';
    const replicas = pods(() => [{ name: 'triton-0', uid: 'u', url: stuck.url, ready: true, restart }]);
    expect(await rollBack(undefined, { ...options, replicas })).toMatchObject({ stillLoaded: [{ restart }] });
  });

  test('a failed publication restores the served models and reports the new model that stays loaded', async () => {
    const stuck = await fakeTriton(
      scratch,
      store,
      (model) => (model === 'c' ? 'refuse' : 'ok'),
      () => 'endless',
    );
    writeRepository(repository, A);
    await bucket(stuck.url).publish();
    writeRepository(repository, { ...B, 'c/config.pbtxt': serving(1), 'c/1/weights.bin': 'c' });
    const failed = bucket(stuck.url).publish({ unloadTimeoutMs });
    await expect(failed).rejects.toMatchObject({
      name: 'PartialFailureError',
      message: expect.stringMatching(/c: it is broken\nEvery replica serves the previous release/) as string,
      problems: [{ file: stuck.url, message: 'b is still loaded (UNLOADING after 0.3 s)' }],
    });
    expect(Object.keys((await head())?.models ?? {})).toEqual(['a']);
    const { unfinished } = await repositoryStatus(store, LOCATION, undefined);
    expect(unfinished).toEqual([]);
  });
});

test('publish pins a foreign configuration with policy "latest" before it uploads a newer version', async () => {
  await store.putBytes('models/m/config.pbtxt', Buffer.from('backend: "anything"\n'));
  await store.putBytes('models/m/1/weights.bin', Buffer.from('one'));
  writeRepository(repository, { 'm/config.pbtxt': serving(2), 'm/2/weights.bin': 'broken' });
  const { url } = await fakeTriton(scratch, store, () => 'refuse');
  let atUpload: string | undefined;
  const watching = Object.create(store) as S3Store;
  watching.putFile = async (key, file, options) => {
    if (key.endsWith('/2/weights.bin')) atUpload = await text('models/m/config.pbtxt');
    return store.putFile(key, file, options);
  };
  await expect(publisher(watching, LOCATION, repository, () => [url]).publish()).rejects.toThrow(/it is broken/);
  expect(atUpload).toMatch(/versions: 1\n/);
  expect(await text('models/m/config.pbtxt')).toBe(atUpload);
  expect((await head())?.models['m']?.served).toEqual([1]);
});

test('rollback and restore include the record beside an artifact', async () => {
  const files = { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a', 'a/1/weights.bin.trace.json': '{"x":1}' };
  writeRepository(repository, files);
  await bucket().publish();
  const next = { 'a/config.pbtxt': serving(2), 'a/2/weights.bin': 'b', 'a/1/weights.bin.trace.json': '{"x":22}' };
  writeRepository(repository, next);
  const { url } = await fakeTriton(scratch, store, () => 'refuse');
  await expect(bucket(url).publish()).rejects.toThrow(/it is broken/);
  expect(await drift()).toEqual([]);
  await bucket().publish();
  await rollBack(undefined, bucket().options());
  expect(await text('models/a/1/weights.bin.trace.json')).toBe('{"x":1}');
});

test('publish archives every replaceable file, also those that were in the bucket before', async () => {
  await store.putBytes('models/a/labels.txt', Buffer.from('cat\n'));
  writeRepository(repository, { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a', 'a/labels.txt': 'cat\n' });
  await bucket().publish();
  writeRepository(repository, { 'a/labels.txt': 'dog\n' });
  const { url } = await fakeTriton(scratch, store, () => 'refuse');
  await expect(bucket(url).publish()).rejects.toThrow(/it is broken/);
  expect(await text('models/a/labels.txt')).toBe('cat\n');
});

test('a missing archived copy prevents the restore of one model, but not later publications', async () => {
  writeRepository(repository, { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a' });
  await bucket().publish();
  const config = await store.get('models/a/config.pbtxt');
  await store.delete([{ key: archiveKey(LOCATION, checksumOfBytes(config?.body ?? Buffer.alloc(0))) }]);
  writeRepository(repository, { 'a/config.pbtxt': serving(2), 'a/2/weights.bin': 'b' });
  const { url } = await fakeTriton(scratch, store, () => 'refuse');
  const failed = bucket(url).publish();
  await expect(failed).rejects.toThrow(
    /it is broken[\s\S]*Restoring the previous release failed too[\s\S]*its archived copy .* is missing/,
  );
  await expect(failed).rejects.toMatchObject({ name: 'PartialFailureError' });
  const stages: string[] = [];
  await bucket().publish({ onStage: (stage) => stages.push(stage) });
  expect(stages.join('\n')).toMatch(/cannot restore a: /);
  expect((await head())?.models['a']?.served).toEqual([2]);
});

test('publish first undoes the loads of a killed publisher', async () => {
  writeRepository(repository, {
    'a/config.pbtxt': serving(1),
    'a/1/weights.bin': 'a',
    'b/config.pbtxt': serving(1),
    'b/1/weights.bin': 'b',
  });
  const triton = await fakeTriton(scratch, store);
  await bucket(triton.url).publish();
  const released = (await head())?.models['a']?.digest;
  writeRepository(repository, {
    'a/config.pbtxt': serving(2),
    'a/2/weights.bin': 'a2',
    'c/config.pbtxt': serving(1),
    'c/1/weights.bin': 'c',
  });
  // This publisher hangs after its first load. To other publishers it looks dead.
  let loads = 0;
  let died = (): void => undefined;
  const dead = new Promise<void>((resolve) => (died = resolve));
  const replica = { name: 'a pod', url: triton.url, ready: true };
  const stuck: ReplicaSource = {
    ...pods(() => []),
    list: async () => {
      if (loads > 0) {
        died();
        await new Promise(() => undefined);
      }
      return [replica];
    },
  };
  void bucket().publish({ replicas: stuck, onReady: () => (loads += 1) });
  await dead;
  expect(triton.loaded.get('a')?.versions).toEqual(['2']);
  const lock = JSON.parse((await text(lockKey(LOCATION))) ?? '') as { holder: { pid: number } };
  lock.holder.pid = 0;
  await store.putBytes(lockKey(LOCATION), Buffer.from(JSON.stringify(lock)));

  await bucket(triton.url).publish({ models: ['b'] });
  expect(triton.loaded.get('a')).toEqual({ digest: released, versions: ['1'] });
  expect([...triton.loaded.keys()].sort()).toEqual(['a', 'b']);
  expect(await drift()).toEqual([]);
});

test('a first publication that a replica rejects leaves no configuration', async () => {
  writeRepository(repository, { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a' });
  const { url } = await fakeTriton(scratch, store, () => 'refuse');
  const failed = bucket(url).publish();
  await expect(failed).rejects.toThrow(/could not load a: it is broken$/);
  await expect(failed).rejects.toMatchObject({ name: 'UserError' });
  expect(await text('models/a/config.pbtxt')).toBeUndefined();
  expect(await head()).toBeUndefined();
});

test('promote refuses a model that the release lacks, and an ensemble without its step', async () => {
  writeRepository(repository, { ...addingModel('step', { 1: 1 }), ...addingEnsemble('whole', 'step') });
  await bucket().publish();
  const to = { bucket: LOCATION.bucket, prefix: 'promoted' };
  const attempt = (models: string[]) =>
    promote({ ...publisher(store, to, repository).options(), from: { store, location: LOCATION }, models });
  await expect(attempt(['step', 'hole'])).rejects.toThrow(/has no model "hole"/);
  await expect(attempt(['whole'])).rejects.toThrow('ensemble whole contains step, which --models does not name');
  expect(await readHead(store, to)).toBeUndefined();
});

test('an interrupt aborts a recovery', async () => {
  writeRepository(repository, { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a' });
  await bucket().publish();
  const intent = { ...NO_INTENT, switching: ['a'] };
  const lock = await Lock.take(store, LOCATION, await readLock(store, LOCATION), intent);
  await lock?.release({ unfinished: true });
  const controller = new AbortController();
  const interrupted = Object.create(store) as S3Store;
  interrupted.list = async (prefix, ...more) => {
    if (prefix !== 'models/a/') return store.list(prefix, ...more);
    controller.abort(new Error('Ctrl-C'));
    throw controller.signal.reason;
  };
  const stages: string[] = [];
  const publishing = publisher(interrupted, LOCATION, repository).publish({
    signal: controller.signal,
    onStage: (stage) => stages.push(stage),
  });
  await expect(publishing).rejects.toThrow('Ctrl-C');
  expect(stages).toEqual(['an earlier publisher was interrupted: undo its changes']);
  expect((await readLock(store, LOCATION)).unfinished.switching).toEqual(['a']);
});

test('the wait for another publisher ends with --wait', async () => {
  writeRepository(repository, { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a' });
  const lock = await Lock.take(store, LOCATION, await readLock(store, LOCATION), NO_INTENT);
  await expect(bucket().publish({ lockTimeoutMs: 100 })).rejects.toThrow(/^another publisher is at work: /);
  await lock?.release();
});

test('rollback after a rollback restores an older release, not the newer one', async () => {
  for (const version of [1, 2, 3]) {
    writeRepository(repository, { 'a/config.pbtxt': serving(version), [`a/${version}/weights.bin`]: `${version}` });
    await bucket().publish();
  }
  for (const version of [2, 1]) {
    await rollBack(undefined, bucket().options());
    expect((await head())?.models['a']?.served).toEqual([version]);
  }
  await expect(rollBack(undefined, bucket().options())).rejects.toThrow(/there is no release before/);
});

test('rollback restores two removed models of the same name with their own bytes', async () => {
  writeRepository(repository, { 'z/config.pbtxt': serving(1), 'z/1/weights.bin': 'z' });
  await bucket().publish();
  const releases: string[] = [];
  for (const content of ['first', 'second']) {
    writeRepository(repository, { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': content });
    releases.push((await bucket().publish()).release?.id ?? '');
    await rollBack(undefined, bucket().options());
  }
  await rollBack(releases[0], bucket().options());
  expect(await text('models/a/1/weights.bin')).toBe('first');
});

test('an interrupt aborts the wait for another publisher', async () => {
  writeRepository(repository, { 'a/config.pbtxt': serving(1), 'a/1/weights.bin': 'a' });
  const lock = await Lock.take(store, LOCATION, await readLock(store, LOCATION), NO_INTENT);
  const controller = new AbortController();
  const waiting = bucket().publish({ signal: controller.signal, onStage: () => controller.abort(new Error('Ctrl-C')) });
  await expect(waiting).rejects.toThrow('Ctrl-C');
  await lock?.release();
});
