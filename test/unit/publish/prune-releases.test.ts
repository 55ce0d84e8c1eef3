import type { HeadFile } from '../../../src/publish/head-file';
import { planPrune, prune } from '../../../src/publish/prune';
import type { Releases } from '../../../src/publish/releases';
import type { Head } from '../../../src/release/head';
import type { Manifest } from '../../../src/release/manifest';
import type { S3Store } from '../../../src/s3/store';

const DAY_MS = 24 * 3600 * 1000;
const NOW = Date.now();
const LOCATION = { bucket: 'b', prefix: 'm' };
const daysAgo = (days: number): string => new Date(NOW - days * DAY_MS).toISOString();

const FILES = 'm.releases/files';

/** Releases by number, the newest first. Release N names the file N.1. */
function getSnapshot(ages: readonly number[], current = ages.length): Releases & { retained: Manifest[] } {
  const retained = ages.map((days, i): Manifest => {
    const number = ages.length - i;
    const file = { path: `${number}/weights`, key: `${FILES}/${number}.1`, bytes: 1, checksum: '' };
    const golden = { ...file, path: 'golden.json', key: `${FILES}/golden.0` };
    return {
      ...{ id: `r${number}`, createdAt: daysAgo(days), base: 0, origin: '', by: '', trialKey: '' },
      models: { a: { served: [number], composedOf: [], config: 'backend: "x"', files: [file], golden } },
      former: [],
    };
  });
  const release = `r${current}`;
  const head = { generation: 9, release, manifestSha256: '', retained: [], sweep: 3, writer: '' };
  return {
    base: { head, condition: { ifEtag: '' }, generation: 9 },
    current: retained.find(({ id }) => id === release),
    retained,
  } as unknown as Releases & { retained: Manifest[] };
}

const getStore = (names: readonly string[]): S3Store =>
  ({
    list: (prefix: string) =>
      Promise.resolve(names.filter((key) => key.startsWith(prefix)).map((key) => ({ key, bytes: 1, etag: '' }))),
  }) as unknown as S3Store;

const OLD = [10, 11, 12, 13, 14, 15, 16];

test.each([
  ['the last five', getSnapshot(OLD), ['r3', 'r4', 'r5', 'r6', 'r7']],
  ['the current one, however old', getSnapshot(OLD, 1), ['r1', 'r3', 'r4', 'r5', 'r6', 'r7']],
  ['those of the last week', getSnapshot([1, 2, 3, 4, 5, 6, 9]), ['r2', 'r3', 'r4', 'r5', 'r6', 'r7']],
])('a prune retains %s', async (_, snapshot, retained) => {
  expect((await planPrune(snapshot, snapshot.retained, getStore([]), LOCATION)).retained).toEqual(retained);
});

test('a prune deletes files that no retained release names, except of publishers that plan after it', async () => {
  const names = ['1.1', '2.1', '7.1', '9.3', '9.4', 'x.0', 'golden.0'].map((name) => `${FILES}/${name}`);
  const snapshot = getSnapshot(OLD);
  const store = getStore([...names, 'm/a/1/weights', 'm.releases/r1.json']);
  const { orphans } = await planPrune(snapshot, snapshot.retained, store, LOCATION);
  expect(orphans.map(({ key }) => key)).toEqual(['1.1', '2.1', '9.3', 'x.0'].map((name) => `${FILES}/${name}`));
});

test('a prune counts itself in head.json before it deletes anything', async () => {
  const done: unknown[] = [];
  const store = { delete: (objects: unknown) => Promise.resolve(done.push(objects)) } as unknown as S3Store;
  const head = { put: ({ sweep }: Head) => Promise.resolve(done.push(sweep)) };
  const plan = { retained: [], orphans: [{ key: 'x', bytes: 1 }] };
  await prune(getSnapshot(OLD), plan, { head: head as unknown as HeadFile, store, writer: 'w' });
  expect(done).toEqual([4, [{ key: 'x' }]]);
});
