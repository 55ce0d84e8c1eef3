import { spawnSync } from 'node:child_process';
import { Lock, NO_INTENT, readLock } from '../../src/publish/lock';
import { lockKey } from '../../src/release/location';
import type { S3Store } from '../../src/s3/store';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'lock-test', prefix: 'models' };
let store: S3Store;
beforeAll(async () => {
  store = await openBucket(scratch, (await testS3(scratch)).endpoint, LOCATION.bucket);
});
beforeEach(() => store.delete([{ key: lockKey(LOCATION) }]));

const see = () => readLock(store, LOCATION);
const take = async (intent = NO_INTENT): Promise<Lock> => {
  const lock = await Lock.take(store, LOCATION, await see(), intent);
  if (lock === undefined) throw new Error('not taken');
  return lock;
};
const body = async () =>
  JSON.parse((await store.get(lockKey(LOCATION)))?.body.toString() ?? '') as Record<string, unknown>;
const rewrite = async (changes: object): Promise<void> => {
  await store.putBytes(lockKey(LOCATION), Buffer.from(JSON.stringify({ ...(await body()), ...changes })));
};

test('Lock.take succeeds for one of several publishers, and for the next after release', async () => {
  const seen = await see();
  const locks = await Promise.all([1, 2, 3, 4].map(() => Lock.take(store, LOCATION, seen, NO_INTENT)));
  const taken = locks.filter((lock) => lock !== undefined);
  expect(taken).toHaveLength(1);
  expect((await see()).heldBy).toMatch(new RegExp(`process ${process.pid}, since 20`));
  await taken[0]?.release();
  expect(await see()).toMatchObject({ heldBy: undefined, unfinished: NO_INTENT });
  await (await take()).release();
});

test('Lock.take fails if another publisher held the lock since readLock', async () => {
  const seen = await see();
  await (await take()).release();
  expect(await Lock.take(store, LOCATION, seen, NO_INTENT)).toBeUndefined();
});

test('the intent of a dead holder is passed on until a publisher has resolved it', async () => {
  const intent = {
    ...NO_INTENT,
    switching: ['a'],
    removing: ['b'],
    digests: { a: 'd' },
    deleting: ['b/1/x'],
    keepDeleted: true,
  };
  const lock = await take(intent);
  const dead = spawnSync(process.execPath, ['-e', '']).pid;
  const { holder } = (await body()) as { holder: object };
  await rewrite({ holder: { ...holder, pid: dead } });
  expect(await see()).toMatchObject({ heldBy: undefined, unfinished: intent });
  const next = await take();
  expect(await body()).toMatchObject({ state: 'held', intent });
  await next.release();
  expect((await see()).unfinished).toEqual(NO_INTENT);
  // The first publisher notices the loss of the lock at its next write.
  await expect(lock.setIntent(NO_INTENT)).rejects.toThrow(/another publisher took over/);
  expect(() => lock.requireHeld()).toThrow(/another publisher took over/);
  await lock.release();
  expect(await see()).toMatchObject({ heldBy: undefined });
});

test('readLock treats a holder on another machine as alive for a minute', async () => {
  const lock = await take();
  const { holder } = (await body()) as { holder: object };
  await rewrite({ holder: { ...holder, pid: 1, place: 'elsewhere', host: 'elsewhere' } });
  expect((await see()).heldBy).toMatch(/@elsewhere, process 1/);
  await lock.release();
});

test('a lock released with unfinished work is free and reports that work', async () => {
  const lock = await take({ ...NO_INTENT, switching: ['a'] });
  await lock.release({ unfinished: true });
  expect(await see()).toMatchObject({ heldBy: undefined, unfinished: { switching: ['a'] } });
});

test('readLock treats a lock that is not JSON as held by an unknown publisher', async () => {
  await store.putBytes(lockKey(LOCATION), Buffer.from('no JSON'));
  expect((await see()).heldBy).toMatch(/^an unknown publisher/);
});
