import { UserError } from '../../../src/core/errors';
import { fixedReplicas } from '../../../src/cluster/source';
import { recover } from '../../../src/publish/apply/recover';
import { archiveKey, headKey, lockKey } from '../../../src/release/location';
import { LockLostError, NO_INTENT, readLock, type Intent } from '../../../src/publish/lock';
import { readSnapshot } from '../../../src/publish/plan/snapshot';
import { newRelease, writeHead, type ReleasedModel } from '../../../src/publish/release/release';
import { checksumOfBytes, S3Error } from '../../../src/s3/store';
import { fakeTriton } from '../../support/fake-triton';
import { MemoryStore } from '../../support/memory-store';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const OPTIONS = { replicas: undefined, loadTimeoutMs: 1000, lockTimeoutMs: 1 };
const LOCATION = { bucket: 'bucket', prefix: 'models' };

test.each<{ title: string; digests: Record<string, string>; unloads: string[] }>([
  { title: 'unloads a new model of the killed publisher', digests: { c: 'd' }, unloads: ['c'] },
  { title: 'keeps a model of another source under the same name', digests: { c: 'other' }, unloads: [] },
  { title: 'keeps a model whose digest the lock does not have', digests: {}, unloads: [] },
])('recover $title', async ({ digests, unloads }) => {
  const { store } = new MemoryStore();
  const triton = await fakeTriton(scratch, store);
  triton.loaded.set('c', { digest: 'd', versions: ['1'] });
  const lock = { etag: undefined, heldBy: undefined, unfinished: { ...NO_INTENT, switching: ['c'], digests } };
  const seen = { lock, head: undefined, objects: new Map() };
  const replicas = fixedReplicas([{ url: triton.url }]);
  expect(await recover(seen, { store, location: LOCATION, replicas, loadTimeoutMs: 1000, lockTimeoutMs: 1 })).toBe(
    true,
  );
  expect(triton.unloads).toEqual(unloads);
});

test('recover unloads a new model that we had loaded before we lost the lock', async () => {
  const { store } = new MemoryStore();
  const triton = await fakeTriton(scratch, store);
  triton.loaded.set('c', { digest: 'd', versions: ['1'] });
  const replicas = fixedReplicas([{ url: triton.url }]);
  const ours = { ...NO_INTENT, switching: ['c'], digests: { c: 'd' } };
  await recover(await readSnapshot(store, LOCATION), { ...OPTIONS, store, location: LOCATION, replicas }, ours);
  expect(triton.unloads).toEqual(['c']);
});

describe('recover, if the pointer to the current release is reported as missing,', () => {
  /** A killed publisher was about to activate model a and to delete model b. */
  const UNFINISHED = { ...NO_INTENT, switching: ['a'], deleting: ['b/config.pbtxt', 'b/1/weights.bin'] };

  async function recoverWithout(previous: string | undefined): Promise<string[]> {
    const bucket = new MemoryStore();
    const release = newRelease({ previous, origin: 'test', models: {} });
    await writeHead(bucket.store, LOCATION, release, undefined);
    bucket.objects.delete(headKey(LOCATION));
    for (const key of ['a/config.pbtxt', ...UNFINISHED.deleting]) await bucket.putBytes(`models/${key}`, key);
    const lock = { etag: undefined, heldBy: undefined, unfinished: UNFINISHED };
    const snapshot = await readSnapshot(bucket.store, LOCATION);
    const options = { ...OPTIONS, store: bucket.store, location: LOCATION };
    try {
      await recover({ ...snapshot, lock }, options);
    } finally {
      const { objects } = await readSnapshot(bucket.store, LOCATION);
      expect([...objects.keys()]).toEqual([...snapshot.objects.keys()]);
    }
    return [...bucket.objects.keys()];
  }

  test('deletes nothing and asks to try again later', async () => {
    await expect(recoverWithout('20261120T113254123Z-1f2e3d4c')).rejects.toMatchObject({
      message: expect.stringContaining('s3://bucket/models.releases/head.json, is missing') as string,
      hint: expect.stringMatching(/^if the bucket was created .* try again later/) as string,
    });
  });

  test('deletes nothing after a first publication that was killed before it wrote the pointer', async () => {
    expect(await recoverWithout(undefined)).toContain(lockKey(LOCATION));
  });
});

test('recover finishes the deletions of a killed publisher, but deletes nothing that the release has', async () => {
  const bucket = new MemoryStore();
  const keys = ['a/1/weights.bin', 'a/2/weights.bin', 'a/config.pbtxt'];
  for (const key of keys) await bucket.putBytes(`models/${key}`, key);
  const snapshot = await readSnapshot(bucket.store, LOCATION);
  const kept = Object.fromEntries([...snapshot.objects].filter(([key]) => key !== 'a/1/weights.bin'));
  const objects = Object.fromEntries(
    Object.entries(kept).map(([key, { bytes, etag }]) => [key, { bytes, etag, checksum: '' }]),
  );
  const models = { a: { served: [2], digest: 'd', composedOf: [], weights: {}, objects } };
  await writeHead(bucket.store, LOCATION, newRelease({ previous: undefined, origin: 'test', models }), undefined);
  const lock = { etag: undefined, heldBy: undefined, unfinished: { ...NO_INTENT, deleting: keys.slice(0, 2) } };
  const seen = { ...(await readSnapshot(bucket.store, LOCATION)), lock };
  expect(await recover(seen, { ...OPTIONS, store: bucket.store, location: LOCATION })).toBe(true);
  expect([...(await readSnapshot(bucket.store, LOCATION)).objects.keys()]).toEqual(keys.slice(1));
});

const getConfig = (name: string, version: number): string =>
  `version_policy { specific { versions: [${version}] } }
parameters { key: "published_digest" value { string_value: "${name}${version}" } }`;

describe('recover of a killed publisher that had activated version 2 of models a and b', () => {
  /** The release serves version 1 of a and b, and an ensemble of each. The bucket has the configurations of version 2. */
  async function killed(onLoad?: () => 'ok') {
    const bucket = new MemoryStore();
    const models: Record<string, ReleasedModel> = {};
    for (const name of ['a', 'b', 'on_a', 'on_b']) {
      const config = getConfig(name, 1);
      const checksum = checksumOfBytes(Buffer.from(config));
      const { etag } = await bucket.putBytes(`models/${name}/config.pbtxt`, config);
      await bucket.putBytes(archiveKey(LOCATION, checksum), config);
      const objects = { [`${name}/config.pbtxt`]: { bytes: config.length, etag, checksum } };
      models[name] = {
        served: [1],
        digest: `${name}1`,
        composedOf: name.startsWith('on_') ? [name.slice(3)] : [],
        weights: {},
        objects,
      };
    }
    await writeHead(bucket.store, LOCATION, newRelease({ previous: undefined, origin: 'test', models }), undefined);
    for (const name of ['a', 'b']) await bucket.putBytes(`models/${name}/config.pbtxt`, getConfig(name, 2));
    const triton = await fakeTriton(scratch, bucket.store, onLoad);
    for (const name of ['a', 'b', 'on_a', 'on_b']) triton.loaded.set(name, { digest: `${name}1`, versions: ['1'] });
    const intent: Intent = { ...NO_INTENT, switching: ['a', 'b'], digests: { a: 'a2', b: 'b2' } };
    const stages: string[] = [];
    const run = async (unfinished: Intent, ours?: Intent): Promise<boolean> => {
      const snapshot = await readSnapshot(bucket.store, LOCATION);
      const onStage = (stage: string): unknown => stages.push(stage);
      const options = {
        ...OPTIONS,
        store: bucket.store,
        location: LOCATION,
        replicas: fixedReplicas([{ url: triton.url }]),
        onStage,
      };
      return recover({ ...snapshot, lock: { ...snapshot.lock, unfinished } }, options, ours);
    };
    const configs = (): (string | undefined)[] => ['a', 'b'].map((name) => bucket.text(`models/${name}/config.pbtxt`));
    return { bucket, triton, intent, stages, run, configs, models };
  }

  test.each([
    { title: 'what the lock names', isOurs: false },
    { title: 'what we did before we lost the lock', isOurs: true },
  ])('restores $title, on replicas too, with the ensembles that depend on it', async ({ isOurs }) => {
    const { run, intent, configs, triton } = await killed();
    expect(await (isOurs ? run(NO_INTENT, intent) : run(intent))).toBe(true);
    expect(configs()).toEqual([getConfig('a', 1), getConfig('b', 1)]);
    expect(triton.loads).toEqual(['a', 'b', 'on_a', 'on_b']);
  });

  test.each([
    { what: 'S3 is busy', error: new S3Error('read kept', 'http://s3', { code: 'SlowDown', status: 503, text: '' }) },
    {
      what: 'S3 refuses',
      error: new S3Error('read kept', 'http://s3', { code: 'AccessDenied', status: 403, text: '' }),
    },
    { what: 'credentials are missing', error: new UserError('no credentials for S3') },
  ])('ends and keeps the intent if $what, and a later one finishes', async ({ error: busy }) => {
    const { bucket, run, intent, configs, triton } = await killed();
    const get = bucket.get.bind(bucket);
    const spy = jest
      .spyOn(bucket, 'get')
      .mockImplementation((key) => (/kept/.test(key) ? Promise.reject(busy) : get(key)));
    await expect(run(intent)).rejects.toBe(busy);
    spy.mockRestore();
    expect(triton.loads).toEqual([]);
    const { unfinished, heldBy } = await readLock(bucket.store, LOCATION);
    expect([heldBy, unfinished.switching]).toEqual([undefined, ['a', 'b']]);
    expect(await run(unfinished)).toBe(true);
    expect(configs()).toEqual([getConfig('a', 1), getConfig('b', 1)]);
    expect((await readLock(bucket.store, LOCATION)).unfinished).toEqual(NO_INTENT);
  });

  test.each(['write', 'load'])('ends without a further write or load if its lock expires at a %s', async (at) => {
    const jump = (): 'ok' => {
      const later = Date.now() + 61_000;
      jest.spyOn(Date, 'now').mockReturnValue(later);
      return 'ok';
    };
    const { bucket, run, intent, configs, triton } = await killed(at === 'load' ? jump : undefined);
    bucket.onPut = (key) => {
      if (at === 'write' && key.startsWith('models/')) jump();
    };
    await expect(run(intent)).rejects.toThrow(LockLostError);
    jest.restoreAllMocks();
    expect(configs()).toEqual([getConfig('a', at === 'write' ? 2 : 1), getConfig('b', 1)]);
    expect(triton.loads).toEqual(at === 'write' ? [] : ['a']);
    expect((await readLock(bucket.store, LOCATION)).unfinished.switching).toEqual(['a', 'b']);
  });

  test('goes on without a model whose archived copy is gone, and does not have it loaded', async () => {
    const { bucket, run, intent, configs, triton, stages, models } = await killed();
    bucket.objects.delete(archiveKey(LOCATION, models['b']?.objects['b/config.pbtxt']?.checksum ?? ''));
    // A load of the ensemble of b would load b too.
    expect(await run({ ...intent, switching: ['a', 'b', 'on_b'], deleting: ['b/1/weights.bin'] })).toBe(true);
    expect(configs()).toEqual([getConfig('a', 1), getConfig('b', 2)]);
    expect(triton.loads).toEqual(['a', 'on_a']);
    expect(stages.join()).toMatch(/cannot restore b: cannot restore b\/config.pbtxt: its archived copy .* is missing/);
  });
});
