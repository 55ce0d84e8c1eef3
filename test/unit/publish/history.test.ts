import { releaseHistory, wasReleased } from '../../../src/publish/release/history';
import { releaseKey } from '../../../src/release/location';
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

/** A bucket with manifests whose ids are numbers. Each one follows the one before it, except those in `others`. */
function getBucket(count: number, { others = [], gone = [] }: { others?: Release[]; gone?: string[] } = {}) {
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
      // Parallel reads count as one wait.
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

async function getIds(history: AsyncIterable<Release>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of history) ids.push(id);
  return ids;
}

test('releaseHistory yields the releases from the current one to the first, without manifests that were never current', async () => {
  const { chain, history } = getBucket(40, { others: [release('0007x', '0007'), release('0039x', '0039')] });
  const all = chain.map(({ id }) => id).reverse();
  expect(await getIds(history())).toEqual(all);
  expect(await getIds(history(3))).toEqual(all.slice(0, 3));
});

test('releaseHistory of a repository without a release is empty', async () => {
  expect(await getIds(getBucket(0).history())).toEqual([]);
});

test('releaseHistory reads at most the requested number of manifests, in parallel', async () => {
  const few = getBucket(1000);
  await getIds(few.history(2));
  expect(few.read).toHaveLength(1);
  const page = getBucket(1000);
  await getIds(page.history(21));
  expect(page.read).toHaveLength(20);
  expect(page.waits()).toBe(2);
});

test('releaseHistory ends at a missing manifest', async () => {
  expect(await getIds(getBucket(5, { gone: ['0002'] }).history())).toEqual(['0004', '0003']);
});

describe('wasReleased', () => {
  test.each([
    { title: 'the current release', candidate: release('0099', '0098'), expected: true },
    { title: 'the previous release', candidate: release('0098', '0097'), expected: true },
    { title: 'the first release', candidate: release('0000'), expected: true },
    { title: 'a manifest after the current release', candidate: release('0100', '0099'), expected: false },
    { title: 'a second successor of a release', candidate: release('0050x', '0050'), expected: false },
    { title: 'a second first release', candidate: release('x'), expected: false },
    { title: 'a release of a history whose pointer was deleted', candidate: release('y', 'x'), expected: true },
  ])('is $expected for $title', async ({ candidate, expected }) => {
    const { wasAt } = getBucket(100, { others: expected ? [] : [candidate] });
    expect(await wasAt(candidate)).toBe(expected);
  });

  test('is true for a release that is older than a missing manifest, because this cannot be verified', async () => {
    const { wasAt } = getBucket(10, { gone: ['0005'] });
    expect(await wasAt(release('0000'))).toBe(true);
    expect(await wasAt(release('0003', '0002'))).toBe(true);
    expect(await wasAt(release('0004', '0003'))).toBe(true);
    expect(await wasAt(release('0007x', '0007'))).toBe(false);
  });

  test('reads few manifests for a recent release', async () => {
    const { wasAt, read } = getBucket(1000);
    expect(await wasAt(release('0998', '0997'))).toBe(true);
    expect(read).toHaveLength(0);
    expect(await wasAt(release('0100', '0099'))).toBe(true);
    expect(read).toHaveLength(1);
  });

  test('is true for the first release of a history whose pointer was deleted', async () => {
    // Found by the manifest that names it, though the history ends before.
    const { wasAt } = getBucket(3, { others: [release('00000', undefined), release('00001', '00000')] });
    expect(await wasAt(release('00000'))).toBe(true);
  });
});

test('releaseHistory ends if manifests name each other', async () => {
  const [a, b] = [release('a', 'b'), release('b', 'a')];
  const get = async (key: string) => ({ body: Buffer.from(JSON.stringify(key.includes('a.json') ? a : b)) });
  const store = { bucket: 'b', get } as unknown as S3Store;
  expect(await getIds(releaseHistory(store, LOCATION, { head: a, ids: ['b', 'a'] }))).toEqual(['a', 'b']);
});
