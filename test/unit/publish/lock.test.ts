import { Lock, NO_INTENT, readLock, type LockSnapshot } from '../../../src/publish/lock';
import { lockKey } from '../../../src/release/location';
import { testStores } from '../../support/fake-s3';
import { MemoryStore } from '../../support/memory-store';

const { storeWith } = testStores();

const LOCATION = { bucket: 'bucket', prefix: 'models' };
const KEY = lockKey(LOCATION);
const MINUTE_MS = 60_000;
const HOLDER = { user: 'ana', host: 'build-7', pid: 4711, place: 'elsewhere' };
const HELD = { state: 'held', id: '1', holder: HOLDER, since: '2026-11-20T10:00:00Z', intent: NO_INTENT };

/** The lock with this content, written some time ago. */
async function seen(content: unknown, ageMs: number): Promise<LockSnapshot> {
  const bucket = new MemoryStore();
  const body = Buffer.from(typeof content === 'string' ? content : JSON.stringify(content));
  bucket.objects.set(KEY, { body, writtenAt: Date.now() - ageMs });
  return readLock(bucket.store, LOCATION);
}

const without = (field: keyof typeof HELD): object =>
  Object.fromEntries(Object.entries(HELD).filter(([key]) => key !== field));

const UNREADABLE = [
  { title: 'text that is not JSON', content: 'no JSON' },
  { title: 'JSON null', content: null },
  { title: 'a JSON list', content: [] },
  { title: 'an object without a state', content: without('state') },
  { title: 'an unknown state', content: { ...HELD, state: 'shared' } },
  { title: 'no holder', content: without('holder') },
  { title: 'a holder that is text', content: { ...HELD, holder: 'ana' } },
  { title: 'a process id that is text', content: { ...HELD, holder: { ...HOLDER, pid: '4711' } } },
  { title: 'a holder without a host', content: { ...HELD, holder: { ...HOLDER, host: undefined } } },
  { title: 'no start time', content: without('since') },
];

test.each(UNREADABLE)('readLock treats a lock with $title as held until it expires', async ({ content }) => {
  expect((await seen(content, MINUTE_MS / 2)).heldBy).toBe(
    'an unknown publisher (s3://bucket/models.releases/lock.json is not a lock of this version)',
  );
  expect((await seen(content, MINUTE_MS + 1)).heldBy).toBeUndefined();
});

test('readLock reads a released lock with any holder', async () => {
  expect((await seen({ state: 'free', holder: 7 }, 0)).heldBy).toBeUndefined();
});

test('readLock names the holder until the lock expires', async () => {
  expect((await seen(HELD, MINUTE_MS / 2)).heldBy).toBe('ana@build-7, process 4711, since 2026-11-20T10:00:00Z');
  expect((await seen(HELD, MINUTE_MS + 1)).heldBy).toBeUndefined();
});

test('the lock is taken and renewed while transfers use every request that is allowed at a time', async () => {
  let finish = (): void => undefined;
  const isFinished = new Promise<void>((resolve) => (finish = resolve));
  const { store } = await storeWith(async ({ url }) => {
    if (!url.includes('lock.json')) await isFinished;
    return { headers: { etag: '"e"' } };
  }, {});
  const uploading = store.putBytes('upload', Buffer.from('a'));
  const seen = { etag: '"e"', heldBy: undefined, unfinished: NO_INTENT };
  const lock = await Lock.take(store, LOCATION, seen, NO_INTENT);
  await lock?.confirm();
  await lock?.release();
  finish();
  await uploading;
});

test('readLock keeps the readable fields of an intent and ignores fields of other types', async () => {
  const intent = { switching: ['a'], digests: { a: 1 }, removing: 'b', deleting: [1], keepDeleted: 1, uploads: true };
  expect((await seen({ ...HELD, intent }, 0)).unfinished).toEqual({ ...NO_INTENT, switching: ['a'], uploads: true });
  expect((await seen({ ...HELD, intent: null }, 0)).unfinished).toEqual(NO_INTENT);
  const inherited = `{ "state": "held", "intent": { "__proto__": 1, "constructor": 1 } }`;
  expect((await seen(inherited, 0)).unfinished).toEqual(NO_INTENT);
  expect((await seen({ ...HELD, holder: 'ana', intent: { switching: ['a'] } }, 0)).unfinished.switching).toEqual(['a']);
});

describe('a renewal whose answer was lost', () => {
  /** A lock whose next write is applied, or not, without an answer. */
  async function lockWithLostAnswer(isApplied: boolean): Promise<{ bucket: MemoryStore; lock: Lock }> {
    const bucket = new MemoryStore();
    const lock = (await Lock.take(bucket.store, LOCATION, await readLock(bucket.store, LOCATION), NO_INTENT)) as Lock;
    const put = bucket.putBytes.bind(bucket);
    jest.spyOn(bucket, 'putBytes').mockImplementationOnce(async (...args) => {
      if (isApplied) await put(...args);
      throw new Error('no answer');
    });
    await expect(lock.confirm()).rejects.toThrow('no answer');
    return { bucket, lock };
  }

  test.each([true, false])('does not count as another publisher (applied: %s)', async (isApplied) => {
    const { bucket, lock } = await lockWithLostAnswer(isApplied);
    await lock.confirm();
    await lock.setIntent({ ...NO_INTENT, switching: ['a'] });
    await lock.release({ unfinished: true });
    expect((await readLock(bucket.store, LOCATION)).unfinished.switching).toEqual(['a']);
  });

  test('does not hide another publisher', async () => {
    const { bucket, lock } = await lockWithLostAnswer(true);
    await bucket.putBytes(KEY, JSON.stringify({ ...HELD, id: 'of another publisher' }));
    await expect(lock.confirm()).rejects.toThrow('another publisher took over the lock');
    expect(() => lock.requireHeld()).toThrow('another publisher took over the lock');
    expect(lock.getLeftMs()).toBe(0);
  });
});

test('a released lock allows no write, not even one that was tried before', async () => {
  const bucket = new MemoryStore();
  const lock = (await Lock.take(bucket.store, LOCATION, await readLock(bucket.store, LOCATION), NO_INTENT)) as Lock;
  const store = bucket.store.withLease(lock);
  let late: Promise<unknown> | undefined;
  bucket.onPut = () => {
    bucket.onPut = () => undefined;
    late = store.putBytes('models/a', Buffer.from('a'));
    late.catch(() => undefined);
  };
  await lock.release();
  await expect(late).rejects.toThrow('the lock of the repository was released');
  expect(lock.getLeftMs()).toBe(0);
  expect(bucket.text('models/a')).toBeUndefined();
  expect((await readLock(bucket.store, LOCATION)).heldBy).toBeUndefined();
});

describe('Lock.requireHeld', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  /** A held lock. `fail` makes renewals fail from now on. */
  async function held() {
    const bucket = new MemoryStore();
    const lock = (await Lock.take(bucket.store, LOCATION, await readLock(bucket.store, LOCATION), NO_INTENT)) as Lock;
    const fail = (failing: boolean): void => {
      bucket.onPut = () => {
        if (failing) throw new Error('the network is down');
      };
    };
    return { lock, fail };
  }

  test('ends ten seconds before another publisher may take over', async () => {
    const { lock, fail } = await held();
    fail(true);
    await jest.advanceTimersByTimeAsync(49_000);
    lock.requireHeld();
    await jest.advanceTimersByTimeAsync(1_000);
    expect(() => lock.requireHeld()).toThrow(/^cannot renew the lock of the repository within 50 s/);
    expect(lock.getLeftMs()).toBeLessThanOrEqual(0);
  });

  test.each([
    { what: 'taken', slow: 1 },
    { what: 'renewed', slow: 2 },
  ])('counts from when the request was sent, not from its answer: a lock that is $what', async ({ slow }) => {
    const bucket = new MemoryStore();
    await bucket.putBytes(KEY, JSON.stringify({ ...HELD, state: 'free' }));
    let writes = 0;
    bucket.onPut = () => {
      writes += 1;
      if (writes === slow) jest.setSystemTime(Date.now() + 45_000);
    };
    const lock = (await Lock.take(bucket.store, LOCATION, await readLock(bucket.store, LOCATION), NO_INTENT)) as Lock;
    if (slow === 2) await lock.confirm();
    expect(lock.getLeftMs()).toBe(5000);
    await lock.release();
  });

  test('gives the reason of the failed renewals when the lock expires', async () => {
    const { lock, fail } = await held();
    fail(true);
    await jest.advanceTimersByTimeAsync(MINUTE_MS + 1);
    expect(() => lock.requireHeld()).toThrow(/the network is down/);
  });

  test('does not give the reason of a renewal that failed before a successful one', async () => {
    const { lock, fail } = await held();
    fail(true);
    await jest.advanceTimersByTimeAsync(MINUTE_MS / 2);
    fail(false);
    await lock.confirm();
    // The machine is suspended: no timer fires.
    jest.setSystemTime(Date.now() + 2 * MINUTE_MS);
    expect(() => lock.requireHeld()).toThrow(/^(?!.*network is down).*another publisher may hold it now$/);
  });
});
