import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildSync } from 'esbuild';
import { UserError } from '../../scripts/lib/errors';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../scripts/lib/local/s3-server';
import { paths } from '../../scripts/lib/paths';
import {
  checksumOfBytes,
  checksumOfFile,
  FileChanged,
  PART_BYTES,
  PreconditionFailed,
  S3Store,
  type ListedObject,
  type StoreOptions,
} from '../../scripts/lib/s3/store';
import { FAULTS, startFaultProxy, type FaultOptions, type FaultProxy } from '../support/fault-proxy';
import { describeOnEachS3 } from '../support/s3-servers';
import { Scratch } from '../support/scratch';
import { patience, repetitions, SeededRandom, SOAK_SEED } from '../support/soak';

jest.setTimeout(120_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** Two parts, and a bit of a third. */
const BIG = 2 * PART_BYTES + 7;

describeOnEachS3('with', (start, name) => {
  let endpoint: string;
  let store: S3Store;

  // SeaweedFS reads XML before it compares it with its checksum: a flipped byte can be another key there.
  const kinds = name === 'versitygw' ? FAULTS : FAULTS.filter((kind) => kind !== 'flip');

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

  const proxied = async (
    options: Partial<FaultOptions>,
    storeOptions: Partial<StoreOptions> = {},
  ): Promise<{ proxy: FaultProxy; store: S3Store }> => {
    const proxy = await startFaultProxy(endpoint, { seed: SOAK_SEED, rate: 1, kinds, ...options });
    scratch.defer(() => proxy.stop());
    return { proxy, store: open({ endpointUrl: proxy.endpoint, idleTimeoutMs: 1000, ...storeOptions }) };
  };

  const file = (content: Buffer): { path: string; bytes: number } => {
    const path = join(scratch.directory, `file-${randomBytes(6).toString('hex')}`);
    writeFileSync(path, content);
    return { path, bytes: content.byteLength };
  };

  beforeAll(async () => {
    endpoint = (await start(scratch)).endpoint;
    store = open();
    await store.ensureBucket();
    await store.ensureBucket(); // A second time changes nothing.
  }, 300_000);

  test('what is written is listed, read and deleted', async () => {
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

    await store.delete(['basic/one', 'basic/none']);
    expect(sorted(await store.list('basic/')).map(({ key }) => key)).toEqual(['basic/empty', 'basic/two']);
  });

  test('the age of an object is told by the server', async () => {
    await store.putBytes('age', Buffer.from('x'));
    await sleep(2100);
    const age = (await store.get('age'))?.ageMs ?? NaN;
    expect(age).toBeGreaterThanOrEqual(1000);
    expect(age).toBeLessThan(120_000);
  });

  test('keys may have any characters', async () => {
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
    await store.delete([...keys, 'odd/copy +%']);
    expect(await store.list('odd/')).toEqual([]);
  });

  test('a listing goes over its pages', async () => {
    const keys = Array.from({ length: 2100 }, (_, i) => `pages/${String(i).padStart(4, '0')}`);
    await Promise.all(keys.map((key) => store.putBytes(key, Buffer.from(key))));
    const listed = await store.list('pages/');
    expect(sorted(listed).map(({ key }) => key)).toEqual(keys);
    // Two pages at the same time. What is recent may not be so any more.
    const content = (objects: ListedObject[]) => objects.map(({ key, bytes, etag }) => ({ key, bytes, etag }));
    expect(content(await store.list('pages/', Promise.resolve(keys)))).toEqual(content(listed));
    await store.delete(keys);
    expect(await store.list('pages/')).toEqual([]);
  });

  test('a large file goes in parts, from disk as from memory', async () => {
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
    expect(await store.abortUploads('')).toEqual([]);
  });

  test('an object that was uploaded in other parts is read for its checksum', async () => {
    const content = randomBytes(BIG);
    await putInPartsOf(store, 'other-parts', content, [6 * 1024 * 1024, 6 * 1024 * 1024, BIG - 12 * 1024 * 1024]);
    expect(await store.checksum('other-parts', BIG)).toBe(checksumOfBytes(content));
  });

  describe('conditions', () => {
    const small = (content: Buffer): Buffer => content.subarray(0, 100);
    const sizes: [string, (content: Buffer) => Buffer][] = [
      ['small', small],
      ['large', (content) => content],
    ];
    test.each(sizes)('of a %s object', async (size, cut) => {
      const key = `conditions/${size}`;
      const [one, two, three] = [cut(randomBytes(BIG)), cut(randomBytes(BIG)), cut(randomBytes(BIG))];
      const first = await store.putBytes(key, one, { ifAbsent: true });
      // The same content is what was wanted.
      expect(await store.putBytes(key, one, { ifAbsent: true })).toMatchObject({ checksum: first.checksum });
      await expect(store.putBytes(key, two, { ifAbsent: true })).rejects.toBeInstanceOf(PreconditionFailed);
      await expect(store.putBytes(key, two, { ifEtag: '"other"' })).rejects.toBeInstanceOf(PreconditionFailed);
      const second = await store.putBytes(key, two, { ifEtag: first.etag });
      await expect(store.putBytes(key, three, { ifEtag: first.etag })).rejects.toBeInstanceOf(PreconditionFailed);
      await expect(store.putBytes(`${key}-none`, one, { ifEtag: first.etag })).rejects.toBeInstanceOf(
        PreconditionFailed,
      );
      expect(await store.list(key)).toMatchObject([{ key, bytes: two.byteLength, etag: second.etag }]);
      expect((await store.get(key))?.body.equals(two)).toBe(true);
      expect(await store.abortUploads('conditions/')).toEqual([]);
    });

    test('of many writers one wins', async () => {
      const bodies = Array.from({ length: 8 }, (_, i) => Buffer.from(`writer ${i}`));
      const results = await Promise.allSettled(bodies.map((body) => store.putBytes('race', body, { ifAbsent: true })));
      const winners = results.flatMap(({ status }, i) => (status === 'fulfilled' ? [bodies[i]] : []));
      expect(winners).toHaveLength(1);
      expect((await store.get('race'))?.body).toEqual(winners[0]);
    });
  });

  test('S3 copies objects, and the content is compared', async () => {
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
      await expect(refused).rejects.toBeInstanceOf(PreconditionFailed);
      const wrong = checksumOfBytes(randomBytes(bytes));
      await expect(store.copy(from, 'copy/wrong', { bytes, checksum: wrong })).rejects.toThrow(/not what was recorded/);
      expect(await store.get('copy/wrong')).toBeUndefined();
      await expect(store.copy({ key: 'copy/none' }, 'copy/x', { bytes, checksum })).rejects.toThrow(UserError);
    }
    expect(await store.abortUploads('')).toEqual([]);
  });

  test('from another bucket', async () => {
    const other = open({ bucket: 'another' });
    await other.ensureBucket();
    for (const bytes of [100, BIG]) {
      const content = randomBytes(bytes);
      const { checksum } = await other.putBytes('from', content);
      await store.copy({ store: other, key: 'from' }, 'from-another', { bytes, checksum });
      expect((await store.get('from-another'))?.body.equals(content)).toBe(true);
    }
  });

  describe('a file that changes', () => {
    test('before it is read', async () => {
      const local = file(Buffer.from('one'));
      const checksum = await checksumOfFile(local.path, 3);
      writeFileSync(local.path, 'two');
      await expect(store.putFile('changed', local, { checksum })).rejects.toBeInstanceOf(FileChanged);
      appendFileSync(local.path, 'longer');
      await expect(store.putFile('changed', local)).rejects.toBeInstanceOf(FileChanged);
      await expect(checksumOfFile(local.path, 3)).rejects.toBeInstanceOf(FileChanged);
      expect(await store.get('changed')).toBeUndefined();
    });

    const changes: [string, (path: string) => void][] = [
      ['is written to', (path) => appendFileSync(path, 'x')],
      [
        'gets other bytes of the same length',
        (path) => {
          const content = readFileSync(path);
          content[5] = (content[5] as number) ^ 1;
          writeFileSync(path, content);
        },
      ],
      [
        'is replaced',
        (path) => {
          writeFileSync(`${path}.new`, readFileSync(path));
          renameSync(`${path}.new`, path);
        },
      ],
    ];
    test.each(changes)('it %s while it is read', async (_, change) => {
      const local = file(randomBytes(BIG));
      let changed = false;
      const onBytes = (): void => {
        if (!changed) change(local.path);
        changed = true;
      };
      await expect(store.putFile('changed-big', local, { onBytes })).rejects.toBeInstanceOf(FileChanged);
      expect(await store.get('changed-big')).toBeUndefined();
      expect(await store.abortUploads('changed-big')).toEqual([]);
    });
  });

  test('a large upload that was killed goes on, without what was sent already', async () => {
    const parts = 10;
    const content = randomBytes(parts * PART_BYTES);
    const local = file(content);
    const { proxy } = await proxied({ kinds: ['delay'], delayMs: 100 });
    const sent = (): number => proxy.requests.filter(({ url, answered }) => answered && /partNumber=/.test(url)).length;
    const child = spawn(process.execPath, [uploader(), proxy.endpoint, 'killed', local.path], { stdio: 'inherit' });
    while (sent() < 4) await sleep(2);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await sleep(300); // What the server has not answered yet when the client dies, it still answers.
    expect(await store.get('killed')).toBeUndefined();
    const before = sent();

    proxy.setRate(0);
    const second = open({ endpointUrl: proxy.endpoint });
    const written = await second.putFile('killed', local);
    expect(before).toBeGreaterThanOrEqual(4);
    expect(sent() - before).toBeLessThanOrEqual(parts - 4);
    expect(written.checksum).toBe(checksumOfBytes(content));
    expect((await store.get('killed'))?.body.equals(content)).toBe(true);
    expect(await store.checksum('killed', content.byteLength)).toBe(written.checksum);
    expect(await store.abortUploads('')).toEqual([]);
  }, 60_000);

  test('unfinished uploads are given up where that is asked for', async () => {
    for (const key of ['unfinished/a', 'unfinished.b', 'unfinished/c']) await beginUpload(store, key);
    expect((await store.abortUploads('unfinished/')).sort()).toEqual(['unfinished/a', 'unfinished/c']);
    expect(await store.abortUploads('unfinished')).toEqual(['unfinished.b']);
  });

  test('other content in an unfinished upload is not taken over', async () => {
    const content = randomBytes(BIG);
    await beginUpload(store, 'stale', randomBytes(PART_BYTES));
    await beginUpload(store, 'stale');
    await store.putFile('stale', file(content));
    expect((await store.get('stale'))?.body.equals(content)).toBe(true);
    expect(await store.abortUploads('stale')).toEqual([]);
  });

  test(
    'with 20% of the requests failing the result is the same',
    async () => {
      for (let i = 0; i < repetitions(2); i += 1) {
        const seed = SOAK_SEED + i;
        const random = new SeededRandom(seed);
        const { proxy, store: shaky } = await proxied({ seed, rate: 0.2, delayMs: 600 }, { idleTimeoutMs: 300 });
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
        await shaky.delete(written.map(({ key }) => key));
        expect(await store.list(prefix)).toEqual([]);
        expect(await store.abortUploads(prefix)).toEqual([]);
        // Without a fault there are some 100 requests: tries are bounded.
        expect(proxy.requests.length).toBeLessThan(300);
        await proxy.stop();
      }
    },
    patience(2, 20_000),
  );

  test.each(FAULTS.filter((kind) => kind !== 'flip'))('%s for every request: one clean error', async (kind) => {
    const { proxy, store: broken } = await proxied(
      { kinds: [kind], delayMs: 400 },
      { attempts: 3, idleTimeoutMs: 150, deadlineMs: 20_000 },
    );
    const works = [broken.list(''), broken.get('x'), broken.putBytes('x', Buffer.from('x')), broken.checksum('x', 1)];
    for (const result of await Promise.allSettled([...works, broken.delete(['x']), broken.putBytes('y', big())])) {
      const reason: unknown = result.status === 'rejected' ? result.reason : undefined;
      expect(reason).toBeInstanceOf(UserError);
      expect((reason as UserError).message).toContain(proxy.endpoint);
      expect((reason as UserError).message).toContain('s3://client');
      expect((reason as UserError).hint).toBeDefined();
    }
    expect(proxy.requests.length).toBeLessThanOrEqual(3 * 7);
    await proxy.stop();
    await store.delete(['x']);
    await store.abortUploads('');
  });

  test('the deadline ends what never ends', async () => {
    const { store: broken } = await proxied({ kinds: ['error500'] }, { attempts: 1000, deadlineMs: 500 });
    await expect(broken.list('')).rejects.toThrow(/HTTP 500/);
    const { store: slow } = await proxied(
      { kinds: ['delay'], delayMs: 5000 },
      { attempts: 1000, deadlineMs: 300, idleTimeoutMs: 10_000 },
    );
    await expect(slow.list('')).rejects.toThrow(/ETIMEDOUT/);
  });

  test(
    'a byte that changes on the way is refused, and the write done again',
    async () => {
      const { proxy, store: flipped } = await proxied({ kinds: ['flip'] }, { attempts: 1 });
      const body = randomBytes(3000);
      for (let i = 0; i < repetitions(20); i += 1) {
        await expect(flipped.putBytes('flipped', body)).rejects.toThrow(/BadDigest|Mismatch|InvalidDigest/);
      }
      await expect(flipped.putFile('flipped', file(big()))).rejects.toThrow(UserError);
      expect(await store.get('flipped')).toBeUndefined();
      expect(proxy.counts.flip).toBeGreaterThanOrEqual(repetitions(20));
      await store.abortUploads('');

      let flips = 0;
      const once = await proxied({ kinds: ['flip'], only: () => (flips += 1) <= 1 });
      await once.store.putBytes('flipped', body);
      expect(once.proxy.counts.flip).toBe(1);
      expect((await store.get('flipped'))?.body).toEqual(body);
    },
    patience(20, 500),
  );

  test('a conditional write whose reply was lost has succeeded', async () => {
    for (const body of [Buffer.from('one'), big()]) {
      let lost = 0;
      const last = ({ method, url }: { method: string; url: string }): boolean =>
        (method === 'PUT' && !url.includes('?')) || (method === 'POST' && /\?uploadId=/.test(url));
      const { proxy, store: shaky } = await proxied({
        kinds: ['lostReply'],
        only: (request) => last(request) && (lost += 1) <= 1,
      });
      const key = `lost-${body.byteLength}`;
      const written = await shaky.putBytes(key, body, { ifAbsent: true });
      expect(proxy.counts.lostReply).toBe(1);
      expect(await store.list(key)).toMatchObject([{ key, bytes: body.byteLength, etag: written.etag }]);
      expect(await store.abortUploads(key)).toEqual([]);
    }
  });

  test('the begin of an upload whose reply was lost leaves nothing behind', async () => {
    let lost = 0;
    const { proxy, store: shaky } = await proxied({
      kinds: ['lostReply'],
      only: ({ url }) => /\?uploads=/.test(url) && url.includes('begin') && (lost += 1) <= 1,
    });
    const body = big();
    const { checksum } = await shaky.putBytes('begin', body);
    expect(proxy.counts.lostReply).toBe(1);
    expect(await store.abortUploads('begin')).toEqual([]);

    lost = 0;
    await shaky.copy({ key: 'begin' }, 'begin-copy', { bytes: body.byteLength, checksum });
    expect(proxy.counts.lostReply).toBe(2);
    expect(await store.abortUploads('begin')).toEqual([]);
  });

  test('a server that slows us down gets fewer requests at a time', async () => {
    const { proxy, store: slowed } = await proxied({ kinds: ['slowDown'], rate: 0.3 });
    await Promise.all(Array.from({ length: 100 }, (_, i) => slowed.putBytes(`slow/${i}`, Buffer.from(String(i)))));
    expect(proxy.counts.slowDown).toBeGreaterThan(10);
    expect((await store.list('slow/')).length).toBe(100);
  });

  test.each<[string, Partial<StoreOptions>, RegExp, RegExp]>([
    [
      'a bucket that is not there',
      { bucket: 'missing' },
      /list s3:\/\/missing\/m .*NoSuchBucket/,
      /create it \("pulumi up"/,
    ],
    [
      'a wrong key',
      { credentials: { accessKeyId: 'other', secretAccessKey: 'x' } },
      /InvalidAccessKeyId|XAdminUserNotFound/,
      /AWS_ACCESS_KEY_ID/,
    ],
    [
      'a wrong secret',
      { credentials: { accessKeyId: LOCAL_CREDENTIALS.accessKeyId, secretAccessKey: 'x' } },
      /SignatureDoesNotMatch/,
      /AWS_SECRET_ACCESS_KEY/,
    ],
    ['nothing listening', { endpointUrl: 'http://127.0.0.1:9' }, /ECONNREFUSED/, /--endpoint-url/],
    ['an unknown host', { endpointUrl: 'http://host.invalid' }, /ENOTFOUND|EAI_AGAIN/, /check/],
  ])('%s: the error says what and where, the hint what to do', async (_, wrong, message, hint) => {
    const error: unknown = await open({ attempts: 2, ...wrong })
      .list('m')
      .catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(UserError);
    expect((error as UserError).message).toMatch(message);
    expect((error as UserError).hint).toMatch(hint);
    expect(JSON.stringify([(error as UserError).message, (error as UserError).hint])).not.toContain(
      LOCAL_CREDENTIALS.secretAccessKey,
    );
  });

  test('a bucket that is not there is not an object that is not there', async () => {
    const missing = open({ bucket: 'missing' });
    await expect(missing.get('x')).rejects.toThrow(/NoSuchBucket/);
    await expect(missing.checksum('x', 1)).rejects.toThrow(/NoSuchBucket/);
    // SeaweedFS creates buckets as they are written to.
    if (name === 'SeaweedFS') return;
    await expect(missing.putBytes('x', Buffer.from('x'), { ifAbsent: true })).rejects.toThrow(/NoSuchBucket/);
  });
});

function big(): Buffer {
  return randomBytes(PART_BYTES + 1);
}

function sorted<T extends { key: string }>(objects: readonly T[]): T[] {
  return [...objects].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Begins an upload and leaves it, as a process that is killed does. */
async function beginUpload(store: S3Store, key: string, firstPart?: Buffer): Promise<void> {
  const { createUpload, uploadPart } = await import('../../scripts/lib/s3/multipart');
  const id = await createUpload(bucketOf(store), key);
  if (firstPart === undefined) return;
  const { sha256 } = await import('../../scripts/lib/s3/checksum');
  await uploadPart(bucketOf(store), key, id, { number: 1, body: firstPart, digest: sha256(firstPart) });
}

/** Uploads in parts of these sizes, as another program might. */
async function putInPartsOf(store: S3Store, key: string, content: Buffer, sizes: number[]): Promise<void> {
  const { completeUpload, createUpload, uploadPart } = await import('../../scripts/lib/s3/multipart');
  const { sha256 } = await import('../../scripts/lib/s3/checksum');
  const bucket = bucketOf(store);
  const id = await createUpload(bucket, key);
  const parts = [];
  let at = 0;
  for (const [i, size] of sizes.entries()) {
    const body = content.subarray(at, at + size);
    at += size;
    parts.push(await uploadPart(bucket, key, id, { number: i + 1, body, digest: sha256(body) }));
  }
  await completeUpload(bucket, key, id, parts, { checksum: undefined, condition: undefined });
}

function bucketOf(store: S3Store): Parameters<typeof import('../../scripts/lib/s3/multipart').createUpload>[0] {
  return (store as unknown as { at: ReturnType<typeof bucketOf> }).at;
}

/** A program that uploads one file: what is killed must be a process of its own. */
function uploader(): string {
  const script = join(scratch.directory, 'uploader.js');
  const source = `
    const { S3Store } = require(${JSON.stringify(join(paths.scripts, 'lib/s3/store.ts'))});
    const { statSync } = require('node:fs');
    const [endpointUrl, key, path] = process.argv.slice(2);
    new S3Store({ bucket: 'client', endpointUrl, region: '${LOCAL_REGION}', credentials: ${JSON.stringify(LOCAL_CREDENTIALS)} })
      .putFile(key, { path, bytes: statSync(path).size });`;
  buildSync({
    stdin: { contents: source, resolveDir: paths.root },
    outfile: script,
    bundle: true,
    platform: 'node',
    external: ['@aws-sdk/*'],
    logLevel: 'error',
  });
  return script;
}
