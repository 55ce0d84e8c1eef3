import { randomBytes } from 'node:crypto';
import { appendFileSync, writeFileSync } from 'node:fs';
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
import { getFile, sorted, unfinishedUploads } from '../support/s3';
import { describeOnEachS3 } from '../support/versitygw';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

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

  test('lists all pages', async () => {
    const keys = Array.from({ length: 2100 }, (_, i) => `pages/${String(i).padStart(4, '0')}`);
    await Promise.all(keys.map((key) => store.putBytes(key, Buffer.from(key))));
    const listed = await store.list('pages/');
    expect(sorted(listed).map(({ key }) => key)).toEqual(keys);
    await store.delete(keys.map((key) => ({ key })));
    expect(await store.list('pages/')).toEqual([]);
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
      // An existing object with the same content is accepted.
      expect(await store.putBytes(key, one, { ifAbsent: true })).toMatchObject({ checksum: first.checksum });
      await expect(store.putBytes(key, two, { ifAbsent: true })).rejects.toBeInstanceOf(PreconditionFailedError);
      await expect(store.putBytes(key, two, { ifEtag: '"other"' })).rejects.toBeInstanceOf(PreconditionFailedError);
      const second = await store.putBytes(key, two, { ifEtag: first.etag });
      await expect(store.putBytes(key, three, { ifEtag: first.etag })).rejects.toBeInstanceOf(PreconditionFailedError);
      await expect(store.putBytes(`${key}-none`, one, { ifEtag: first.etag })).rejects.toBeInstanceOf(
        PreconditionFailedError,
      );
      expect(await store.list(key)).toMatchObject([{ key, bytes: two.byteLength, etag: second.etag }]);
      expect((await store.get(key))?.body.equals(two)).toBe(true);
      expect(await unfinishedUploads(store, 'conditions/')).toEqual([]);
    });

    test('accept one of many concurrent writers', async () => {
      const bodies = Array.from({ length: 8 }, (_, i) => Buffer.from(`writer ${i}`));
      const results = await Promise.allSettled(bodies.map((body) => store.putBytes('race', body, { ifAbsent: true })));
      const winners = results.flatMap(({ status }, i) => (status === 'fulfilled' ? [bodies[i]] : []));
      expect(winners).toHaveLength(1);
      expect((await store.get('race'))?.body).toEqual(winners[0]);
    });
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

  describe('rejects a file that changes', () => {
    test('before the upload', async () => {
      const local = file(Buffer.from('one'));
      const checksum = await checksumOfFile(local.path, 3);
      writeFileSync(local.path, 'two');
      await expect(store.putFile('changed', local, { checksum })).rejects.toBeInstanceOf(FileChangedError);
      appendFileSync(local.path, 'longer');
      await expect(store.putFile('changed', local)).rejects.toBeInstanceOf(FileChangedError);
      await expect(checksumOfFile(local.path, 3)).rejects.toBeInstanceOf(FileChangedError);
      expect(await store.get('changed')).toBeUndefined();
    });

    test('after its checksum was computed', async () => {
      const local = file(randomBytes(BIG));
      const checksum = await checksumOfFile(local.path, BIG);
      writeFileSync(local.path, randomBytes(BIG));
      await expect(store.putFile('changed-big', local, { checksum })).rejects.toBeInstanceOf(FileChangedError);
      expect(await store.get('changed-big')).toBeUndefined();
      expect(await unfinishedUploads(store, 'changed-big')).toEqual([]);
    });
  });

  test('distinguishes a missing bucket from a missing object', async () => {
    const missing = open({ bucket: 'missing' });
    await expect(missing.get('x')).rejects.toThrow(/NoSuchBucket/);
    await expect(missing.checksum('x', 1)).rejects.toThrow(/NoSuchBucket/);
    // SeaweedFS creates missing buckets on writes.
    if (name === 'SeaweedFS') return;
    await expect(missing.putBytes('x', Buffer.from('x'), { ifAbsent: true })).rejects.toThrow(/NoSuchBucket/);
  });
});
