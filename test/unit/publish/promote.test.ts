import timers from 'node:timers/promises';
import { releaseKey } from '../../../src/release/location';
import { promote } from '../../../src/publish/promote';
import { newRelease, writeHead } from '../../../src/publish/release/release';
import { S3Error } from '../../../src/s3/store';
import { MemoryStore } from '../../support/memory-store';

const FROM = { bucket: 'bucket', prefix: 'staging' };
const TO = { bucket: 'bucket', prefix: 'prod' };

// A missing manifest is read again after pauses.
beforeEach(() => void jest.spyOn(timers, 'setTimeout').mockResolvedValue(undefined));
afterEach(() => jest.restoreAllMocks());

test('promote needs the manifest of the current release only if no release is named, but reports that it may not be read', async () => {
  const bucket = new MemoryStore();
  const { store } = bucket;
  const first = newRelease({ previous: undefined, origin: 'test', models: {} });
  const second = newRelease({ previous: first.id, origin: 'test', models: {} });
  await writeHead(store, FROM, second, await writeHead(store, FROM, first, undefined));
  bucket.objects.delete(releaseKey(FROM, second.id));
  const options = {
    store,
    location: TO,
    from: { store, location: FROM },
    replicas: undefined,
    loadTimeoutMs: 1,
    lockTimeoutMs: 1,
    dryRun: true,
  };
  await expect(promote({ ...options, release: first.id })).resolves.toMatchObject({ isNew: false });
  await expect(promote(options)).rejects.toThrow('cannot read the current release');
  const denied = new S3Error('read the release', 'http://host', { code: 'AccessDenied', status: 403 });
  const get = bucket.get.bind(bucket);
  jest
    .spyOn(bucket, 'get')
    .mockImplementation((key) => (key === releaseKey(FROM, second.id) ? Promise.reject(denied) : get(key)));
  await expect(promote({ ...options, release: first.id })).rejects.toBe(denied);
});
