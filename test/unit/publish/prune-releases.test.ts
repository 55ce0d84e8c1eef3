import type { HeadFile } from '../../../src/publish/head-file';
import { planPrune, prune } from '../../../src/publish/prune';
import type { Releases } from '../../../src/publish/releases';
import type { Manifest } from '../../../src/release/manifest';
import type { S3Store } from '../../../src/s3/store';

const DAY_MS = 24 * 3600 * 1000;
const NOW = Date.parse('2026-11-24T12:00:00.000Z');
const LOCATION = { bucket: 'b', prefix: 'm' };
const daysAgo = (days: number): string => new Date(NOW - days * DAY_MS).toISOString();

/** Releases by number, the newest first. Release N names the object m/a/N/weights. */
function getSnapshot(ages: readonly number[], current = ages.length): Releases & { retained: Manifest[] } {
  const retained = ages.map((days, i): Manifest => {
    const number = ages.length - i;
    const file = { path: `${number}/weights`, key: `m/a/${number}/weights`, versionId: 'v', bytes: 1, checksum: '' };
    const golden = { ...file, path: 'golden.json', key: 'm.releases/kept/golden' };
    return {
      ...{ id: `r${number}`, createdAt: daysAgo(days), base: 0, origin: '', by: '', trialKey: '' },
      models: { a: { served: [number], composedOf: [], config: 'backend: "x"', files: [file], golden } },
    };
  });
  const release = `r${current}`;
  const head = { generation: 9, release, manifestSha256: '', retained: [], sweptBefore: daysAgo(30), writer: '' };
  return {
    base: { head, condition: { ifEtag: '' }, generation: 9 },
    current: retained.find(({ id }) => id === release),
    retained,
  } as unknown as Releases & { retained: Manifest[] };
}

/** A bucket whose head.json was written an hour ago. */
function getStore(objects: Record<string, number>, others: readonly string[] = []): S3Store {
  const all = Object.entries({ ...objects, 'm.releases/head.json': 1 / 24 });
  return {
    concurrency: 1,
    checksum: (key: string) => Promise.resolve(others.includes(key) ? 'other' : ''),
    get: () => Promise.resolve({ ageMs: DAY_MS / 24 }),
    list: (prefix: string) =>
      Promise.resolve(
        all
          .filter(([key]) => key.startsWith(prefix))
          .map(([key, days]) => ({ key, bytes: 1, etag: `"${key}"`, modified: new Date(daysAgo(days)) })),
      ),
  } as unknown as S3Store;
}

const OLD = [10, 11, 12, 13, 14, 15, 16];

test.each([
  ['the last five', getSnapshot(OLD), ['r3', 'r4', 'r5', 'r6', 'r7']],
  ['the current one, however old', getSnapshot(OLD, 1), ['r1', 'r3', 'r4', 'r5', 'r6', 'r7']],
  ['those of the last week', getSnapshot([1, 2, 3, 4, 5, 6, 9]), ['r2', 'r3', 'r4', 'r5', 'r6', 'r7']],
])('a prune retains %s', async (_, snapshot, retained) => {
  expect((await planPrune(snapshot, snapshot.retained, getStore({}), LOCATION)).retained).toEqual(retained);
});

test('a prune deletes objects of versions that no retained release names and that are older than a day', async () => {
  const objects = {
    'm/a/1/weights': 9,
    'm/a/2/weights': 9,
    'm/a/7/weights': 9,
    'm/a/8/weights': 0.5,
    'm/a/9/weights': 9,
    'm/a/config.pbtxt': 9,
    'm.releases/kept/x': 9,
    'm.releases/kept/golden': 9,
    'm.releases/r1.json': 9,
  };
  const snapshot = getSnapshot(OLD);
  const plan = await planPrune(snapshot, snapshot.retained, getStore(objects), LOCATION);
  const orphans = ['m/a/1/weights', 'm/a/2/weights', 'm/a/9/weights', 'm.releases/kept/x'];
  expect(plan).toMatchObject({
    orphans: orphans.map((key) => ({ key, etag: `"${key}"`, bytes: 1 })),
    sweptBefore: daysAgo(1),
  });
});

test('a prune keeps the copy of a version that is stored by content, and no other bytes in its place', async () => {
  const snapshot = getSnapshot(OLD);
  for (const { models } of snapshot.retained) {
    for (const file of models['a']?.files ?? []) file.key = 'm.releases/kept/x';
  }
  const objects = { 'm/a/2/weights': 9, 'm/a/6/weights': 9, 'm/a/7/weights': 9, 'm.releases/kept/x': 9 };
  const { orphans } = await planPrune(snapshot, snapshot.retained, getStore(objects, ['m/a/6/weights']), LOCATION);
  // 6: the file of a release that was refused, in the place of the copy.
  expect(orphans.map(({ key }) => key)).toEqual(['m/a/2/weights', 'm/a/6/weights']);
});

test('a prune stops when another publisher changes head.json, and deletes objects only as they were listed', async () => {
  const orphans = Array.from({ length: 1001 }, (_, i) => ({ key: `m/a/${i + 1}/weights`, etag: `"${i}"`, bytes: 1 }));
  const deleted: unknown[] = [];
  const store = {
    delete: (objects: unknown[]) => Promise.resolve(void deleted.push(...objects)),
  } as unknown as S3Store;
  const generations = [10, 11];
  const head = {
    replaceOnce: () => Promise.resolve(),
    read: () => Promise.resolve({ generation: generations.shift() }),
  } as unknown as HeadFile;
  const plan = { retained: [], sweptBefore: daysAgo(1), orphans };
  const pruning = prune(getSnapshot(OLD), plan, { head, store, writer: 'w' });
  await expect(pruning).rejects.toThrow('another publisher changed head.json');
  expect(deleted).toEqual(orphans.slice(0, 1000));
});
