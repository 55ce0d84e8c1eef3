import { headKey, releaseKey } from '../../../src/release/location';
import { newRelease, readHead, UnknownHeadError, writeHead } from '../../../src/publish/release/release';
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

describe('writeHead without an answer', () => {
  /** A bucket whose write of head.json gets no answer. */
  async function withoutAnswer(isApplied: boolean) {
    const bucket = new MemoryStore();
    const first = newRelease({ previous: undefined, origin: 'test', models: {} });
    const head = await writeHead(bucket.store, LOCATION, first, undefined);
    const next = newRelease({ previous: first.id, origin: 'test', models: {} });
    const put = bucket.putBytes.bind(bucket);
    jest.spyOn(bucket, 'putBytes').mockImplementation(async (key, ...others) => {
      if (key !== headKey(LOCATION) || isApplied) await put(key, ...others);
      if (key === headKey(LOCATION)) throw new Error('no answer');
      return { etag: '', checksum: '' };
    });
    return { bucket, first, next, write: () => writeHead(bucket.store, LOCATION, next, head) };
  }

  test('succeeds if the head names the release', async () => {
    const { bucket, next, write } = await withoutAnswer(true);
    const etag = (await bucket.get(headKey(LOCATION)))?.etag;
    const head = await write();
    expect(head.release.id).toBe(next.id);
    expect(head.etag).toBe((await bucket.get(headKey(LOCATION)))?.etag);
    expect(head.etag).not.toBe(etag);
  });

  test('fails with the first error if the head names another release', async () => {
    const { write } = await withoutAnswer(false);
    await expect(write()).rejects.toThrow(/^no answer$/);
  });

  test('says that the outcome is unknown if the head cannot be read', async () => {
    const { bucket, next, write } = await withoutAnswer(true);
    jest.spyOn(bucket, 'get').mockRejectedValue(new Error('away'));
    const error: unknown = await write().catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(UnknownHeadError);
    expect((error as Error).message).toBe(`it is unknown whether release ${next.id} is the current one: no answer`);
  });
});
