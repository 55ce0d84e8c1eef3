import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ensurePlaceholder } from '../../src/publish/apply/repository-writer';
import { goldenKey, tritonRepositoryUrl } from '../../src/release/location';
import { promote } from '../../src/publish/promote';
import type { PublishOptions } from '../../src/publish/publish';
import { readHead, type Release } from '../../src/publish/release/release';
import { listReleases } from '../../src/publish/release/list';
import { rollBack } from '../../src/publish/rollback';
import { isAsReleased, repositoryStatus } from '../../src/publish/status';
import type { S3Store } from '../../src/s3/store';
import { fakeTriton, type FakeTriton } from '../support/fake-triton';
import { GOLDEN_MODELS, goldenModel, harmless, MUTANTS, type GoldenModel } from '../support/golden-models';
import { publisher } from '../support/publish';
import { addingEnsemble, addingModel, answeringProgram, writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { SeededRandom } from '../support/soak';
import { CONTROL_ENVIRONMENT, ONE_BY_ONE, testReplicas, testTriton, type TestTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'golden-test', prefix: 'models' };
const repository = join(scratch.directory, 'repository');
let endpoint: string;
let store: S3Store;
let one: TestTriton;
/** The second replica. Its load requests show whether a rollout got that far. */
let two: FakeTriton;

beforeAll(async () => {
  endpoint = (await testS3(scratch)).endpoint;
  store = await openBucket(scratch, endpoint, LOCATION.bucket);
  await ensurePlaceholder(store, LOCATION);
  one = await testTriton(scratch, tritonRepositoryUrl(LOCATION, endpoint), { extraArguments: [ONE_BY_ONE] });
  two = await fakeTriton(scratch, store);
});

const publishOn = (urls: readonly string[], options: Partial<PublishOptions> = {}) =>
  publisher(store, LOCATION, repository, () => urls).publish(options);
const head = async (): Promise<Release | undefined> => (await readHead(store, LOCATION))?.release;
const options = () => publisher(store, LOCATION, repository, () => [one.httpUrl]).options();
const flags = () => ['--bucket', 's3://golden-test/models', '--endpoint-url', endpoint, '--triton', one.httpUrl];
const environment = { ...S3_ENVIRONMENT, ...CONTROL_ENVIRONMENT };

/** Replaces the content of the folder with these files. */
function write(files: Record<string, string>): void {
  rmSync(repository, { recursive: true, force: true });
  writeRepository(repository, files);
}

const golden = (inputs: readonly unknown[], outputs: readonly unknown[], more: object = {}): string =>
  JSON.stringify({ inputs: [{ name: 'x', data: inputs }], outputs: [{ name: 'y', data: outputs }], ...more });

/** Publishes the folder to the second replica, without golden requests, because the fake server cannot answer them. */
async function settleSecond(): Promise<void> {
  await publishOn([two.url], { noAsk: true });
  two.loads.splice(0);
}

/** Publishes only to the real server. @returns the results of golden requests that were reported */
async function publishReported(more: Partial<PublishOptions> = {}): Promise<string[]> {
  const said: string[] = [];
  await publishOn([one.httpUrl], { ...more, onAsked: (_, model, result) => said.push(`${model} ${result}`) });
  return said;
}

/** Two of the four answers, one for each version, are to the request with an empty tensor. */
const ADDS_ANSWERED = 'adds answered 4 golden requests (2 without values: the expected outputs have no elements)';

test('publish, status, rollback and promote send the golden requests of a release', async () => {
  write({
    ...addingModel('adds', { 1: 10, 2: 20 }),
    'adds/golden/1/ten.json': golden([1], [11]),
    'adds/golden/2/twenty.json': golden([1], [21]),
    'adds/golden/any.json': golden([], []),
    ...addingEnsemble('through', 'adds'),
    'through/golden/a.json': golden([1, 2], [21, 22]),
  });
  expect(await publishReported({ message: 'two versions' })).toEqual([
    ADDS_ANSWERED,
    'through answered 1 golden request',
  ]);
  const release = await head();
  expect(release).toMatchObject({
    message: 'two versions',
    models: { adds: { asked: 'golden' }, through: { asked: 'golden' } },
  });
  const { sha256 = '', bytes } = release?.models['adds']?.golden ?? {};
  expect((await store.get(goldenKey(LOCATION, sha256)))?.body.byteLength).toBe(bytes);
  expect((await store.list('models/')).filter(({ key }) => key.includes('golden'))).toEqual([]);

  const asked = await runCommandLine('status', [...flags(), '--ask'], environment);
  expect(asked).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/adds +ok +answered 4 golden requests/) as string,
  });

  // A change of only golden requests makes a release and sends the requests, but loads no model.
  writeRepository(repository, { 'adds/golden/2/twenty.json': golden([2], [22]) });
  const loaded: string[] = [];
  expect(await publishReported({ onReady: (_, model) => loaded.push(model) })).toEqual([ADDS_ANSWERED]);
  expect(loaded).toEqual([]);
  expect((await listReleases(store, LOCATION, 1))[0]).toMatchObject({
    changes: ['adds: golden requests'],
    asked: { adds: 'golden' },
  });
  expect(await publishReported()).toEqual([]);

  const said: string[] = [];
  await rollBack(undefined, { ...options(), onAsked: (_, model, result) => said.push(`${model} ${result}`) });
  expect(said).toEqual([ADDS_ANSWERED]);
  expect((await head())?.models['adds']?.golden?.sha256).toBe(sha256);

  // Promote to a separate bucket with a separate server.
  const other = await openBucket(scratch, endpoint, 'golden-promoted');
  const to = { bucket: 'golden-promoted', prefix: 'models' };
  const promoted = await promote({
    ...options(),
    store: other,
    location: to,
    replicas: undefined,
    from: { store, location: LOCATION },
  });
  expect(promoted.release).toMatchObject({ message: 'two versions' });
  expect((await other.get(goldenKey(to, sha256)))?.body.byteLength).toBe(bytes);
});

test('publish keeps the release if an answer is wrong, also if only golden requests changed', async () => {
  const before = await head();
  writeRepository(repository, { 'adds/golden/2/twenty.json': golden([2], [23]) });
  const wrong = await runCommandLine('sync-models', ['--repo', repository, ...flags()], environment);
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toContain(
    `error: ${one.httpUrl}: adds version 2 gives a wrong answer to golden request 2/twenty: y[0] is 22, expected 23; ` +
      'largest difference 1, 1 of 1 values differ\n  -> fix adds and publish it again',
  );
  expect(await head()).toEqual(before);
  // --no-ask publishes the wrong golden request, and status --ask reports the difference.
  const unasked = await runCommandLine('sync-models', ['--repo', repository, ...flags(), '--no-ask'], environment);
  expect(unasked).toMatchObject({ code: 0 });
  expect((await listReleases(store, LOCATION, 1))[0]).toMatchObject({
    notAsked: true,
    asked: { adds: 'no', through: 'golden' },
  });
  const asked = await runCommandLine('status', [...flags(), '--ask', '--json'], environment);
  expect(asked.code).toBe(1);
  expect(JSON.parse(asked.stdout)).toMatchObject({
    asReleased: false,
    replicas: [
      {
        answers: [
          {
            model: 'adds',
            ok: false,
            mismatch: { tensor: 'y', position: [0], expected: '23', received: '22', largestDifference: 1 },
          },
          { model: 'through', ok: true },
        ],
      },
    ],
  });
  // Every request is measured, also those after a wrong answer.
  const measured = await runCommandLine('status', [...flags(), '--differences'], environment);
  expect(measured.code).toBe(1);
  expect(measured.stdout).toMatch(/largest difference +largest value +allowed/);
  const rows = [...measured.stdout.matchAll(/^\S+ +adds +(\S+) +y +(\S+) +(\S+) +\S.*$/gm)].map((row) => row.slice(1));
  expect(rows).toHaveLength(4);
  expect(rows).toContainEqual(['2/twenty', '1.00', '23.0']);
  expect(rows.filter(([, largest]) => largest === '0.00')).toHaveLength(3);
  expect(await runCommandLine('status', flags(), environment)).toMatchObject({ code: 0 });
});

test('publish sends the golden requests of an ensemble when one of its steps changes', async () => {
  await settleSecond();
  write({
    ...addingModel('adds', { 3: 30 }),
    ...addingEnsemble('through', 'adds'),
    'through/golden/a.json': golden([1, 2], [21, 22]),
  });
  await expect(publishOn([one.httpUrl, two.url], { models: ['adds'] })).rejects.toThrow(
    /through version 1 gives a wrong answer to golden request a: y\[0\] is 31, expected 21/,
  );
  expect((await head())?.models['adds']?.served).toEqual([1, 2]);
  expect(two.loads).toEqual([]);
  expect(isAsReleased(await repositoryStatus(store, LOCATION, testReplicas([one.httpUrl])))).toBe(true);
});

test('rollout stops at a golden object whose bytes differ from the released ones', async () => {
  write({ ...addingModel('adds', { 1: 10 }), 'adds/golden/a.json': golden([1], [11]) });
  await publishOn([one.httpUrl], { prune: true });
  const { sha256 = '' } = (await head())?.models['adds']?.golden ?? {};
  write({ ...addingModel('adds', { 4: 10 }) });
  await publishOn([one.httpUrl], { models: ['adds'] });
  await store.putBytes(goldenKey(LOCATION, sha256), Buffer.from('{"format":1,"requests":[]}'));
  await expect(rollBack(undefined, options())).rejects.toThrow(/has SHA-256 [0-9a-f]{64}, but the release records/);
  expect((await head())?.models['adds']?.served).toEqual([4]);
});

test('publish accepts an ensemble whose first step requires sizes other than 1', async () => {
  const files = { ...addingModel('pairs', { 1: 10 }), ...addingEnsemble('of_pairs', 'pairs') };
  files['pairs/config.pbtxt'] = (files['pairs/config.pbtxt'] ?? '').replaceAll('dims: -1', 'dims: 2');
  write(files);
  expect(await publishReported({ prune: true })).toEqual([
    'pairs answered zeros',
    expect.stringMatching(/^of_pairs the zero request failed: .*unexpected shape for input 'x'/),
  ]);
});

/** A model without golden requests. `answer` is the expression of its output, `prelude` is code before the program. */
function zeroModel(version: number, answer: string, prelude = ''): Record<string, string> {
  return {
    'z/config.pbtxt': [
      'backend: "python"',
      'max_batch_size: 0',
      'input { name: "x" data_type: TYPE_FP32 dims: 2 }',
      'output { name: "y" data_type: TYPE_FP32 dims: 2 }',
      `version_policy { specific { versions: [${version}] } }`,
      'instance_group { count: 1 kind: KIND_CPU }',
    ].join('\n'),
    [`z/${version}/model.py`]: prelude + answeringProgram('x', 'y', answer),
  };
}
const REFUSES = 'np.array([1 / int(x.sum())] * 2, np.float32)';

test('publish sends zeros to a model without golden requests and accepts an answer, or a failure that is not new', async () => {
  write(zeroModel(1, REFUSES));
  expect(await publishReported()).toEqual([
    expect.stringMatching(
      /^z the zero request failed: .*division by zero[\s\S]*-> if zeros are not valid input, add golden requests with valid input: z\/golden\/CASE.json \(for this version only: z\/golden\/1\/CASE.json\)$/,
    ),
  ]);
  expect((await head())?.models['z']?.asked).toBe('zeros failed');
  write(zeroModel(2, 'x'));
  expect(await publishReported()).toEqual(['z answered zeros']);
  expect((await head())?.models['z']?.asked).toBe('zeros');
});

test.each([
  [
    'fails on zeros, which the release before answered',
    REFUSES,
    /z version 3 failed on the zero request: .*division by zero/,
  ],
  [
    'has another shape than the configuration says',
    'x[:1]',
    /z version 3 contradicts its configuration: output y has shape \[1\], but the configuration has \[2\]/,
  ],
  [
    'has another data type',
    'x.astype(np.float64)',
    /z version 3 contradicts its configuration: output y has data type FP64/,
  ],
  ['ends its process', '__import__("os")._exit(1)', /z version 3 failed on the zero request: /],
])('publish rejects a model that %s before it reaches the second replica', async (_, answer, message) => {
  await settleSecond();
  const before = await head();
  write(zeroModel(3, answer));
  await expect(publishOn([one.httpUrl, two.url])).rejects.toThrow(message);
  expect(two.loads).toEqual([]);
  expect(await head()).toEqual(before);
  const [answered] = (
    await one.client.infer('z', [{ name: 'x', datatype: 'FP32', shape: [2], data: Float32Array.of(1, 2) }])
  ).outputs;
  expect(answered?.data).toEqual(Float32Array.of(1, 2));
  write(zeroModel(2, 'x'));
});

test.each([
  [
    'a softmax over the batch',
    'np.exp(x) / np.exp(x).sum()',
    [[0.26894143, 0.7310586]],
    'beside the same elements in reverse order: y\\[0, 0\\] is',
  ],
  [
    'a row number',
    'x + np.arange(len(x), dtype=np.float32)[:, None]',
    [[1, 2]],
    'beside the same elements in reverse order: y\\[0, 0\\] is 2, expected 1',
  ],
])('publish rejects a model that mixes rows: %s', async (_, answer, outputs, message) => {
  await settleSecond();
  const before = await head();
  const files = zeroModel(3, answer);
  files['z/config.pbtxt'] = (files['z/config.pbtxt'] ?? '').replace('max_batch_size: 0', 'max_batch_size: 4');
  write({ ...files, 'z/golden/one.json': golden([[1, 2]], outputs) });
  await expect(publishOn([one.httpUrl, two.url])).rejects.toThrow(
    new RegExp(`z version 3 mixes the rows of a batch: a row of golden request one gets another answer ${message}`),
  );
  expect(two.loads).toEqual([]);
  expect(await head()).toEqual(before);
  write(zeroModel(2, 'x'));
});

test('publish notes that a program answers otherwise when it is asked again', async () => {
  write(zeroModel(4, 'x + np.random.rand(2).astype(np.float32)'));
  expect(await publishReported()).toEqual([
    expect.stringMatching(
      /^z answered zeros, but gives another answer when it is asked again: y\[0\] is 0\.\d+, expected/,
    ),
  ]);
});

describe('mutants and re-traces', () => {
  const random = new SeededRandom(1);

  beforeAll(async () => {
    write(Object.assign({}, ...GOLDEN_MODELS.map((model) => goldenModel(model, 1))) as Record<string, string>);
    await publishOn([one.httpUrl]);
    await settleSecond();
  });

  test.each(Object.entries(MUTANTS))('publish rejects %s before it reaches the second replica', async (_, mutant) => {
    const model = GOLDEN_MODELS[random.integer(0, GOLDEN_MODELS.length - 1)] as GoldenModel;
    const { weightsFrom, ...deviation } = mutant(model, random);
    write(goldenModel(model, 2, deviation, weightsFrom));
    await expect(publishOn([one.httpUrl, two.url], { models: [model.name] })).rejects.toThrow(
      /version 2 gives a wrong answer to golden request 2\/traced-0: y/,
    );
    expect(two.loads).toEqual([]);
    expect((await head())?.models[model.name]?.served).toEqual([1]);
  });

  test('publish accepts a re-trace with equal answers', async () => {
    const model = GOLDEN_MODELS[0] as GoldenModel;
    write(goldenModel(model, 3, harmless(random)));
    await publishOn([one.httpUrl], { models: [model.name] });
    expect((await head())?.models[model.name]).toMatchObject({ served: [3], asked: 'golden' });
  });
});

test('publish accepts an ensemble and its step that change their tensors together under the same versions', async () => {
  const files = { ...addingModel('adds', { 1: 10 }), ...addingEnsemble('through', 'adds') };
  write(files);
  await publishOn([one.httpUrl], { prune: true });
  // Triton unloads the ensemble when it loads a step that does not fit the ensemble.
  write(Object.fromEntries(Object.entries(files).map(([path, text]) => [path, text.replaceAll('FP32', 'FP64')])));
  expect(await publishReported()).toEqual(['adds answered zeros', 'through answered zeros']);
});
