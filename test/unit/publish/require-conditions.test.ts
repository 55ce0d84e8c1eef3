import { join } from 'node:path';
import { readValidRepository } from '../../../src/model';
import { desiredModels } from '../../../src/publish/plan/desired';
import { Lock, NO_INTENT, readLock } from '../../../src/publish/lock';
import { applyRelease } from '../../../src/publish/trial/apply-release';
import { headKey, lockKey, releaseKey } from '../../../src/release/location';
import { MemoryStore } from '../../support/memory-store';
import { ONE_MODEL, TWO_MODELS } from '../../support/publish';
import { writeRepository } from '../../support/repository';
import { SeededRandom } from '../../support/soak';
import { Scratch } from '../../support/temp-dir';
import { VersionedBucket, VersionedStore } from '../../support/versioned-store';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'bucket', prefix: 'models' };

const take = async (bucket: MemoryStore): Promise<Lock | undefined> =>
  Lock.take(bucket.store, LOCATION, await readLock(bucket.store, LOCATION), NO_INTENT);

/** Publishes files for agents to a bucket, without replicas. */
async function publishForAgents(bucket: VersionedBucket, files: Record<string, string>): Promise<void> {
  const repository = writeRepository(join(scratch.directory, String(Object.keys(files).length)), files);
  const models = await desiredModels((await readValidRepository(repository, {}, 'published')).models);
  const { store } = new VersionedStore(bucket, { random: new SeededRandom(1), loss: 0, late: 0, slowestMs: 0 });
  await applyRelease(
    () => Promise.resolve({ models, remove: [], archiveRemoved: false, prune: false, origin: 'test' }),
    { agents: undefined, migrate: false, plain: [] },
    {
      ...{ store, location: LOCATION, replicas: undefined, untried: true },
      ...{ loadTimeoutMs: 1000, lockTimeoutMs: 0 },
    },
  );
}

test('Lock.take refuses a server that ignores conditions, each time', async () => {
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

test('applyRelease refuses a server that ignores conditions', async () => {
  const bucket = new VersionedBucket();
  jest.spyOn(bucket, 'put').mockImplementation((key, body) => VersionedBucket.prototype.put.call(bucket, key, body));
  await expect(publishForAgents(bucket, ONE_MODEL)).rejects.toThrow(/lacks conditional writes/);
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
  const put = jest.spyOn(bucket, 'put');
  const countManifests = (): number =>
    put.mock.calls.filter(([key]) => key.startsWith(releaseKey(LOCATION, '2').replace(/\.json$/, ''))).length;
  await publishForAgents(bucket, ONE_MODEL);
  expect(countManifests()).toBe(2);
  await publishForAgents(bucket, TWO_MODELS);
  expect(countManifests()).toBe(3);
});
