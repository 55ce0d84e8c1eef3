import { releaseHistory, wasReleased } from '../../../src/publish/release/history';
import { releaseKey } from '../../../src/publish/location';
import type { Release } from '../../../src/publish/release/release';
import type { S3Store } from '../../../src/s3/store';

const LOCATION = { bucket: 'b', prefix: 'm' };

const release = (id: string, previous?: string): Release => ({
  format: 2,
  id,
  createdAt: '',
  origin: '',
  by: '',
  models: {},
  ...(previous === undefined ? {} : { previous }),
});

/** Numbers as ids: each is a manifest that comes after the one before it, but for those in `others`. */
function bucketOf(count: number, { others = [], gone = [] }: { others?: Release[]; gone?: string[] } = {}) {
  const name = (n: number): string => String(n).padStart(4, '0');
  const chain = Array.from({ length: count }, (_, i) => release(name(i), i === 0 ? undefined : name(i - 1)));
  const manifests = [...chain, ...others].filter(({ id }) => !gone.includes(id));
  const byKey = new Map(manifests.map((one) => [releaseKey(LOCATION, one.id), one]));
  const read: string[] = [];
  let waits = 0;
  let asking = false;
  const store = {
    bucket: 'b',
    get: async (key: string) => {
      read.push(key);
      // What is asked for at the same time is one wait.
      if (!asking) waits += 1;
      asking = true;
      await new Promise((resolve) => setTimeout(resolve, 1));
      asking = false;
      const found = byKey.get(key);
      return found === undefined ? undefined : { body: Buffer.from(JSON.stringify(found)), etag: '', ageMs: 0 };
    },
  } as unknown as S3Store;
  const ids = manifests
    .map(({ id }) => id)
    .sort()
    .reverse();
  const history = (most?: number): AsyncIterable<Release> =>
    releaseHistory(store, LOCATION, { head: chain.at(-1), ids, ...(most === undefined ? {} : { most }) });
  const wasAt = (candidate: Release): Promise<boolean> =>
    wasReleased(store, LOCATION, candidate, { head: chain.at(-1), ids });
  return { chain, history, wasAt, read, waits: () => waits };
}

async function idsOf(history: AsyncIterable<Release>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of history) ids.push(id);
  return ids;
}

test('goes from the current release to the first one, past manifests that never became current', async () => {
  const { chain, history } = bucketOf(40, { others: [release('0007x', '0007'), release('0039x', '0039')] });
  const all = chain.map(({ id }) => id).reverse();
  expect(await idsOf(history())).toEqual(all);
  expect(await idsOf(history(3))).toEqual(all.slice(0, 3));
});

test('a repository without a release has none', async () => {
  expect(await idsOf(bucketOf(0).history())).toEqual([]);
});

test('reads no more manifests than were asked for, and many at a time', async () => {
  const few = bucketOf(1000);
  await idsOf(few.history(2));
  expect(few.read).toHaveLength(1);
  const page = bucketOf(1000);
  await idsOf(page.history(21));
  expect(page.read).toHaveLength(20);
  expect(page.waits()).toBe(2);
});

test('ends where a manifest is gone', async () => {
  expect(await idsOf(bucketOf(5, { gone: ['0002'] }).history())).toEqual(['0004', '0003']);
});

describe('what the repository was at', () => {
  test.each([
    ['the current one', release('0099', '0098'), true],
    ['the one before', release('0098', '0097'), true],
    ['the first one', release('0000'), true],
    ['none that was to follow the current one', release('0100', '0099'), false],
    ['none that was to follow another one', release('0050x', '0050'), false],
    ['none that was to be the first one', release('x'), false],
    ['maybe one of a history of which the pointer was deleted', release('y', 'x'), true],
  ])('%s', async (_, candidate, was) => {
    const { wasAt } = bucketOf(100, { others: was ? [] : [candidate] });
    expect(await wasAt(candidate)).toBe(was);
  });

  test('maybe one that is older than a manifest that is gone', async () => {
    const { wasAt } = bucketOf(10, { gone: ['0005'] });
    expect(await wasAt(release('0000'))).toBe(true);
    expect(await wasAt(release('0003', '0002'))).toBe(true);
    expect(await wasAt(release('0004', '0003'))).toBe(true);
    expect(await wasAt(release('0007x', '0007'))).toBe(false);
  });

  test('of a recent one little is read', async () => {
    const { wasAt, read } = bucketOf(1000);
    expect(await wasAt(release('0998', '0997'))).toBe(true);
    expect(read).toHaveLength(0);
    expect(await wasAt(release('0100', '0099'))).toBe(true);
    expect(read).toHaveLength(1);
  });

  test('the first one of a history whose pointer was deleted', async () => {
    // Found by the manifest that names it, though the history ends before.
    const { wasAt } = bucketOf(3, { others: [release('00000', undefined), release('00001', '00000')] });
    expect(await wasAt(release('00000'))).toBe(true);
  });
});

test('manifests that name each other are no endless history', async () => {
  const [a, b] = [release('a', 'b'), release('b', 'a')];
  const get = async (key: string) => ({ body: Buffer.from(JSON.stringify(key.includes('a.json') ? a : b)) });
  const store = { bucket: 'b', get } as unknown as S3Store;
  expect(await idsOf(releaseHistory(store, LOCATION, { head: a, ids: ['b', 'a'] }))).toEqual(['a', 'b']);
});
