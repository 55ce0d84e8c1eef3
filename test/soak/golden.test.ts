import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Releases } from '../../src/publish/releases';
import type { S3Store } from '../../src/s3/store';
import { podPublisher, TestPod } from '../support/pods';
import { writeRepository } from '../support/repository';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { IS_LONG, report, SeededRandom, SOAK_SEED } from '../support/soak';

/** How the program of a model differs from the program that gave the golden answers. */
interface Deviation {
  /** Index of a weight whose sign is inverted. */
  flip?: number;
  /** Swaps the first two channels. */
  swap?: boolean;
  mean?: number;
  /** Number of extra columns in the answer. */
  extra?: number;
  dtype?: 'float64' | 'float16';
  nan?: boolean;
  /** Added to each answer, within the tolerance. */
  noise?: number;
  /** Changes the source but not the answers. */
  comment?: string;
}

/** A small network in NumPy: rows of `channels` numbers, normalised, times a matrix. */
interface GoldenModel {
  name: string;
  channels: number;
  outputs: number;
  batch: number;
  /** Whether tanh is applied as an activation. */
  activation: boolean;
}

const GOLDEN_MODELS: readonly GoldenModel[] = [
  { name: 'linear', channels: 4, outputs: 3, batch: 0, activation: false },
  { name: 'activated', channels: 6, outputs: 4, batch: 0, activation: true },
  { name: 'batched', channels: 3, outputs: 5, batch: 4, activation: false },
  { name: 'batched_activated', channels: 5, outputs: 2, batch: 8, activation: true },
  { name: 'wide', channels: 16, outputs: 8, batch: 2, activation: true },
];

const MEAN = 0.5;
const weight = (version: number, i: number): number => Math.round(Math.sin(1 + i * 7 + version * 13) * 64) / 64 || 0.5;

function getWeights({ channels, outputs }: GoldenModel, version: number, flip?: number): number[][] {
  return Array.from({ length: channels }, (_, row) =>
    Array.from({ length: outputs }, (_, column) => {
      const i = row * outputs + column;
      return i === flip ? -weight(version, i) : weight(version, i);
    }),
  );
}

/** Rows of the request: arbitrary numbers, all different. */
const getRows = ({ channels, batch }: GoldenModel): number[][] =>
  Array.from({ length: batch === 0 ? 1 : 2 }, (_, row) =>
    Array.from({ length: channels }, (_, i) => Math.round(Math.cos(3 + row * 5 + i * 2) * 256) / 256),
  );

function getAnswers(model: GoldenModel, version: number): number[][] {
  const weights = getWeights(model, version);
  return getRows(model).map((row) =>
    Array.from({ length: model.outputs }, (_, column) => {
      const sum = row.reduce((total, x, i) => total + (x - MEAN) * (weights[i]?.[column] ?? 0), 0);
      return model.activation ? Math.tanh(sum) : sum;
    }),
  );
}

/** Files of the model: config.pbtxt, model.py and golden requests of this version. */
function goldenModel(
  model: GoldenModel,
  version: number,
  deviation: Deviation = {},
  weightsFrom = version,
): Record<string, string> {
  const { name, channels, outputs, batch, activation } = model;
  const {
    flip,
    swap = false,
    mean = MEAN,
    extra = 0,
    dtype = 'float32',
    nan = false,
    noise = 0,
    comment = '',
  } = deviation;
  const order = Array.from({ length: channels }, (_, i) => (swap && i < 2 ? 1 - i : i));
  return {
    [`${name}/config.pbtxt`]: [
      'backend: "python"',
      `max_batch_size: ${batch}`,
      `input { name: "x" data_type: TYPE_FP32 dims: [${batch === 0 ? '-1, ' : ''}${channels}] }`,
      `output { name: "y" data_type: TYPE_FP32 dims: [${batch === 0 ? '-1, ' : ''}${outputs}] }`,
      `version_policy { specific { versions: [${version}] } }`,
      'instance_group { count: 1 kind: KIND_CPU }',
      '',
    ].join('\n'),
    [`${name}/${version}/model.py`]: `# ${comment}
import numpy as np
import triton_python_backend_utils as pb_utils

W = np.array(${JSON.stringify(getWeights(model, weightsFrom, flip))}, dtype=np.float32)


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()[:, ${JSON.stringify(order)}]
            y = (x - np.float32(${mean})) @ W
            ${activation ? 'y = np.tanh(y)' : ''}
            y = np.concatenate([y, y[:, :${extra}]], axis=1) + np.float32(${noise})
            ${nan ? 'y[0, -1] = np.nan' : ''}
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", y.astype(np.${dtype}))]))
        return responses
`,
    [`${name}/golden/${version}/traced-0.json`]: JSON.stringify({
      inputs: [{ name: 'x', data: getRows(model) }],
      outputs: [{ name: 'y', data: getAnswers(model, version), tolerance: { absolute: 1e-4 } }],
    }),
  };
}

/** Faults that a release must not have; each applies to any model. */
const MUTANTS: Readonly<
  Record<string, (model: GoldenModel, random: SeededRandom) => Deviation & { weightsFrom?: number }>
> = {
  'a flipped weight': ({ channels, outputs }, random) => ({ flip: random.integer(0, channels * outputs - 1) }),
  'swapped channels': () => ({ swap: true }),
  'another normalisation': (_, random) => ({ mean: 0.5 + random.integer(1, 9) / 100 }),
  'the weights of another version': (_, random) => ({ weightsFrom: random.integer(100, 200) }),
  'a column too many': () => ({ extra: 1 }),
  'another data type': (_, random) => ({ dtype: random.chance(0.5) ? 'float64' : 'float16' }),
  'NaN in a row': () => ({ nan: true }),
};

/** Makes a different artifact with the same answers within the tolerance, as a new trace does. */
const harmless = (random: SeededRandom): Deviation => ({
  comment: `traced again, ${random.integer(0, 1e9)}`,
  noise: (random.fraction() - 0.5) * 1e-4,
});

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'golden', prefix: 'models' };
const random = new SeededRandom(SOAK_SEED);
const folder = join(scratch.directory, 'repository');
const kinds = Object.entries(MUTANTS);
/** The short form has each kind of mutant, and each model, once. */
const MUTANT_COUNT = IS_LONG ? 100 : kinds.length;
const RETRACES = IS_LONG ? 100 : GOLDEN_MODELS.length;
const PATIENCE_MS = 3_600_000;
let store: S3Store;
let pods: TestPod[];

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, LOCATION.bucket);
  pods = await Promise.all(['one', 'two'].map((name) => TestPod.start(scratch, name, endpoint, LOCATION)));
  await attempt(...GOLDEN_MODELS.map((model) => goldenModel(model, 1)));
}, PATIENCE_MS);

/** Publishes a folder with only these files. */
async function attempt(...files: Record<string, string>[]): Promise<unknown> {
  rmSync(folder, { recursive: true, force: true });
  writeRepository(folder, Object.assign({}, ...files) as Record<string, string>);
  return podPublisher(store, LOCATION, folder, pods).publish();
}

const served = async ({ name }: GoldenModel): Promise<number[] | undefined> =>
  (await Releases.read({ store, location: LOCATION })).current?.models[name]?.served;

test(
  'publish rejects every mutant of a model on the first replica and keeps the release',
  async () => {
    const counts: Record<string, number> = {};
    pods[1]?.events();
    for (let i = 0; i < MUTANT_COUNT; i += 1) {
      const model = GOLDEN_MODELS[i % GOLDEN_MODELS.length] as GoldenModel;
      const [kind, mutant] = kinds[i % kinds.length] as (typeof kinds)[number];
      const { weightsFrom, ...deviation } = mutant(model, random);
      await expect(attempt(goldenModel(model, 2, deviation, weightsFrom))).rejects.toThrow(
        /^one does not serve the release: .* version 2 gives a wrong answer to golden request 2\/traced-0: y/,
      );
      expect(pods[1]?.loads()).toEqual([]);
      expect(await served(model)).toEqual([1]);
      counts[kind] = (counts[kind] ?? 0) + 1;
    }
    report('refused mutants', counts);
  },
  PATIENCE_MS,
);

test(
  'publish accepts every re-trace with equal answers',
  async () => {
    let released = 0;
    for (let version = 3; released < RETRACES; version += 1) {
      await attempt(...GOLDEN_MODELS.map((model) => goldenModel(model, version, harmless(random))));
      for (const model of GOLDEN_MODELS) expect(await served(model)).toEqual([version]);
      released += GOLDEN_MODELS.length;
    }
    report('re-traces', { released });
  },
  PATIENCE_MS,
);
