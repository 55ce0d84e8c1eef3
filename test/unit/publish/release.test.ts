import { headKey, releaseKey } from '../../../src/publish/location';
import { newRelease, readHead, writeHead } from '../../../src/publish/release/release';
import { MemoryStore } from '../../support/memory-store';

test('readHead names the missing manifest of the current release and the ways to continue', async () => {
  const location = { bucket: 'bucket', prefix: 'models' };
  const bucket = new MemoryStore();
  const release = newRelease({ previous: undefined, origin: 'test', models: {} });
  await writeHead(bucket.store, location, release, undefined);
  bucket.objects.delete(releaseKey(location, release.id));
  await expect(readHead(bucket.store, location)).rejects.toMatchObject({
    name: 'UserError',
    message: `cannot read the current release: s3://bucket/${releaseKey(location, release.id)} is missing`,
    hint: expect.stringContaining(`delete s3://bucket/${headKey(location)}`) as string,
  });
});
