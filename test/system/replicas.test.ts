import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ensurePlaceholder } from '../../src/publish/apply/repository-writer';
import { tritonRepositoryUrl } from '../../src/release/location';
import type { PublishOptions } from '../../src/publish/publish';
import { rollBack } from '../../src/publish/rollback';
import { isAsReleased, repositoryStatus } from '../../src/publish/status';
import type { ReplicaSource } from '../../src/cluster/source';
import type { S3Store } from '../../src/s3/store';
import type { TritonHttpClient } from '../../src/triton/http';
import { publisher } from '../support/publish';
import { addingEnsemble, addingModel, onLoad, writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { CONTROL_ENVIRONMENT, ONE_BY_ONE, testReplicas, testTriton, type TestTriton } from '../support/triton';
import { until } from '../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'replicas-test', prefix: 'models' };
let endpoint: string;
let store: S3Store;
let replicas: TestTriton[];
const repository = join(scratch.directory, 'repository');

/**
 * Two real servers on one real S3, which is empty when they start. They load versions sequentially, because with
 * parallel loads this release may crash when one fails (docs/operations.md, "A server that ends while it loads").
 */
beforeAll(async () => {
  const s3 = await testS3(scratch);
  endpoint = s3.endpoint;
  store = await openBucket(scratch, s3.endpoint, LOCATION.bucket);
  await ensurePlaceholder(store, LOCATION);
  const url = tritonRepositoryUrl(LOCATION, endpoint);
  const start = (name: string): Promise<TestTriton> => testTriton(scratch, url, { name, extraArguments: [ONE_BY_ONE] });
  replicas = [await start('one'), await start('two')];
});

const environment = { ...S3_ENVIRONMENT, ...CONTROL_ENVIRONMENT };
const urls = (): string[] => replicas.map(({ httpUrl }) => httpUrl);
const bucket = () => publisher(store, LOCATION, repository, urls);
const publishNow = (options: Partial<PublishOptions> = {}) => bucket().publish(options);
const status = () => repositoryStatus(store, LOCATION, testReplicas(urls()));
const config = async (name: string): Promise<string | undefined> =>
  (await store.get(`models/${name}/config.pbtxt`))?.body.toString();

/** The answer of each replica to 1, or its error. */
const answers = (model: string, version?: number): Promise<(number | string)[]> =>
  Promise.all(
    replicas.map(async ({ client }) => {
      const input = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(1) } as const;
      try {
        const { outputs } = await client.infer(model, [input], version === undefined ? {} : { version });
        return Number(outputs[0]?.data[0]);
      } catch (error) {
        return (error as Error).message;
      }
    }),
  );

test('replicas that started on an empty repository serve a model once it is published', async () => {
  writeRepository(repository, addingModel('adds', { 1: 10 }));
  const ready: string[] = [];
  const said: string[] = [];
  await publishNow({
    onLoading: (replica, model) => said.push(`${replica} ${model}`),
    onReady: (replica) => ready.push(replica),
  });
  expect(await answers('adds')).toEqual([11, 11]);
  expect(ready).toEqual(urls());
  expect(said).toEqual(urls().map((url) => `${url} adds`));
  expect(isAsReleased(await status())).toBe(true);
});

test('a second publish uploads nothing and loads nothing', async () => {
  const repositoryNow = async (): Promise<string[]> =>
    (await store.list('models/')).map(({ key, etag }) => `${key} ${etag}`);
  const before = await repositoryNow();
  const ready: string[] = [];
  expect((await publishNow({ onReady: (replica) => ready.push(replica) })).isNew).toBe(false);
  expect(ready).toEqual([]);
  expect(await repositoryNow()).toEqual(before);
});

test('publish loads a new version beside the old one on every replica', async () => {
  writeRepository(repository, addingModel('adds', { 1: 10, 2: 20 }));
  await publishNow();
  expect(await answers('adds', 1)).toEqual([11, 11]);
  expect(await answers('adds', 2)).toEqual([21, 21]);
});

test('status reports a configuration that was published but not loaded, and the next publish loads it', async () => {
  const files = addingModel('adds', { 1: 10, 2: 20 });
  const noted = `${files['adds/config.pbtxt']}parameters { key: "note" value { string_value: "new" } }\n`;
  writeRepository(repository, { 'adds/config.pbtxt': noted });
  await publishNow({ replicas: undefined });
  const before = await status();
  expect(before.replicas[0]?.versions.map(({ verdict }) => verdict)).toEqual([
    'other configuration',
    'other configuration',
  ]);
  expect(isAsReleased(before)).toBe(false);
  await publishNow();
  expect(isAsReleased(await status())).toBe(true);
  const configs = await Promise.all(replicas.map(({ client }) => client.modelConfig('adds')));
  for (const loaded of configs) expect(loaded).toMatchObject({ parameters: { note: { string_value: 'new' } } });
});

/** Unloads a model and waits until the server reports it, because requests and the model's process end only later. */
async function unload(client: TritonHttpClient, model: string): Promise<void> {
  await client.unloadModel(model);
  const isOut = async (): Promise<boolean> =>
    (await client.repositoryIndex()).every(({ name, state }) => name !== model || state === 'UNAVAILABLE');
  while (!(await isOut())) await sleep(50);
}

test('publish repairs a replica that lacks a model', async () => {
  await unload(replicas[1]?.client as TritonHttpClient, 'adds');
  expect(await answers('adds', 2)).toEqual([21, expect.stringContaining('adds')]);
  const target = ['--bucket', 's3://replicas-test/models', '--endpoint-url', endpoint].concat(
    urls().flatMap((url) => ['--triton', url]),
  );
  const before = await runCommandLine('status', target, environment);
  expect(before).toMatchObject({ code: 1, stdout: expect.stringMatching(/UNAVAILABLE +unloaded/) as string });
  const result = await runCommandLine('sync-models', ['--repo', repository, ...target], environment);
  expect(result).toMatchObject({ code: 0, stderr: expect.stringMatching(/: adds READY/) as string });
  expect(await answers('adds', 2)).toEqual([21, 21]);
  expect(await runCommandLine('status', target, environment)).toMatchObject({ code: 0 });
});

/** A model whose version 3 cannot be loaded on servers where `condition` is true. */
const withBroken = (condition: string): Record<string, string> => {
  const files = addingModel('adds', { 1: 10, 2: 20, 3: 30 });
  const fails = onLoad(condition, 'raise RuntimeError("the weights are broken")');
  return {
    ...files,
    'adds/3/model.py': `${fails}${files['adds/3/model.py']}`,
    'new/config.pbtxt': addingModel('new', { 1: 0 })['new/config.pbtxt'] as string,
    'new/1/model.py': addingModel('new', { 1: 100 })['new/1/model.py'] as string,
  };
};

test.each([
  ['every replica', 'True'],
  ['the second replica alone', 'server == "two"'],
])('publish restores all models if %s cannot load a version; old versions answer throughout', async (_, where) => {
  const before = await config('adds');
  rmSync(repository, { recursive: true });
  writeRepository(repository, withBroken(where));
  const over = new AbortController();
  const wrong: unknown[] = [];
  const ask = (async () => {
    while (!over.signal.aborted) {
      wrong.push(...(await answers('adds', 2)).filter((answer) => answer !== 21));
      await sleep(5);
    }
  })();
  try {
    await expect(publishNow()).rejects.toThrow(/could not load adds[\s\S]*the weights are broken/);
  } finally {
    over.abort();
    await ask;
  }
  expect(wrong).toEqual([]);
  expect(await config('adds')).toBe(before);
  expect(await config('new')).toBeUndefined();
  const { replicas: now, drift } = await status();
  expect(drift).toEqual([]);
  expect(now.map(({ versions }) => versions.map(({ model, verdict }) => `${model} ${verdict}`))).toEqual(
    Array(2).fill(['adds as released', 'adds as released']),
  );
  // Uploaded files stay for the next attempt. There is none here, and a starting server would take them for a model.
  await store.delete([{ key: 'models/new/1/model.py' }]);
  // The version number can be reused with a valid model (next test), because the broken one was never released.
  rmSync(repository, { recursive: true });
  writeRepository(repository, addingModel('adds', { 1: 10, 2: 20 }));
});

test('publish accepts valid bytes under the version number of a failed publication', async () => {
  writeRepository(repository, addingModel('adds', { 1: 10, 2: 20, 3: 30 }));
  await publishNow();
  expect(await answers('adds', 3)).toEqual([31, 31]);
});

test('publish loads an ensemble after its steps, and unloads it with them', async () => {
  writeRepository(repository, { ...addingModel('base', { 1: 1 }), ...addingEnsemble('aaa', 'base') });
  await publishNow();
  expect(await answers('aaa')).toEqual([2, 2]);

  rmSync(join(repository, 'base'), { recursive: true });
  await expect(publishNow({ prune: true })).rejects.toThrow(/not ready to be published/);
  rmSync(join(repository, 'aaa'), { recursive: true });
  const unloaded: string[] = [];
  await publishNow({ prune: true, onUnloaded: (_, model) => unloaded.push(model) });
  expect(unloaded).toEqual(['aaa', 'base', 'aaa', 'base']);
  expect(await answers('base')).toEqual([expect.stringContaining('base'), expect.stringContaining('base')]);
  expect(await answers('adds', 3)).toEqual([31, 31]);
  expect((await store.list('models/')).filter(({ key }) => /aaa|base/.test(key))).toEqual([]);
});

test('rollback reloads older versions and unloads later models on every replica', async () => {
  writeRepository(repository, addingModel('later', { 1: 7 }));
  const { release } = await publishNow();
  expect(await answers('later')).toEqual([8, 8]);
  await rollBack(undefined, bucket().options());
  expect(await answers('later')).toEqual(Array(2).fill(expect.stringContaining('later')));
  expect(isAsReleased(await status())).toBe(true);
  await rollBack(release?.id, bucket().options());
  expect(await answers('later')).toEqual([8, 8]);
});

test('replicas load every configuration changed within a second, although S3 times have a resolution of one second', async () => {
  // Ensembles load very fast.
  writeRepository(repository, { ...addingModel('base', { 1: 1 }), ...addingEnsemble('quick', 'base') });
  await publishNow();
  const config = addingEnsemble('quick', 'base')['quick/config.pbtxt'] as string;
  for (let i = 0; i < 4; i += 1) {
    writeRepository(repository, {
      'quick/config.pbtxt': `${config}parameters { key: "n" value { string_value: "${i}" } }\n`,
    });
    await publishNow();
    expect(isAsReleased(await status())).toBe(true);
  }
  await rollBack(undefined, bucket().options());
  expect(isAsReleased(await status())).toBe(true);
});

test('publish includes a replica that appears during the rollout', async () => {
  writeRepository(repository, addingModel('adds', { 1: 10, 2: 20, 3: 30, 4: 40 }));
  const [one, two] = await testReplicas(urls()).list();
  let settled = 0;
  const growing: ReplicaSource = {
    describe: () => 'a growing set',
    list: () => Promise.resolve(settled === 0 ? [one] : [one, two]) as ReturnType<ReplicaSource['list']>,
    close: () => Promise.resolve(),
  };
  await publishNow({ replicas: growing, onReady: () => (settled += 1) });
  expect(await answers('adds', 4)).toEqual([41, 41]);
});

test('an interrupt during a slow load restores the previous version', async () => {
  const before = await config('adds');
  const files = addingModel('adds', { 4: 40, 5: 50 });
  files['adds/5/model.py'] = `import time\ntime.sleep(8)\n${files['adds/5/model.py']}`;
  writeRepository(repository, files);
  const controller = new AbortController();
  const publishing = publishNow({ signal: controller.signal });
  // The load begins immediately after the configuration was activated, and takes eight seconds.
  await until('the configuration is switched', async () => (await config('adds')) !== before);
  await sleep(1000);
  controller.abort(new Error('Ctrl-C'));
  await expect(publishing).rejects.toThrow('Ctrl-C');
  expect(await config('adds')).toBe(before);
  expect(isAsReleased(await status())).toBe(true);
  expect(await answers('adds', 4)).toEqual([41, 41]);
  rmSync(join(repository, 'adds', '5'), { recursive: true });
});

test.each(['adds', 'fresh'])(
  'publish of a version of %s that crashes its replica leaves the other replica unchanged and restores the first',
  async (model) => {
    const [one, two] = replicas as [TestTriton, TestTriton];
    const before = await config(model);
    const files = addingModel(model, { 4: 40, 5: 50 });
    const program = `${model}/5/model.py`;
    writeRepository(repository, {
      ...files,
      [program]: `${onLoad('True', 'os.kill(os.getppid(), signal.SIGSEGV)')}${files[program]}`,
    });
    one.expectEnd();
    await expect(publishNow()).rejects.toThrow(`${one.httpUrl} cannot be reached`);
    expect(await one.ended).toBe('signal SIGSEGV');
    expect(await config(model)).toBe(before);
    expect(await two.client.ready()).toBe(true);
    replicas[0] = await one.startAgain();
    expect(await answers('adds', 4)).toEqual([41, 41]);
    // The crashed server could not be told to reload the old configuration, so the model stays marked as unfinished.
    expect((await status()).unfinished).toEqual([model]);
    writeRepository(repository, files);
    await publishNow();
    expect(await answers(model, 5)).toEqual([51, 51]);
    expect(isAsReleased(await status())).toBe(true);
  },
);

test('publish refuses a replica that reads another repository, and leaves it unchanged', async () => {
  writeRepository(repository, addingModel('adds', { 5: 50, 6: 60 }));
  const elsewhere = publisher(store, { bucket: LOCATION.bucket, prefix: 'elsewhere' }, repository, urls);
  await expect(elsewhere.publish()).rejects.toThrow(
    /loaded adds with another configuration than the published one|is absent|is UNAVAILABLE: unloaded/,
  );
  expect(await answers('adds', 5)).toEqual([51, 51]);
});
