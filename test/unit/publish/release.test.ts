import { headKey, releaseKey } from '../../../src/release/location';
import { newRelease, readHead, writeHead } from '../../../src/publish/release/release';
import { MemoryStore } from '../../support/memory-store';

const LOCATION = { bucket: 'bucket', prefix: 'models' };

test('readHead names the missing manifest of the current release and the ways to continue', async () => {
  const bucket = new MemoryStore();
  const release = newRelease({ previous: undefined, origin: 'test', models: {} });
  await writeHead(bucket.store, LOCATION, release, undefined);
  bucket.objects.delete(releaseKey(LOCATION, release.id));
  await expect(readHead(bucket.store, LOCATION, [])).rejects.toMatchObject({
    name: 'UserError',
    message: `cannot read the current release: s3://bucket/${releaseKey(LOCATION, release.id)} is missing`,
    hint: expect.stringMatching(
      new RegExp(`^if the bucket was created .* try again later; .*delete s3://bucket/${headKey(LOCATION)}`),
    ) as string,
  });
});

test('readHead reads a manifest again that S3 reports as missing', async () => {
  const bucket = new MemoryStore();
  const release = newRelease({ previous: undefined, origin: 'test', models: {} });
  await writeHead(bucket.store, LOCATION, release, undefined);
  const key = releaseKey(LOCATION, release.id);
  const manifest = bucket.objects.get(key);
  bucket.objects.delete(key);
  let reads = 0;
  const get = bucket.get.bind(bucket);
  jest.spyOn(bucket, 'get').mockImplementation((asked) => {
    if (asked === key && (reads += 1) === 3 && manifest !== undefined) bucket.objects.set(key, manifest);
    return get(asked);
  });
  expect((await readHead(bucket.store, LOCATION, [1, 1, 1]))?.release.id).toBe(release.id);
  expect(reads).toBe(3);
});
