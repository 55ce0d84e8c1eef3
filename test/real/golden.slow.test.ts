import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { promote } from '../../src/publish/promote';
import type { PublishOptions } from '../../src/publish/publish';
import { Releases } from '../../src/publish/releases';
import { listReleases } from '../../src/publish/list-releases';
import { rollBack } from '../../src/publish/rollback';
import type { Manifest } from '../../src/release/manifest';
import type { S3Store } from '../../src/s3/store';
import { podPublisher, TestPod } from '../support/pods';
import { addingEnsemble, addingModel, answeringProgram, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

/** Two real servers, whose agents send models golden requests, or zeros. */

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'golden-test', prefix: 'models' };
const repository = join(scratch.directory, 'repository');
let endpoint: string;
let store: S3Store;
let one: TestPod;
let two: TestPod;

beforeAll(async () => {
  ({ endpoint } = await testS3(scratch));
  store = await openBucket(scratch, endpoint, LOCATION.bucket);
  const start = (name: string): Promise<TestPod> => TestPod.start(scratch, name, endpoint, LOCATION);
  [one, two] = await Promise.all([start('one'), start('two')]);
}, 600_000);

const bucket = () => podPublisher(store, LOCATION, repository, [one, two]);
const head = async (): Promise<Manifest | undefined> => (await Releases.read({ store, location: LOCATION })).current;
const listed = async () => (await listReleases({ store, location: LOCATION }, 1))[0];
const command = (name: string, ...args: string[]): Promise<Finished> =>
  runCommandLine(
    name,
    ['--bucket', 's3://golden-test/models', '--endpoint-url', endpoint, ...one.flags, ...two.flags, ...args],
    S3_ENVIRONMENT,
  );

/** Replaces the content of the folder with these files. */
function write(files: Record<string, string>): void {
  rmSync(repository, { recursive: true, force: true });
  writeRepository(repository, files);
}

const golden = (inputs: readonly unknown[], outputs: readonly unknown[], more: object = {}): string =>
  JSON.stringify({ inputs: [{ name: 'x', data: inputs }], outputs: [{ name: 'y', data: outputs }], ...more });

/** How models answered on the first replica while `work` ran. */
async function answered(work: () => Promise<unknown>): Promise<string[]> {
  one.events();
  await work();
  return one
    .events()
    .flatMap(({ event, model, result, hint }) =>
      event === 'asked' ? [[model, result, hint].filter(Boolean).join(' ')] : [],
    );
}
const publish = (options: Partial<PublishOptions> = {}): Promise<string[]> => answered(() => bucket().publish(options));

/** Expects that a publish fails, and that it changes nothing on the second replica. */
async function expectRefused(message: RegExp, options: Partial<PublishOptions> = {}): Promise<void> {
  const before = await head();
  two.events();
  await expect(bucket().publish(options)).rejects.toThrow(message);
  expect(two.loads()).toEqual([]);
  expect(await head()).toEqual(before);
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
  expect(await publish({ message: 'two versions' })).toEqual([ADDS_ANSWERED, 'through answered 1 golden request']);
  const release = await head();
  expect(release?.message).toBe('two versions');
  expect((await one.getState()).models.map(({ name, asked }) => [name, asked])).toEqual([
    ['adds', 'golden'],
    ['through', 'golden'],
  ]);
  const stored = release?.models['adds']?.golden;
  expect(stored?.key).toMatch(/^models\.releases\/files\//);
  expect((await store.list('models/')).filter(({ key }) => key.includes('golden'))).toEqual([]);
  expect(await command('status', '--ask')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/adds +ok +answered 4 golden requests/) as string,
  });

  // A change of only golden requests makes a release and sends the requests, but loads no model.
  writeRepository(repository, { 'adds/golden/2/twenty.json': golden([2], [22]) });
  two.events();
  expect(await publish()).toContain(ADDS_ANSWERED);
  expect(two.loads()).toEqual([]);
  expect((await listed())?.changes).toEqual(['adds: golden requests']);
  expect(await publish()).toEqual([]);

  expect(await answered(() => rollBack(undefined, bucket().options()))).toContain(ADDS_ANSWERED);
  expect((await head())?.models['adds']?.golden).toEqual(stored);

  const other = await openBucket(scratch, endpoint, 'golden-promoted');
  const to = { bucket: 'golden-promoted', prefix: 'models' };
  const promoted = await promote({
    ...{ ...bucket().options(), store: other, location: to, agents: undefined, untried: true },
    from: { store, location: LOCATION },
  });
  expect(promoted.release).toMatchObject({ message: 'two versions' });
  const { key = '', bytes, checksum } = promoted.release?.models['adds']?.golden ?? {};
  expect(checksum).toBe(stored?.checksum);
  expect((await other.get(key))?.body.byteLength).toBe(bytes);
});

test('publish keeps the release if an answer is wrong, also if only golden requests changed', async () => {
  const before = await head();
  writeRepository(repository, { 'adds/golden/2/twenty.json': golden([2], [23]) });
  const wrong = await command('sync-models', '--repo', repository);
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toContain(
    `error: ${one.replica.tritonUrl} does not serve the release: adds version 2 gives a wrong answer to golden request 2/twenty: ` +
      'y[0] is 22, expected 23; largest difference 1, 1 of 1 values differ\n  -> fix adds and publish it again',
  );
  expect(await head()).toEqual(before);
  // --no-ask publishes the wrong golden request, and status --ask reports the difference.
  expect(await command('sync-models', '--repo', repository, '--no-ask')).toMatchObject({ code: 0 });
  expect(await listed()).toMatchObject({ notAsked: true });
  const asked = await command('status', '--ask', '--json');
  expect(asked.code).toBe(1);
  const difference = { tensor: 'y', position: [0], expected: '23', received: '22', largestDifference: 1 };
  const answers = [
    { model: 'adds', ok: false, mismatch: difference },
    { model: 'through', ok: true },
  ];
  expect(JSON.parse(asked.stdout)).toMatchObject({ asReleased: false, replicas: [{ answers }, { answers }] });
  // Every request is measured, also those after a wrong answer.
  const measured = await command('status', '--differences');
  expect(measured.code).toBe(1);
  expect(measured.stdout).toMatch(/largest difference +largest value +allowed/);
  const rows = [...measured.stdout.matchAll(/^\S+ +adds +(\S+) +y +(\S+) +(\S+) +\S.*$/gm)].map((row) => row.slice(1));
  expect(rows).toHaveLength(2 * 4);
  expect(rows).toContainEqual(['2/twenty', '1.00', '23.0']);
  expect(rows.filter(([, largest]) => largest === '0.00')).toHaveLength(2 * 3);
  expect(await command('status')).toMatchObject({ code: 0 });
});

test('publish sends the golden requests of an ensemble when one of its steps changes', async () => {
  write({
    ...addingModel('adds', { 3: 30 }),
    ...addingEnsemble('through', 'adds'),
    'through/golden/a.json': golden([1, 2], [21, 22]),
  });
  await expectRefused(/through version 1 gives a wrong answer to golden request a: y\[0\] is 31, expected 21/, {
    models: ['adds'],
  });
  expect(await command('status')).toMatchObject({ code: 0 });
});

test('publish accepts an ensemble and its step that change their tensors together under the same versions', async () => {
  const files = { ...addingModel('adds', { 1: 10 }), ...addingEnsemble('through', 'adds') };
  write(files);
  await publish({ prune: true });
  write(Object.fromEntries(Object.entries(files).map(([path, text]) => [path, text.replaceAll('FP32', 'FP64')])));
  expect(await publish()).toEqual(['adds answered zeros', 'through answered zeros']);
});

test('publish accepts an ensemble whose first step requires sizes other than 1', async () => {
  const files = { ...addingModel('pairs', { 1: 10 }), ...addingEnsemble('of_pairs', 'pairs') };
  files['pairs/config.pbtxt'] = (files['pairs/config.pbtxt'] ?? '').replaceAll('dims: -1', 'dims: 2');
  write(files);
  expect(await publish({ prune: true })).toEqual([
    'pairs answered zeros',
    expect.stringMatching(/^of_pairs the zero request failed: .*unexpected shape for input 'x'/),
  ]);
});

/** A model without golden requests. `answer` is the expression of its output. */
function zeroModel(version: number, answer: string): Record<string, string> {
  return {
    'z/config.pbtxt': [
      'backend: "python"',
      'max_batch_size: 0',
      'input { name: "x" data_type: TYPE_FP32 dims: 2 }',
      'output { name: "y" data_type: TYPE_FP32 dims: 2 }',
      `version_policy { specific { versions: [${version}] } }`,
      'instance_group { count: 1 kind: KIND_CPU }',
    ].join('\n'),
    [`z/${version}/model.py`]: answeringProgram('x', 'y', answer),
  };
}
const REFUSES = 'np.array([1 / int(x.sum())] * 2, np.float32)';

test('publish sends zeros to a model without golden requests and accepts an answer, or a failure that is not new', async () => {
  write(zeroModel(1, REFUSES));
  expect(await publish()).toEqual([
    expect.stringMatching(
      /^z the zero request failed: .*division by zero[\s\S]*if zeros are not valid input, add golden requests with valid input: z\/golden\/CASE.json \(for this version only: z\/golden\/1\/CASE.json\)$/,
    ),
  ]);
  write(zeroModel(2, 'x'));
  expect(await publish()).toEqual(['z answered zeros']);
});

const FAILED = 'z version 3 failed on the zero request: ';
const CONTRADICTS = 'z version 3 contradicts its configuration: output y has';
const MIXES =
  'z version 3 mixes the rows of a batch: a row of golden request one gets another answer beside the same elements in reverse order';

test.each<{ what: string; answer: string; message: string; outputs?: number[][] }>([
  {
    what: 'fails on zeros, which the release before answered',
    answer: REFUSES,
    message: `${FAILED}.*division by zero`,
  },
  {
    what: 'has another shape than the configuration says',
    answer: 'x[:1]',
    message: `${CONTRADICTS} shape \\[1\\], but the configuration has \\[2\\]`,
  },
  { what: 'ends its process', answer: '__import__("os")._exit(1)', message: FAILED },
  {
    what: 'has a softmax over the batch',
    answer: 'np.exp(x) / np.exp(x).sum()',
    message: `${MIXES}: y\\[0, 0\\] is`,
    outputs: [[0.26894143, 0.7310586]],
  },
])('publish rejects a model that $what before it reaches the second replica', async ({ answer, message, outputs }) => {
  const files = zeroModel(3, answer);
  if (outputs !== undefined) {
    files['z/config.pbtxt'] = (files['z/config.pbtxt'] ?? '').replace('max_batch_size: 0', 'max_batch_size: 4');
    files['z/golden/one.json'] = golden([[1, 2]], outputs);
  }
  write(files);
  await expectRefused(new RegExp(message));
  const x = { name: 'x', datatype: 'FP32', shape: [2], data: Float32Array.of(1, 2) } as const;
  expect((await one.client.infer('z', [x])).outputs[0]?.data).toEqual(Float32Array.of(1, 2));
});
