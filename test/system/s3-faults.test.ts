import { randomBytes } from 'node:crypto';
import { UserError } from '../../src/core/errors';
import { checksumOfBytes, PART_BYTES, type S3Store, type StoreOptions } from '../../src/s3/store';
import { Authority, startFront } from '../support/authority';
import { FAULTS, startFaultProxy, type FaultOptions, type FaultProxy } from '../support/scripted-proxy';
import { getFile, openBucket, sorted, unfinishedUploads } from '../support/s3';
import { describeOnEachS3 } from '../support/versitygw';
import { Scratch } from '../support/temp-dir';
import { patience, repetitions, SeededRandom, SOAK_SEED } from '../support/soak';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const authority = new Authority(scratch);
// For clients in this process and for the commands.
process.env['AWS_CA_BUNDLE'] = authority.caFile;

const random = new SeededRandom(SOAK_SEED);

const BUCKET = 'faults';

describeOnEachS3('through a bad network, with', (start, name) => {
  let endpoint: string;
  /** The same bucket without faults. */
  let store: S3Store;

  // SeaweedFS parses XML before it verifies the checksum, so a flipped byte can change a key.
  const kinds = name === 'versitygw' ? FAULTS : FAULTS.filter((kind) => kind !== 'flip');

  const proxied = async (
    options: Partial<FaultOptions>,
    storeOptions: Pick<StoreOptions, 'attempts' | 'idleTimeoutMs' | 'deadlineMs'> = {},
  ): Promise<{ proxy: FaultProxy; store: S3Store }> => {
    const plain = await startFaultProxy(endpoint, { seed: SOAK_SEED, rate: 1, kinds, ...options });
    scratch.defer(() => plain.stop());
    const front = await startFront(random, plain.endpoint, authority);
    scratch.defer(() => front.stop());
    const proxy = { ...plain, endpoint: front.endpoint };
    const through = { create: false, idleTimeoutMs: 1000, ...storeOptions };
    return { proxy, store: await openBucket(scratch, proxy.endpoint, BUCKET, through) };
  };

  const file = (content: Buffer) => getFile(scratch, content);

  beforeAll(async () => {
    endpoint = (await start(scratch)).endpoint;
    store = await openBucket(scratch, endpoint, BUCKET);
  });

  test(
    'publish succeeds with 20% of the requests failing',
    async () => {
      for (let i = 0; i < repetitions(2); i += 1) {
        const seed = SOAK_SEED + i;
        const random = new SeededRandom(seed);
        const { proxy, store: shaky } = await proxied({ seed, rate: 0.2, delayMs: 2000 }, { idleTimeoutMs: 1000 });
        const prefix = `shaky-${seed}/`;
        const bodies = new Map(
          Array.from({ length: 20 }, (_, n) => [`${prefix}${n}`, random.bytes(random.integer(0, 5000))]),
        );
        const big = random.bytes(PART_BYTES + 5);
        bodies.set(`${prefix}big`, big);
        const written = await Promise.all(
          [...bodies].map(async ([key, body], n) => {
            const local = file(body);
            const condition = n % 2 === 0 ? { ifAbsent: true as const } : undefined;
            return { key, bytes: body.byteLength, etag: (await shaky.putFile(key, local, { condition })).etag };
          }),
        );
        const copied = await shaky.copy({ key: `${prefix}big` }, `${prefix}copy`, {
          bytes: big.byteLength,
          checksum: checksumOfBytes(big),
          condition: { ifAbsent: true },
        });
        written.push({ key: `${prefix}copy`, bytes: big.byteLength, etag: copied.etag });
        expect(sorted(await shaky.list(prefix))).toMatchObject(sorted(written));
        for (const [key, body] of bodies) {
          expect((await shaky.get(key))?.body.equals(body)).toBe(true);
          expect((await store.get(key))?.body.equals(body)).toBe(true);
          expect(await shaky.checksum(key, body.byteLength)).toBe(checksumOfBytes(body));
        }
        expect((await store.get(`${prefix}copy`))?.body.equals(big)).toBe(true);
        await shaky.delete(written);
        expect(await store.list(prefix)).toEqual([]);
        // Without faults there are about 100 requests, so this verifies that retries are bounded.
        expect(proxy.requests.length).toBeLessThan(300);
        await proxy.stop();
      }
    },
    patience(2, 20_000),
  );

  test.each(FAULTS.filter((kind) => kind !== 'flip'))(
    'publish reports one error if every request fails: %s',
    async (kind) => {
      const { proxy, store: broken } = await proxied(
        { kinds: [kind], delayMs: 400 },
        { attempts: 3, idleTimeoutMs: 150, deadlineMs: 20_000 },
      );
      const works = [broken.list(''), broken.get('x'), broken.putBytes('x', Buffer.from('x')), broken.checksum('x', 1)];
      for (const result of await Promise.allSettled([
        ...works,
        broken.delete([{ key: 'x' }]),
        broken.putBytes('y', big()),
      ])) {
        const reason: unknown = result.status === 'rejected' ? result.reason : undefined;
        expect(reason).toBeInstanceOf(UserError);
        expect((reason as UserError).message).toContain(proxy.endpoint);
        expect((reason as UserError).message).toContain(`s3://${BUCKET}`);
        expect((reason as UserError).hint).toBeDefined();
      }
      expect(proxy.requests.length).toBeLessThanOrEqual(3 * 7);
      await proxy.stop();
      await store.delete([{ key: 'x' }]);
    },
  );

  test('a deadline aborts a request that never ends', async () => {
    const { store: broken } = await proxied({ kinds: ['error500'] }, { attempts: 1000, deadlineMs: 3000 });
    await expect(broken.list('')).rejects.toThrow(/HTTP 500/);
    const { store: slow } = await proxied(
      { kinds: ['delay'], delayMs: 5000 },
      { attempts: 1000, deadlineMs: 300, idleTimeoutMs: 10_000 },
    );
    await expect(slow.list('')).rejects.toThrow(/ETIMEDOUT/);
  });

  test(
    'a write is retried if a byte changed on the network',
    async () => {
      const { proxy, store: flipped } = await proxied({ kinds: ['flip'] }, { attempts: 1, idleTimeoutMs: 30_000 });
      const body = randomBytes(3000);
      for (let i = 0; i < repetitions(20); i += 1) {
        await expect(flipped.putBytes('flipped', body)).rejects.toThrow(/BadDigest|Mismatch|InvalidDigest/);
      }
      await expect(flipped.putFile('flipped', file(big()))).rejects.toThrow(UserError);
      expect(await store.get('flipped')).toBeUndefined();
      expect(proxy.counts.flip).toBeGreaterThanOrEqual(repetitions(20));

      let flips = 0;
      const once = await proxied({ kinds: ['flip'], only: () => (flips += 1) <= 1 });
      await once.store.putBytes('flipped', body);
      expect(once.proxy.counts.flip).toBe(1);
      expect((await store.get('flipped'))?.body).toEqual(body);
    },
    patience(20, 500),
  );

  test('a conditional write whose reply was lost counts as successful', async () => {
    for (const body of [Buffer.from('one'), big()]) {
      let lost = 0;
      const last = ({ method, path }: { method: string; path: string }): boolean =>
        (method === 'PUT' && !path.includes('?')) || (method === 'POST' && /\?uploadId=/.test(path));
      const { proxy, store: shaky } = await proxied({
        kinds: ['lostReply'],
        only: (request) => last(request) && (lost += 1) <= 1,
      });
      const key = `lost-${body.byteLength}`;
      const written = await shaky.putBytes(key, body, { ifAbsent: true });
      expect(proxy.counts.lostReply).toBe(1);
      expect(await store.list(key)).toMatchObject([{ key, bytes: body.byteLength, etag: written.etag }]);
      expect(await unfinishedUploads(store, key)).toEqual([]);
    }
  });

  test('every write succeeds on a server that often answers SlowDown', async () => {
    const { proxy, store: slowed } = await proxied({ kinds: ['slowDown'], rate: 0.3 });
    await Promise.all(Array.from({ length: 100 }, (_, i) => slowed.putBytes(`slow/${i}`, Buffer.from(String(i)))));
    expect(proxy.counts.slowDown).toBeGreaterThan(10);
    expect((await store.list('slow/')).length).toBe(100);
  });
});

function big(): Buffer {
  return randomBytes(PART_BYTES + 1);
}
