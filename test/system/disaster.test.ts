import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { listReleases } from '../../src/publish/list-releases';
import { isAsReleased, repositoryStatus } from '../../src/publish/status';
import type { Manifest } from '../../src/release/manifest';
import type { S3Store } from '../../src/s3/store';
import { sourceOf, TestPod } from '../support/pods';
import { publisher } from '../support/publish';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const RESTORED = { bucket: 'restored', prefix: 'models' };
const COPY = { bucket: 'copy', prefix: 'models' };

let endpoint: string;
let copy: S3Store;
let restored: S3Store;
let pod: TestPod;
const releases: Manifest[] = [];

/**
 * Publishes two releases in one region, and stops its S3 server. Another region has a copy of the bucket, as S3
 * replicates it, and the state after "pulumi up": an empty bucket, and a replica of it.
 */
beforeAll(async () => {
  const home = await testS3(scratch, 'home');
  const store = await openBucket(scratch, home.endpoint, COPY.bucket);
  const repository = join(scratch.directory, 'repository');
  const published = publisher(store, COPY, repository);
  for (const version of [1, 2]) {
    writeRepository(repository, addingModel('adds', { [version]: 10 * version }));
    releases.push((await published.publish()).release as Manifest);
  }
  await home.stop();
  cpSync(join(scratch.directory, 'home'), join(scratch.directory, 'away'), { recursive: true });
  ({ endpoint } = await testS3(scratch, 'away'));
  copy = await openBucket(scratch, endpoint, COPY.bucket, { create: false });
  restored = await openBucket(scratch, endpoint, RESTORED.bucket);
  pod = await TestPod.start(scratch, 'pod', endpoint, RESTORED);
}, 600_000);

const command = (name: string, ...args: string[]) =>
  runCommandLine(name, [...args, '--endpoint-url', endpoint], S3_ENVIRONMENT);
const promote = (...args: string[]) =>
  command('promote', '--from', 's3://copy/models', '--to', 's3://restored/models', ...pod.flags, ...args);

const getIds = async (store: S3Store, location: typeof COPY): Promise<string[]> =>
  (await listReleases({ store, location }, 9)).map(({ id }) => id);

test('promote restores releases of a replicated bucket in an empty bucket', async () => {
  const [first, second] = releases as [Manifest, Manifest];
  expect(await promote('--release', first.id)).toMatchObject({ code: 0 });
  expect(await pod.answer('adds')).toBe(11);
  expect(await promote()).toMatchObject({ code: 0 });
  expect(await pod.answer('adds')).toBe(21);
  expect(isAsReleased(await repositoryStatus({ store: restored, location: RESTORED }, sourceOf([pod])))).toBe(true);
  // The history stays in the replicated bucket; the new bucket has its own history, which supports rollbacks.
  expect(await getIds(copy, COPY)).toEqual([second.id, first.id]);
  expect(await getIds(restored, RESTORED)).toHaveLength(2);
  expect(await command('rollback', '--bucket', 's3://restored/models', ...pod.flags)).toMatchObject({ code: 0 });
  expect(await pod.answer('adds')).toBe(11);
});

test('promote refuses a release that was not replicated completely, and names the object', async () => {
  const { key = '' } = releases[1]?.models['adds']?.files[0] ?? {};
  await copy.delete([{ key }]);
  const refused = await command('promote', '--from', 's3://copy/models', '--to', 's3://restored/other', '--untried');
  expect({ code: refused.code, stderr: refused.stderr }).toEqual({
    code: 1,
    stderr: expect.stringContaining(key) as string,
  });
});
