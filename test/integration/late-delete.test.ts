import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CONFIG, ONE_MODEL, publisher, TWO_MODELS } from '../support/publish';
import { startRecordingProxy } from '../support/recording-proxy';
import { writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'late-delete', prefix: 'models' };
/** The life of a lock, and one second. */
const EXPIRED_MS = 61_000;

// Only on SeaweedFS: versitygw 1.8 ignores the ETags in DeleteObjects.
test('a delete that arrives after another publisher took over the lock deletes nothing that the other one wrote', async () => {
  const { endpoint } = await testS3(scratch);
  const repository = join(scratch.directory, 'repository');
  const folderHolds = (files: Record<string, string>): void => {
    rmSync(repository, { recursive: true, force: true });
    mkdirSync(repository);
    writeRepository(repository, files);
  };
  const [slow, other] = [
    await startRecordingProxy(endpoint),
    await startRecordingProxy(endpoint, { clockOffsetMs: EXPIRED_MS }),
  ];
  scratch.defer(() => slow.stop());
  scratch.defer(() => other.stop());
  const store = await openBucket(scratch, endpoint, LOCATION.bucket);
  const through = async (proxy: string) =>
    publisher(await openBucket(scratch, proxy, LOCATION.bucket, { create: false }), LOCATION, repository);

  folderHolds(TWO_MODELS);
  await (await through(endpoint)).publish();
  folderHolds(ONE_MODEL);
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    slow.set({
      onRequest: ({ method, path }) => {
        if (method !== 'POST' || !/[?&]delete/.test(path)) return undefined;
        resolve();
        return new Promise<void>((go) => (release = go));
      },
    });
  });
  const pruning = (await through(slow.endpoint)).publish({ prune: true }).catch((error: unknown) => error as Error);
  await held;

  folderHolds({
    ...TWO_MODELS,
    'b/config.pbtxt': CONFIG.replace('anything', 'other'),
    'b/1/weights.bin': 'other',
  });
  expect(await (await through(other.endpoint)).publish()).toMatchObject({ isNew: true });
  const written = await store.list('models/b/');
  release();

  expect(((await pruning) as Error).message).toMatch(/not every object was deleted: another publisher took over/);
  expect(written).toHaveLength(2);
  expect(await store.list('models/b/')).toMatchObject(written.map(({ key, etag }) => ({ key, etag })));
});
