import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { lockKey } from '../../src/release/location';
import { Lock, NO_INTENT, readLock } from '../../src/publish/lock';
import type { Bucket } from '../../src/s3/bucket';
import { uploadsUnder } from '../../src/s3/multipart';
import { PART_BYTES, S3Error, type S3Store } from '../../src/s3/store';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { publisher } from '../support/publish';
import { PublishProcess } from '../support/publish-process';
import { writeRepository } from '../support/repository';
import { openBucket } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { TestRepository } from '../support/test-repository';
import { startRecordingProxy, type RecordingProxy, type RecordedRequest } from '../support/recording-proxy';
import { testVersitygw } from '../support/versitygw';
import { until } from '../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const BUCKET = 'interrupted-upload';
const LOCATION = { bucket: BUCKET, prefix: 'models' };
const SERVES = (version: number): string =>
  `backend: "anything"\nversion_policy { specific { versions: [${version}] } }\n`;
const OLD = { 'a/config.pbtxt': SERVES(1), 'a/1/weights.bin': 'a' };
const repository = join(scratch.directory, 'repository');

/** Content of three parts. */
const LARGE = randomBytes(PART_BYTES + 1).toString('hex');

describeUnless(whyNoGo(['versitygw']), 'uploads that were interrupted', () => {
  let store: S3Store;
  let tap: RecordingProxy;
  /** The same bucket, accessed through the tap. */
  let tapped: S3Store;

  beforeAll(async () => {
    const { endpoint } = await testVersitygw(scratch);
    store = await openBucket(scratch, endpoint, BUCKET);
    tap = await startRecordingProxy(endpoint);
    scratch.defer(() => tap.stop());
    tapped = await openBucket(scratch, tap.endpoint, BUCKET, { create: false, attempts: 1 });
  });

  beforeEach(async () => {
    await store.delete(await store.list(''));
    await store.abortUploads('');
    folderHolds(OLD);
    await publish();
    tap.set({});
  });

  function folderHolds(files: Record<string, string>): void {
    rmSync(repository, { recursive: true, force: true });
    mkdirSync(repository);
    writeRepository(repository, files);
  }

  const folderHoldsLarge = (): void => folderHolds({ ...OLD, 'a/config.pbtxt': SERVES(2), 'a/2/weights.bin': LARGE });

  const publish = (...options: Parameters<ReturnType<typeof publisher>['publish']>) =>
    publisher(tapped, LOCATION, repository).publish(...options);

  const isPart = ({ method, path }: RecordedRequest, number: number): boolean =>
    method === 'PUT' && path.includes(`partNumber=${number}&`);

  /**
   * Runs `work` once, before the server gets the part of that number and after it has answered the other two parts:
   * versitygw damages an upload that is aborted while it writes a part, and then never completes it.
   */
  function beforePart(number: number, work: () => unknown): void {
    const others = [1, 2, 3].filter((other) => other !== number);
    const answered = new Set<number>();
    let done = false;
    tap.set({
      onRequest: async (request) => {
        if (done || !isPart(request, number)) return true;
        done = true;
        await until('the other parts are answered', () => answered.size === others.length);
        return work();
      },
      onAnswer: (request) => others.filter((other) => isPart(request, other)).forEach((other) => answered.add(other)),
    });
  }

  /** Methods of the requests that `work` sends. */
  async function getRequests(work: () => Promise<unknown>): Promise<string[]> {
    const before = tap.requests.length;
    await work();
    return tap.requests.slice(before).map(({ method }) => method);
  }

  const unfinishedUploads = async (): Promise<string[]> =>
    (await uploadsUnder((store as unknown as { at: Bucket }).at, '')).map(({ key }) => key);

  describe('a publisher that loses the lock during an upload', () => {
    test('reports the lost lock instead of the error of S3 that followed', async () => {
      folderHoldsLarge();
      let other: Lock | undefined;
      beforePart(2, async () => {
        other = await Lock.take(store, LOCATION, await readLock(store, LOCATION), NO_INTENT);
        await store.abortUploads('');
      });
      const error: unknown = await publish().catch((caught: unknown) => caught);
      expect(error).toMatchObject({
        name: 'LockLostError',
        message: expect.stringMatching(/^another publisher took over/) as string,
        hint: expect.stringMatching(/run the command again/) as string,
        cause: expect.any(S3Error) as unknown,
      });
      expect(await readLock(store, LOCATION)).toMatchObject({ heldBy: expect.stringMatching(/process/) as string });
      await other?.release();
    });

    test('reports an error of S3 unchanged while it holds the lock', async () => {
      folderHoldsLarge();
      beforePart(2, () => store.abortUploads(''));
      await expect(publish()).rejects.toBeInstanceOf(S3Error);
      await expect(publish()).resolves.toMatchObject({ isNew: true });
    });

    test('reports the lost lock if the other publisher wrote a configuration', async () => {
      folderHolds({ ...OLD, 'a/config.pbtxt': SERVES(2), 'a/2/weights.bin': 'a2' });
      let other: Lock | undefined;
      tap.set({
        onRequest: async ({ method, path }) => {
          if (other !== undefined || method !== 'PUT' || !path.endsWith('/models/a/config.pbtxt')) return;
          other = await Lock.take(store, LOCATION, await readLock(store, LOCATION), NO_INTENT);
          await store.putBytes('models/a/config.pbtxt', Buffer.from(SERVES(1)));
          // Release the lock, so that the first publisher need not wait for it when it repairs the repository.
          await other?.release();
        },
      });
      await expect(publish()).rejects.toMatchObject({
        name: 'LockLostError',
        message: expect.stringMatching(/^another publisher took over/) as string,
        cause: { message: expect.stringMatching(/another program changed the object/) as string },
      });
    });
  });

  describe('unfinished multipart uploads', () => {
    /** Runs a publisher that has nothing to publish, and expects that it aborted unfinished uploads. */
    async function expectTidied(): Promise<void> {
      expect(await unfinishedUploads()).toEqual(['models/a/2/weights.bin']);
      folderHolds(OLD);
      expect(await publish()).toMatchObject({ isNew: false });
      expect(await unfinishedUploads()).toEqual([]);
      expect(await new TestRepository(store, LOCATION.prefix).leftovers()).toEqual([]);
    }

    test('are aborted by the next publisher after a kill; without them a publisher sends no extra requests', async () => {
      const ordinary = await getRequests(publish);
      expect(new Set(ordinary)).toEqual(new Set(['GET']));
      folderHoldsLarge();
      const flags = ['--repo', repository, ...new TestRepository(store, LOCATION.prefix).flags(tap.endpoint)];
      const killed = new PublishProcess(scratch, 'sync-models', flags);
      beforePart(3, () => {
        killed.kill();
        return false;
      });
      expect(await killed.ended).toMatchObject({ signal: 'SIGKILL' });
      tap.set({});
      await expectTidied();
      expect(await getRequests(publish)).toEqual(ordinary);
    });

    test('are aborted by the next publisher after a failure', async () => {
      const ordinary = await getRequests(publish);
      folderHoldsLarge();
      beforePart(3, () => false);
      await expect(publish()).rejects.toThrow(/cannot write part 3/);
      await expectTidied();
      expect(await getRequests(publish)).toEqual(ordinary);
    });

    test('are kept for the same publication, which resumes them', async () => {
      folderHoldsLarge();
      beforePart(3, () => false);
      await expect(publish()).rejects.toThrow(/cannot write part 3/);
      const before = tap.requests.length;
      expect(await publish()).toMatchObject({ isNew: true });
      const again = tap.requests.slice(before).filter((request) => isPart(request, 1) || isPart(request, 2));
      expect(again).toEqual([]);
      expect(await new TestRepository(store, LOCATION.prefix).leftovers()).toEqual([]);
    });
  });

  test('publish reports the original failure if the lock merely expired', async () => {
    folderHoldsLarge();
    const now = Date.now.bind(Date);
    let late = 0;
    const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() + late);
    beforePart(2, async () => {
      await store.abortUploads('');
      late = 61_000;
    });
    try {
      await expect(publish()).rejects.toBeInstanceOf(S3Error);
    } finally {
      clock.mockRestore();
      // The publisher did not release the lock, because another publisher may have taken it over.
      await store.delete([{ key: lockKey(LOCATION) }]);
    }
  });
});
