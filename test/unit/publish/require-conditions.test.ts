import { Lock, NO_INTENT, readLock } from '../../../src/publish/lock';
import { applyRelease } from '../../../src/publish/trial/apply-release';
import { headKey, lockKey } from '../../../src/release/location';
import { MemoryStore } from '../../support/memory-store';
import { SeededRandom } from '../../support/soak';
import { VersionedBucket, VersionedStore } from '../../support/versioned-store';

const LOCATION = { bucket: 'bucket', prefix: 'models' };

const take = async (bucket: MemoryStore): Promise<Lock | undefined> =>
  Lock.take(bucket.store, LOCATION, await readLock(bucket.store, LOCATION), NO_INTENT);

/** Publishes a release without models and without replicas. */
const publishForAgents = (store: VersionedStore) =>
  applyRelease(
    () => Promise.resolve({ models: [], remove: [], archiveRemoved: false, prune: false, origin: 'test' }),
    { agents: undefined, migrate: false, plain: [] },
    {
      store: store.store,
      location: LOCATION,
      replicas: undefined,
      untried: true,
      loadTimeoutMs: 1000,
      lockTimeoutMs: 0,
    },
  );

const versionedStore = (bucket: VersionedBucket): VersionedStore =>
  new VersionedStore(bucket, { random: new SeededRandom(1), loss: 0, late: 0, slowestMs: 0 });

test('a server that ignores conditions gets no lock, however often a publisher tries', async () => {
  const bucket = new MemoryStore();
  const put = bucket.putBytes.bind(bucket);
  jest.spyOn(bucket, 'putBytes').mockImplementation((key, body) => put(key, body));
  for (let tries = 1; tries <= 2; tries += 1) {
    await expect(take(bucket)).rejects.toMatchObject({
      message: expect.stringMatching(/^the S3 server at memory: lacks conditional writes/) as string,
      hint: expect.stringMatching(/^use a server that supports If-None-Match and If-Match/) as string,
    });
  }
  expect(bucket.objects.has(lockKey(LOCATION))).toBe(false);
});

test('a server that ignores conditions gets no release for agents', async () => {
  const bucket = new VersionedBucket();
  const store = versionedStore(bucket);
  jest.spyOn(bucket, 'put').mockImplementation((key, body) => VersionedBucket.prototype.put.call(bucket, key, body));
  await expect(publishForAgents(store)).rejects.toThrow(/lacks conditional writes/);
  expect(bucket.objects.has(headKey(LOCATION))).toBe(false);
});

test('only the first lock of a repository costs a request more', async () => {
  const bucket = new MemoryStore();
  const writes: string[] = [];
  bucket.onPut = (key) => writes.push(key);
  await (await take(bucket))?.release();
  expect(writes).toHaveLength(3);
  const taken = bucket.text(lockKey(LOCATION));
  await (await take(bucket))?.release();
  expect(writes).toHaveLength(5);
  expect(taken).toMatch(/"state": "free"/);
});

test('only the first release for agents costs a request more', async () => {
  const bucket = new VersionedBucket();
  const tried: string[] = [];
  const put = bucket.put.bind(bucket);
  jest.spyOn(bucket, 'put').mockImplementation((key, ...others) => {
    tried.push(key);
    return put(key, ...others);
  });
  await publishForAgents(versionedStore(bucket));
  expect(tried.filter((key) => key !== headKey(LOCATION))).toHaveLength(2);
});
