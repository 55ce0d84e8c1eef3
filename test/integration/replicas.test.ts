import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ensurePlaceholder } from '../../scripts/lib/publish/apply';
import { tritonRepositoryUrl } from '../../scripts/lib/publish/location';
import { publish, type Published } from '../../scripts/lib/publish/publish';
import type { S3Store } from '../../scripts/lib/publish/s3-store';
import type { TritonHttpClient } from '../../scripts/lib/triton/http';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { testS3, testStore } from '../support/s3';
import { Scratch } from '../support/scratch';
import { testTriton } from '../support/triton';

jest.setTimeout(180_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'replicas-test', prefix: 'models' };
let endpoint: string;
let store: S3Store;
let replicas: { httpUrl: string; client: TritonHttpClient }[];
const repository = join(scratch.directory, 'repository');

/** Two real servers on one real S3, which is empty when they start. */
beforeAll(async () => {
  const s3 = await testS3(scratch);
  endpoint = s3.endpoint;
  store = await testStore(scratch, s3, LOCATION.bucket);
  await ensurePlaceholder(store, LOCATION);
  const url = tritonRepositoryUrl(LOCATION, endpoint);
  replicas = [await testTriton(scratch, url, { name: 'one' }), await testTriton(scratch, url, { name: 'two' })];
});

const publishNow = (): Promise<Published> =>
  publish({
    repository,
    store,
    location: LOCATION,
    replicas: replicas.map(({ httpUrl }) => httpUrl),
    loadTimeoutMs: 60_000,
  });

/** What each replica answers to 1, by the version asked for. */
const answers = (version?: number): Promise<(number | string)[]> =>
  Promise.all(
    replicas.map(async ({ client }) => {
      const input = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(1) } as const;
      try {
        const { outputs } = await client.infer('adds', [input], version === undefined ? {} : { version });
        return Number(outputs[0]?.data[0]);
      } catch (error) {
        return (error as Error).message;
      }
    }),
  );

test('a server that started on an empty repository serves a model as soon as it was published', async () => {
  writeRepository(repository, addingModel('adds', { 1: 10 }));
  await publishNow();
  expect(await answers()).toEqual([11, 11]);
});

test('a second run publishes nothing and loads nothing', async () => {
  const before = await store.list('');
  await publishNow();
  expect(await store.list('')).toEqual(before);
});

test('a new version is served beside the old one, on every replica', async () => {
  writeRepository(repository, addingModel('adds', { 1: 10, 2: 20 }));
  await publishNow();
  expect(await answers(1)).toEqual([11, 11]);
  expect(await answers(2)).toEqual([21, 21]);
});

test('a configuration that was published without telling the servers is loaded by the next run', async () => {
  const files = addingModel('adds', { 1: 10, 2: 20 });
  const config = `${files['adds/config.pbtxt']}parameters { key: "note" value { string_value: "new" } }\n`;
  writeRepository(repository, { 'adds/config.pbtxt': config });
  await publish({ repository, store, location: LOCATION, replicas: [], loadTimeoutMs: 60_000 });
  await publishNow();
  const configs = await Promise.all(replicas.map(({ client }) => client.modelConfig('adds')));
  expect(configs.map(({ parameters }) => parameters)).toEqual(Array(2).fill({ note: { string_value: 'new' } }));
});

test('a replica that was missed is put right by the next run', async () => {
  await replicas[1]?.client.unloadModel('adds');
  for (let i = 0; i < 100 && (await replicas[1]?.client.modelReady('adds')) === true; i += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  expect(await answers(2)).toEqual([21, expect.stringContaining('adds')]);
  const result = await runCommandLine(
    'sync-models',
    ['--repo', repository, '--bucket', 's3://replicas-test/models', '--endpoint-url', endpoint].concat(
      replicas.flatMap(({ httpUrl }) => ['--triton', httpUrl]),
    ),
    { AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local-only-no-secret' },
  );
  expect(result).toMatchObject({ code: 0, stderr: expect.stringMatching(/: adds READY/) as string });
  expect(await answers(2)).toEqual([21, 21]);
});

test('a version that cannot be loaded: the reason is told, the versions served before go on', async () => {
  const files = addingModel('adds', { 1: 10, 2: 20, 3: 30 });
  writeRepository(repository, { ...files, 'adds/3/model.py': 'raise RuntimeError("the weights are broken")\n' });
  await expect(publishNow()).rejects.toThrow(/could not load adds[\s\S]*the weights are broken/);
  expect(await answers(2)).toEqual([21, 21]);
  // The way out is a version that loads.
  rmSync(join(repository, 'adds', '3'), { recursive: true });
  writeRepository(repository, addingModel('adds', { 1: 10, 2: 20, 4: 40 }));
  await publishNow();
  expect(await answers(4)).toEqual([41, 41]);
});
