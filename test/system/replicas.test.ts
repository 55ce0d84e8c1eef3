import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PublishOptions } from '../../src/publish/publish';
import { rollBack } from '../../src/publish/rollback';
import { isAsReleased, repositoryStatus } from '../../src/publish/status';
import type { S3Store } from '../../src/s3/store';
import { podPublisher, sourceOf, TestPod } from '../support/pods';
import { addingEnsemble, addingModel, CRASH, onLoad, writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

/** Two real servers with their agents. Their bucket is empty when they start. */

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'replicas-test', prefix: 'models' };
const repository = join(scratch.directory, 'repository');
let store: S3Store;
let pods: TestPod[];

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, LOCATION.bucket);
  pods = await Promise.all(['one', 'two'].map((name) => TestPod.start(scratch, name, endpoint, LOCATION)));
}, 600_000);

const bucket = () => podPublisher(store, LOCATION, repository, pods);
const publish = (options: Partial<PublishOptions> = {}) => bucket().publish(options);
const isServed = async (): Promise<boolean> =>
  isAsReleased(await repositoryStatus({ store, location: LOCATION }, sourceOf(pods)));
const answers = (model: string, version?: number): Promise<(number | string)[]> =>
  Promise.all(pods.map((pod) => pod.answer(model, version)));
const absent = (model: string): unknown[] => pods.map(() => expect.stringContaining(model) as string);

/** Replaces the content of the folder. */
function write(...models: Record<string, string>[]): void {
  rmSync(repository, { recursive: true, force: true });
  writeRepository(repository, Object.assign({}, ...models) as Record<string, string>);
}

test('replicas that started on an empty bucket serve a model once it is published', async () => {
  write(addingModel('adds', { 1: 10 }));
  expect((await publish()).replicas).toEqual(['one', 'two']);
  expect(await answers('adds')).toEqual([11, 11]);
  expect(await isServed()).toBe(true);
});

test('a second publish uploads nothing and loads nothing', async () => {
  pods.forEach((pod) => pod.loads());
  const list = async (): Promise<string[]> => (await store.list('')).map(({ key, etag }) => `${key} ${etag}`);
  const before = await list();
  expect(await publish()).toMatchObject({ isNew: false, replicas: ['one', 'two'] });
  expect(await list()).toEqual(before);
  expect(pods.flatMap((pod) => pod.loads())).toEqual([]);
});

test('publish loads a new version beside the old one on every replica', async () => {
  write(addingModel('adds', { 1: 10, 2: 20 }));
  await publish();
  expect([await answers('adds', 1), await answers('adds', 2)]).toEqual([
    [11, 11],
    [21, 21],
  ]);
});

test('if the second replica cannot load a version, both serve the former release, and the number stays free', async () => {
  const files = addingModel('adds', { 1: 10, 2: 20, 3: 30 });
  const fails = onLoad('server == "two"', 'raise RuntimeError("the weights are broken")');
  write({ ...files, 'adds/3/model.py': `${fails}${files['adds/3/model.py']}` }, addingModel('new', { 1: 100 }));
  await expect(publish()).rejects.toThrow(/^two does not serve the release: [\s\S]*the weights are broken/);
  expect(await answers('adds')).toEqual([21, 21]);
  expect(await answers('new')).toEqual(absent('new'));
  expect(await isServed()).toBe(true);
  write(files);
  await publish();
  expect(await answers('adds', 3)).toEqual([31, 31]);
});

test('publish loads an ensemble with its steps, and --prune removes both', async () => {
  write(addingModel('adds', { 3: 30 }), addingModel('base', { 1: 1 }), addingEnsemble('aaa', 'base'));
  await publish();
  expect(await answers('aaa')).toEqual([2, 2]);
  rmSync(join(repository, 'base'), { recursive: true });
  await expect(publish({ prune: true })).rejects.toThrow(/not ready to be published/);
  rmSync(join(repository, 'aaa'), { recursive: true });
  await publish({ prune: true });
  expect(await answers('base')).toEqual(absent('base'));
  expect(await answers('aaa')).toEqual(absent('aaa'));
  expect(await answers('adds')).toEqual([31, 31]);
});

test('rollback restores an earlier release on every replica, also one with more models', async () => {
  write(addingModel('adds', { 3: 30 }), addingModel('later', { 1: 7 }));
  const { release } = await publish();
  expect(await answers('later')).toEqual([8, 8]);
  await rollBack(undefined, bucket().options());
  expect(await answers('later')).toEqual(absent('later'));
  await rollBack(release?.id, bucket().options());
  expect(await answers('later')).toEqual([8, 8]);
  expect(await isServed()).toBe(true);
});

test('an interrupt during a slow load restores the former release', async () => {
  const files = addingModel('adds', { 4: 40 });
  write({ ...files, 'adds/4/model.py': `import time\ntime.sleep(8)\n${files['adds/4/model.py']}` });
  pods.forEach((pod) => pod.loads());
  const controller = new AbortController();
  const publishing = publish({ signal: controller.signal });
  publishing.catch(() => undefined);
  await until('a replica loads', () => pods.some((pod) => pod.loads().includes('adds')));
  await sleep(1000);
  controller.abort(new Error('Ctrl-C'));
  await expect(publishing).rejects.toThrow('Ctrl-C');
  expect(await isServed()).toBe(true);
  expect(await answers('adds')).toEqual([31, 31]);
});

test('a version that crashes the first replica does not reach the second, and the first restarts with the former release', async () => {
  const before = (await pods[1]?.getState())?.release as string;
  const files = addingModel('adds', { 5: 50 });
  const crash = onLoad('True', CRASH);
  write({ ...files, 'adds/5/model.py': `${crash}${files['adds/5/model.py']}` });
  pods.forEach((pod) => pod.loads());
  await expect(publish()).rejects.toThrow(/^one does not serve the release: Triton ended while it loaded adds/);
  expect(pods[1]?.loads()).toEqual([]);
  await Promise.all(pods.map((pod) => pod.untilServes(before)));
  expect(await answers('adds')).toEqual([31, 31]);
  write(files);
  await publish();
  expect(await answers('adds')).toEqual([51, 51]);
});

test('publish refuses replicas that serve another repository', async () => {
  const other = podPublisher(store, { ...LOCATION, prefix: 'elsewhere' }, repository, pods);
  await expect(other.publish()).rejects.toThrow(
    'the agent of one serves s3://replicas-test/models, not s3://replicas-test/elsewhere',
  );
  expect(await answers('adds')).toEqual([51, 51]);
});
