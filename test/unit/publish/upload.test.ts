import type { DesiredFile } from '../../../src/publish/desired';
import { uploadModels } from '../../../src/publish/upload';
import type { ReleasedFile } from '../../../src/release/manifest';
import { checksumOfBytes, PART_BYTES } from '../../../src/s3/store';
import { VersionedBucket, VersionedStore } from '../../support/versioned-store';

const LOCATION = { bucket: 'bucket', prefix: 'models' };
const SWEPT_BEFORE = '2026-11-25T00:00:00.000Z';
const KEY = 'models/m/1/weights';

const contentOf = (bytes: number, text: string): Buffer => Buffer.alloc(bytes, text);

/** What is under the key of the file before. */
type Present = 'nothing' | 'the same bytes' | 'other bytes' | 'the same bytes, older than the last prune';

const PRESENT: Readonly<Record<Present, { text?: string; modified?: string }>> = {
  nothing: {},
  'the same bytes': { text: 'x', modified: '2026-11-25T01:00:00.000Z' },
  'other bytes': { text: 'y', modified: '2026-11-25T01:00:00.000Z' },
  'the same bytes, older than the last prune': { text: 'x', modified: '2026-11-24T23:00:00.000Z' },
};

test.each(
  [5, PART_BYTES + 5].flatMap((bytes) => [
    { bytes, present: 'nothing' as const, isReused: false, atItsKey: true },
    { bytes, present: 'the same bytes' as const, isReused: true, atItsKey: true },
    { bytes, present: 'other bytes' as const, isReused: false, atItsKey: false },
    { bytes, present: 'the same bytes, older than the last prune' as const, isReused: false, atItsKey: false },
  ]),
)('uploadModels of $bytes bytes over $present', async ({ bytes, present, isReused, atItsKey }) => {
  const body = contentOf(bytes, 'x');
  const bucket = new VersionedBucket();
  const { text, modified = '' } = PRESENT[present];
  if (text !== undefined) {
    bucket.objects.set(KEY, [{ id: 'old', body: contentOf(bytes, text), modified: new Date(modified) }]);
  }
  const { store } = new VersionedStore(bucket);
  const file: DesiredFile = { path: '1/weights', bytes, checksum: checksumOfBytes(body), source: { body } };
  const model = { name: 'm', served: [1], composedOf: [], config: '', files: [file], newest: 1, weights: {} };
  const files = [{ file, action: 'upload' as const, released: undefined }];
  let sent = 0;
  const { m } = await uploadModels(
    { models: [{ model, files, before: undefined, missing: [], isChanged: true }], remove: [] },
    { store, location: LOCATION, sweptBefore: SWEPT_BEFORE, onBytes: (_, more) => (sent += more) },
  );
  const { key, versionId, checksum } = m?.files[0] as ReleasedFile;
  expect([key === KEY, versionId === 'old', checksum]).toEqual([atItsKey, isReused, checksumOfBytes(body)]);
  expect(
    bucket.objects
      .get(key)
      ?.find(({ id }) => id === versionId)
      ?.body.equals(body),
  ).toBe(true);
  expect(sent).toBe(bytes);
});
