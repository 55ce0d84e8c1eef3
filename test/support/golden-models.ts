import type { SeededRandom } from './soak';

/** How the program of a model differs from the program that gave the golden answers. */
export interface Deviation {
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
export interface GoldenModel {
  name: string;
  channels: number;
  outputs: number;
  batch: number;
  /** Whether tanh is applied as an activation. */
  activation: boolean;
  /** Labels, if answers are compared by the highest class. */
  labels?: string[];
}

export const GOLDEN_MODELS: readonly GoldenModel[] = [
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
export function goldenModel(
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
export const MUTANTS: Readonly<
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
export const harmless = (random: SeededRandom): Deviation => ({
  comment: `traced again, ${random.integer(0, 1e9)}`,
  noise: (random.fraction() - 0.5) * 1e-4,
});
