import type { DesiredFile } from '../../../src/publish/desired';
import type { PlannedFile } from '../../../src/publish/plan';
import { uploadModels } from '../../../src/publish/upload';
import { fileKey } from '../../../src/release/location';
import { checksumOfBytes, PART_BYTES } from '../../../src/s3/store';
import { MemoryBucket, MemoryStore } from '../../support/memory-store';

const LOCATION = { bucket: 'bucket', prefix: 'models' };

const upload = async (bucket: MemoryBucket, bytes: number, released?: PlannedFile['released']) => {
  const body = Buffer.alloc(bytes, 'x');
  const file: DesiredFile = { path: '1/weights', bytes, checksum: checksumOfBytes(body), source: { body } };
  const twin = { ...file, path: '2/weights' };
  const model = { name: 'm', served: [1], composedOf: [], config: '', files: [file, twin], newest: 1, weights: {} };
  const files = [file, twin].map((one) => ({ file: one, action: 'upload' as const, released }));
  let sent = 0;
  const models = await uploadModels(
    { models: [{ model, files, before: undefined, missing: [], isChanged: true }], remove: [] },
    { store: new MemoryStore(bucket).store, location: LOCATION, sweep: 3, onBytes: (_, more) => (sent += more) },
  );
  return { keys: models['m']?.files.map(({ key }) => key), sent, key: fileKey(LOCATION, file.checksum, 3), body };
};

const SIZES = [5, PART_BYTES + 5];

test.each(SIZES)('uploadModels writes a content of %d bytes once, and names it again', async (bytes) => {
  const bucket = new MemoryBucket();
  for (let i = 0; i < 2; i += 1) {
    const { keys, sent, key, body } = await upload(bucket, bytes);
    expect([keys, sent]).toEqual([[key, key], bytes]);
    // toEqual compares each byte of a buffer by itself, which takes a minute.
    expect([bucket.objects.size, bucket.objects.get(key)?.equals(body)]).toEqual([1, true]);
  }
});

test.each(SIZES)('uploadModels refuses a key with other bytes than its content: %d bytes', async (bytes) => {
  const bucket = new MemoryBucket();
  const { key } = await upload(bucket, bytes);
  bucket.put(key, Buffer.alloc(bytes, 'y'));
  await expect(upload(bucket, bytes)).rejects.toThrow(`s3://bucket/${key} has other bytes`);
});

test('uploadModels names what a retained release has', async () => {
  const bucket = new MemoryBucket();
  const released = { path: '1/weights', key: 'models.releases/files/x.1', bytes: 5, checksum: '' };
  expect((await upload(bucket, 5, released)).keys).toEqual([released.key, released.key]);
  expect(bucket.objects.size).toBe(0);
});
