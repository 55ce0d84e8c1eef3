import { join } from 'node:path';
import { ensurePlaceholder } from '../../src/publish/apply/repository-writer';
import { tritonRepositoryUrl } from '../../src/release/location';
import type { Release } from '../../src/publish/release/release';
import { listReleases } from '../../src/publish/release/list';
import { isAsReleased, repositoryStatus } from '../../src/publish/status';
import type { S3Store } from '../../src/s3/store';
import { publisher } from '../support/publish';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { CONTROL_ENVIRONMENT, ONE_BY_ONE, testReplicas, testTriton, type TestTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const RESTORED = { bucket: 'restored', prefix: 'models' };
const REPLICA = { bucket: 'replica', prefix: 'models' };

let endpoint: string;
let replica: S3Store;
let restored: S3Store;
let server: TestTriton;
const releases: Release[] = [];

/** Copies all objects with their keys, like S3 replication. */
async function replicate(from: S3Store, to: S3Store): Promise<void> {
  for (const { key } of await from.list('')) {
    const found = await from.get(key);
    if (found !== undefined) await to.putBytes(key, found.body);
  }
}

/** Publishes two releases in one region, replicates them to another region, and stops the first region's S3 server. */
beforeAll(async () => {
  const home = await testS3(scratch, 'home');
  const away = await testS3(scratch, 'away');
  endpoint = away.endpoint;
  const store = await openBucket(scratch, home.endpoint, 'models');
  replica = await openBucket(scratch, endpoint, REPLICA.bucket);
  restored = await openBucket(scratch, endpoint, RESTORED.bucket);
  const repository = join(scratch.directory, 'repository');
  const published = publisher(store, { bucket: 'models', prefix: 'models' }, repository);
  writeRepository(repository, addingModel('adds', { 1: 10 }));
  releases.push((await published.publish()).release as Release);
  writeRepository(repository, addingModel('adds', { 2: 20 }));
  releases.push((await published.publish()).release as Release);
  await replicate(store, replica);
  await home.stop();
  // The state after "pulumi up": an empty repository, and a server that reads it.
  await ensurePlaceholder(restored, RESTORED);
  server = await testTriton(scratch, tritonRepositoryUrl(RESTORED, endpoint), { extraArguments: [ONE_BY_ONE] });
});

const command = (name: string, ...args: string[]) =>
  runCommandLine(name, [...args, '--endpoint-url', endpoint], { ...S3_ENVIRONMENT, ...CONTROL_ENVIRONMENT });
const promote = (...args: string[]) =>
  command(
    'promote',
    '--from',
    's3://replica/models',
    '--to',
    's3://restored/models',
    '--triton',
    server.httpUrl,
    ...args,
  );

async function answer(): Promise<number> {
  const input = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(1) } as const;
  const { outputs } = await server.client.infer('adds', [input]);
  return Number(outputs[0]?.data[0]);
}

const getIds = async (store: S3Store, location: typeof REPLICA): Promise<string[]> =>
  (await listReleases(store, location, 9)).map(({ id }) => id);

test('promote refuses an incompletely replicated release and accepts the previous one', async () => {
  const key = 'models/adds/2/model.py';
  const weights = (await replica.get(key))?.body as Buffer;
  await replica.delete([{ key }]);
  const refused = await promote();
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('adds/2/model.py');
  await expect(answer()).rejects.toThrow(/adds/);

  const [first] = releases as [Release];
  expect((await promote('--release', first.id)).code).toBe(0);
  expect(await answer()).toBe(11);
  await replica.putBytes(key, weights);
});

test('promote restores the current release of a replicated bucket in an empty bucket', async () => {
  const [first, second] = releases as [Release, Release];
  expect((await promote()).code).toBe(0);
  expect(await answer()).toBe(21);
  expect(isAsReleased(await repositoryStatus(restored, RESTORED, testReplicas([server.httpUrl])))).toBe(true);
  // The history stays in the replicated bucket; the new bucket has its own history, which supports rollbacks.
  expect(await getIds(replica, REPLICA)).toEqual([second.id, first.id]);
  expect(await getIds(restored, RESTORED)).toHaveLength(2);
  expect((await command('rollback', '--bucket', 's3://restored/models', '--triton', server.httpUrl)).code).toBe(0);
  expect(await answer()).toBe(11);
});
