import { randomBytes } from 'node:crypto';
import { appendFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { UserError } from '../../src/core/errors';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';
import {
  checksumOfBytes,
  checksumOfFile,
  FileChangedError,
  PART_BYTES,
  PreconditionFailedError,
  S3Store,
  type StoreOptions,
} from '../../src/s3/store';
import { checkBucket } from '../../tools/bucket-checks';
import { Authority, startFront, startTlsFront } from '../support/authority';
import { listenOnLoopback } from '../support/loopback';
import { getFile, sorted, unfinishedUploads } from '../support/s3';
import { FAULTS, startFaultProxy, type FaultOptions } from '../support/scripted-proxy';
import { SeededRandom, SOAK_SEED } from '../support/soak';
import { describeOnEachS3 } from '../support/versitygw';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const authority = new Authority(scratch);
process.env['AWS_CA_BUNDLE'] = authority.caFile;
const random = new SeededRandom(SOAK_SEED);

/** Bytes of a connection, in one direction, before the damage. The handshake has fewer. */
const INTACT_BYTES = 200_000;

/** Checks of `npm run check-bucket` that only AWS can do, or that would take long. */
const SKIPPED = {
  'an object is encrypted with the KMS key': 'no --kms-key',
  'a request to another region finds the bucket': 'only AWS has other regions',
  'writes succeed although S3 limits their rate': 'no --throttle',
};

/** Size of two full parts and a small third one. */
const BIG = 2 * PART_BYTES + 7;

describeOnEachS3('with', (start, name) => {
  let endpoint: string;
  let store: S3Store;

  const open = (options: Partial<StoreOptions> = {}): S3Store => {
    const opened = new S3Store({
      bucket: 'client',
      endpointUrl: endpoint,
      region: LOCAL_REGION,
      credentials: LOCAL_CREDENTIALS,
      ...options,
    });
    scratch.defer(() => opened.close());
    return opened;
  };

  const file = (content: Buffer) => getFile(scratch, content);

  beforeAll(async () => {
    endpoint = (await start(scratch)).endpoint;
    store = open();
    await store.ensureBucket();
    await store.ensureBucket(); // A second call changes nothing.
  });

  test('writes, lists, reads and deletes objects', async () => {
    const one = Buffer.from('one');
    const { etag, checksum } = await store.putBytes('basic/one', one);
    const { etag: other } = await store.putFile('basic/two', file(Buffer.from('second')));
    await store.putBytes('basic/empty', Buffer.alloc(0));
    expect(checksum).toBe(checksumOfBytes(one));
    expect(sorted(await store.list('basic/'))).toMatchObject([
      { key: 'basic/empty', bytes: 0, etag: '"d41d8cd98f00b204e9800998ecf8427e"' },
      { key: 'basic/one', bytes: 3, etag },
      { key: 'basic/two', bytes: 6, etag: other },
    ]);
    expect(await store.get('basic/one')).toMatchObject({ body: one, etag });
    expect((await store.get('basic/empty'))?.body).toEqual(Buffer.alloc(0));
    expect(await store.get('basic/none')).toBeUndefined();
    expect(await store.checksum('basic/one', 3)).toBe(checksum);
    expect(await store.checksum('basic/empty', 0)).toBe(checksumOfBytes(Buffer.alloc(0)));
    expect(await store.checksum('basic/none', 3)).toBeUndefined();
    expect(await store.checksum('basic/one', 4)).not.toBe(checksum);

    await store.delete([{ key: 'basic/one' }, { key: 'basic/none' }]);
    expect(sorted(await store.list('basic/')).map(({ key }) => key)).toEqual(['basic/empty', 'basic/two']);
  });

  test('accepts any characters in keys', async () => {
    const keys = [
      'a b',
      'a+b',
      'a%20b',
      'a%b',
      'ü/é',
      `q'u"o`,
      '<x>&y;',
      "!*'()~",
      '日本',
      '😀',
      'tab\tx',
      ';:@=,$?#',
    ].map((key) => `odd/${key}`);
    for (const key of keys) await store.putBytes(key, Buffer.from(key));
    expect((await store.list('odd/')).map(({ key }) => key).sort()).toEqual([...keys].sort());
    for (const key of keys) expect((await store.get(key))?.body.toString()).toBe(key);
    const copied = {
      bytes: Buffer.byteLength(keys[2] as string),
      checksum: checksumOfBytes(Buffer.from(keys[2] as string)),
    };
    await store.copy({ key: keys[2] as string }, 'odd/copy +%', copied);
    await store.delete([...keys, 'odd/copy +%'].map((key) => ({ key })));
    expect(await store.list('odd/')).toEqual([]);
  });

  test('uploads a large file in parts, from disk and from memory', async () => {
    const content = randomBytes(BIG);
    const onBytes = jest.fn();
    const local = file(content);
    const written = await store.putFile('big/file', local, { onBytes });
    expect(onBytes).toHaveBeenLastCalledWith(BIG);
    expect(onBytes).toHaveBeenCalledTimes(3);
    expect(written.checksum).toMatch(/-3$/);
    expect(written.checksum).toBe(await checksumOfFile(local.path, BIG));
    expect((await store.putBytes('big/bytes', content)).checksum).toBe(written.checksum);
    for (const key of ['big/file', 'big/bytes']) {
      expect((await store.get(key))?.body.equals(content)).toBe(true);
      expect(await store.checksum(key, BIG)).toBe(written.checksum);
    }
    expect(await store.list('big/')).toContainEqual(
      expect.objectContaining({ key: 'big/file', bytes: BIG, etag: written.etag }),
    );
    expect(await unfinishedUploads(store, '')).toEqual([]);
  });

  test.each([
    ['small', 100],
    ['large', BIG],
  ])('writes a %s object only if its condition holds', async (size, bytes) => {
    const key = `conditions/${size}`;
    const [one, two, three] = [randomBytes(bytes), randomBytes(bytes), randomBytes(bytes)];
    const expectRefused = (write: Promise<unknown>) => expect(write).rejects.toBeInstanceOf(PreconditionFailedError);
    const first = await store.putBytes(key, one, { ifAbsent: true });
    // An existing object with the same content is accepted.
    expect(await store.putBytes(key, one, { ifAbsent: true })).toMatchObject({ checksum: first.checksum });
    await expectRefused(store.putBytes(key, two, { ifAbsent: true }));
    await expectRefused(store.putBytes(key, two, { ifEtag: '"other"' }));
    const second = await store.putBytes(key, two, { ifEtag: first.etag });
    await expectRefused(store.putBytes(key, three, { ifEtag: first.etag }));
    await expectRefused(store.putBytes(`${key}-none`, one, { ifEtag: first.etag }));
    expect(await store.list(key)).toMatchObject([{ key, bytes: two.byteLength, etag: second.etag }]);
    expect((await store.get(key))?.body.equals(two)).toBe(true);
    expect(await unfinishedUploads(store, 'conditions/')).toEqual([]);
  });

  test('copies objects inside S3 and verifies the content', async () => {
    for (const bytes of [100, BIG]) {
      const content = randomBytes(bytes);
      const { checksum } = await store.putBytes(`copy/from-${bytes}`, content);
      const from = { key: `copy/from-${bytes}` };
      const steps: number[] = [];
      const onBytes = (now: number): number => steps.push(now);
      const condition = { ifAbsent: true } as const;
      const copied = await store.copy(from, `copy/to-${bytes}`, { bytes, checksum, condition, onBytes });
      expect(copied.checksum).toBe(checksum);
      if (bytes === BIG) expect([steps.length > 1, steps.at(-1)]).toEqual([true, bytes]);
      expect(await store.list(`copy/to-${bytes}`)).toMatchObject([
        { key: `copy/to-${bytes}`, bytes, etag: copied.etag },
      ]);
      expect((await store.get(`copy/to-${bytes}`))?.body.equals(content)).toBe(true);
      expect(await store.checksum(`copy/to-${bytes}`, bytes)).toBe(checksum);

      await store.putBytes('copy/other', Buffer.from('other'));
      const refused = store.copy(from, 'copy/other', { bytes, checksum, condition: { ifAbsent: true } });
      await expect(refused).rejects.toBeInstanceOf(PreconditionFailedError);
      const wrong = checksumOfBytes(randomBytes(bytes));
      await expect(store.copy(from, 'copy/wrong', { bytes, checksum: wrong })).rejects.toThrow(
        /does not match its recorded checksum/,
      );
      expect(await store.get('copy/wrong')).toBeUndefined();
      await expect(store.copy({ key: 'copy/none' }, 'copy/x', { bytes, checksum })).rejects.toThrow(UserError);
    }
    expect(await unfinishedUploads(store, '')).toEqual([]);
  });

  test('copies objects from another bucket', async () => {
    const other = open({ bucket: 'another' });
    await other.ensureBucket();
    for (const bytes of [100, BIG]) {
      const content = randomBytes(bytes);
      const { checksum } = await other.putBytes('from', content);
      await store.copy({ store: other, key: 'from' }, 'from-another', { bytes, checksum });
      expect((await store.get('from-another'))?.body.equals(content)).toBe(true);
    }
  });

  test.each([
    ['small', 3],
    ['large', BIG],
  ])('rejects a %s file that changes after its checksum was computed', async (size, bytes) => {
    const key = `changed/${size}`;
    const local = file(randomBytes(bytes));
    const checksum = await checksumOfFile(local.path, bytes);
    writeFileSync(local.path, randomBytes(bytes));
    await expect(store.putFile(key, local, { checksum })).rejects.toBeInstanceOf(FileChangedError);
    appendFileSync(local.path, 'longer');
    await expect(store.putFile(key, local)).rejects.toBeInstanceOf(FileChangedError);
    expect(await store.get(key)).toBeUndefined();
    expect(await unfinishedUploads(store, 'changed/')).toEqual([]);
  });

  test('passes every check of npm run check-bucket that the server can do, which leaves no objects', async () => {
    const results = await checkBucket({
      ...{ bucket: 'client', prefix: 'checks', endpointUrl: endpoint },
      ...{ region: LOCAL_REGION, credentials: LOCAL_CREDENTIALS },
      attempts: 3, // By default, a write with a wrong checksum is repeated for seconds.
    });
    expect(results.flatMap((result) => (result.error === undefined ? [] : [result]))).toEqual([]);
    expect(results.length).toBeGreaterThanOrEqual(19);
    const skipped = results.flatMap((result) => (result.skipped === undefined ? [] : [[result.name, result.skipped]]));
    expect(Object.fromEntries(skipped)).toEqual(SKIPPED);
    expect(await store.list('checks/')).toEqual([]);
  });

  test('distinguishes a missing bucket from a missing object', async () => {
    const missing = open({ bucket: 'missing' });
    await expect(missing.get('x')).rejects.toThrow(/NoSuchBucket/);
    await expect(missing.checksum('x', 1)).rejects.toThrow(/NoSuchBucket/);
    // SeaweedFS creates missing buckets on writes.
    if (name === 'SeaweedFS') return;
    await expect(missing.putBytes('x', Buffer.from('x'), { ifAbsent: true })).rejects.toThrow(/NoSuchBucket/);
  });

  /** A store behind TLS, and a network that flips a byte of a TLS record on the first connections that carry so many. */
  async function storeBehind(
    direction: 'up' | 'down',
    connections: number,
  ): Promise<{ store: S3Store; flips: () => number }> {
    const front = await startTlsFront(endpoint, authority);
    scratch.defer(() => front.stop());
    let flips = 0;
    const forward = (from: Socket, to: Socket, isDamaged: boolean): void => {
      let bytes = 0;
      from.on('data', (chunk: Buffer) => {
        const before = bytes;
        bytes += chunk.byteLength;
        if (isDamaged && flips < connections && before < INTACT_BYTES && bytes >= INTACT_BYTES) {
          flips += 1;
          const middle = chunk.byteLength >> 1;
          chunk[middle] = (chunk[middle] as number) ^ 1;
        }
        to.write(chunk);
      });
      from.on('error', () => undefined);
      from.on('close', () => to.destroy());
      from.on('end', () => to.end());
    };
    const server = createServer({ allowHalfOpen: true }, (client) => {
      const behind = connect({ port: Number(new URL(front.endpoint).port), host: '127.0.0.1', allowHalfOpen: true });
      forward(client, behind, direction === 'up');
      forward(behind, client, direction === 'down');
    });
    const { port, stop } = await listenOnLoopback(server);
    scratch.defer(stop);
    return { store: open({ endpointUrl: `https://127.0.0.1:${port}`, attempts: 3 }), flips: () => flips };
  }

  describe('through a bad network', () => {
    /** The same bucket behind a proxy that disturbs every request. */
    const proxied = async (options: Partial<FaultOptions>, through: Partial<StoreOptions> = {}) => {
      const plain = await startFaultProxy(endpoint, { seed: SOAK_SEED, rate: 1, kinds: FAULTS, ...options });
      scratch.defer(() => plain.stop());
      const front = await startFront(random, plain.endpoint, authority);
      scratch.defer(() => front.stop());
      const shaky = open({ endpointUrl: front.endpoint, idleTimeoutMs: 1000, ...through });
      return { proxy: { ...plain, endpoint: front.endpoint }, store: shaky };
    };

    test.each(FAULTS.filter((kind) => kind !== 'flip'))(
      'each operation reports one error if every request fails: %s',
      async (kind) => {
        const { proxy, store: broken } = await proxied(
          { kinds: [kind], delayMs: 400 },
          { attempts: 3, idleTimeoutMs: 150, deadlineMs: 20_000 },
        );
        const works = await Promise.allSettled([
          broken.list(''),
          broken.get('x'),
          broken.putBytes('x', Buffer.from('x')),
          broken.checksum('x', 1),
          broken.delete([{ key: 'x' }]),
          broken.putBytes('y', large()),
        ]);
        for (const result of works) {
          const reason: unknown = result.status === 'rejected' ? result.reason : undefined;
          expect(reason).toBeInstanceOf(UserError);
          expect((reason as UserError).message).toContain(proxy.endpoint);
          expect((reason as UserError).message).toContain('s3://client');
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

    test('a write is retried if a byte changed on the network', async () => {
      const { proxy, store: flipped } = await proxied({ kinds: ['flip'] }, { attempts: 1, idleTimeoutMs: 30_000 });
      const body = randomBytes(3000);
      for (let i = 0; i < 5; i += 1) {
        await expect(flipped.putBytes('flipped', body)).rejects.toThrow(/BadDigest|Mismatch|InvalidDigest/);
      }
      await expect(flipped.putFile('flipped', file(large()))).rejects.toThrow(UserError);
      expect(await store.get('flipped')).toBeUndefined();
      expect(proxy.counts.flip).toBeGreaterThanOrEqual(5);

      let flips = 0;
      const once = await proxied({ kinds: ['flip'], only: () => (flips += 1) <= 1 });
      await once.store.putBytes('flipped', body);
      expect(once.proxy.counts.flip).toBe(1);
      expect((await store.get('flipped'))?.body).toEqual(body);
    });

    test('a conditional write whose reply was lost counts as successful', async () => {
      for (const body of [Buffer.from('one'), large()]) {
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

    describe('that changes a byte of a TLS record', () => {
      const content = randomBytes(1_000_000);

      test.each(['up', 'down'] as const)('once (%s), the request is sent again', async (direction) => {
        const { store: shaky, flips } = await storeBehind(direction, 1);
        const [writer, reader] = direction === 'up' ? [shaky, store] : [store, shaky];
        await writer.putBytes(`tls/${direction}`, content, { ifAbsent: true });
        expect((await reader.get(`tls/${direction}`))?.body.equals(content)).toBe(true);
        expect(flips()).toBe(1);
      });

      test.each(['up', 'down'] as const)('in each try (%s), one error is reported', async (direction) => {
        await store.putBytes('each-down', content);
        const { store: shaky, flips } = await storeBehind(direction, Infinity);
        const work = direction === 'up' ? shaky.putBytes('each-up', content) : shaky.get('each-down');
        const error = await work.catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(UserError);
        expect((error as UserError).message).toMatch(/^cannot (read|write) s3:\/\/client\/each-\w+ at https:[^\n]*$/);
        expect((error as UserError).hint).toContain('check');
        expect(flips()).toBe(3);
        expect(await store.get('each-up')).toBeUndefined();
      });
    });
  });
});

const large = (): Buffer => randomBytes(PART_BYTES + 1);
