import type { Warmup } from '../model-config';
import { didYouMean } from '../../core/nearest';
import { describe, fieldPath } from '../../core/problems';
import { checkSizes, type CheckedModel, type ModelRule } from './rule';

/** The warm-up requests of a model, each with its path. */
const samples = ({ config }: CheckedModel): [string, Warmup][] =>
  (config.model_warmup ?? []).map((sample, index) => [`model_warmup[${index}]`, sample]);

/** Triton skips a request of batch size 0, which is the default. Without a batch axis, size 1 is one request. */
const batchSizeIsGiven: ModelRule = (model) => {
  const largest = Math.max(1, model.config.max_batch_size ?? 0);
  for (const [field, { batch_size: size = 0 }] of samples(model)) {
    if (size === 0) {
      model.problems.add(`${field}.batch_size`, 'is 0, so Triton skips this warm-up', { hint: 'set batch_size: 1' });
    } else if (size > largest) {
      const limit = model.config.max_batch_size ?? 0;
      model.problems.add(`${field}.batch_size`, `is more than max_batch_size ${limit} allows, got ${size}`, {
        allowed: `1 to ${largest}`,
      });
    }
  }
};

/** The model is not READY until the last repetition is answered. */
const MOST_REPETITIONS = 100_000;

const repetitionsEnd: ModelRule = (model) => {
  for (const [field, { count = 0 }] of samples(model)) {
    if (count <= MOST_REPETITIONS) continue;
    model.problems.add(`${field}.count`, `repeats the warm-up too often, got ${count}`, {
      allowed: `0 to ${MOST_REPETITIONS}`,
    });
  }
};

/** Names that a warm-up may give values for: inputs, and the inputs that Triton adds for sequences. */
function inputNames({ config }: CheckedModel): string[] {
  const { control_input = [], state = [] } = config.sequence_batching ?? {};
  return [...(config.input ?? []), ...control_input, ...state.map((one) => ({ name: one.input_name }))]
    .map(({ name }) => name)
    .filter((name) => name !== undefined);
}

const inputsAreTheModels: ModelRule = (model) => {
  // The configuration does not list the inputs that the backend completes.
  if (model.config.input === undefined) return;
  const names = inputNames(model);
  for (const [field, { inputs = {} }] of samples(model)) {
    for (const name of Object.keys(inputs)) {
      if (names.includes(name)) continue;
      model.problems.add(fieldPath(`${field}.inputs`, name), 'is not an input of the model', {
        allowed: names.join(', '),
        hint: didYouMean(name, names),
      });
    }
    for (const { name, optional } of model.config.input) {
      if (name === undefined || optional || Object.hasOwn(inputs, name)) continue;
      model.problems.add(`${field}.inputs`, `has no value for the input ${describe(name)}`);
    }
  }
};

const inputsHaveTypeAndShape: ModelRule = (model) => {
  for (const [field, { inputs = {} }] of samples(model)) {
    for (const [name, input] of Object.entries(inputs)) {
      const at = fieldPath(`${field}.inputs`, name);
      const tensor = (model.config.input ?? []).find((one) => one.name === name);
      if (tensor !== undefined && tensor.data_type !== input.data_type) {
        model.problems.add(
          `${at}.data_type`,
          `differs from the data type of the input, got ${input.data_type ?? 'nothing'}`,
          {
            allowed: tensor.data_type ?? 'the type of the input, which is missing',
          },
        );
      }
      const dims = input.dims ?? [];
      checkSizes(model.problems, `${at}.dims`, dims, { of: 'input', dims: tensor?.dims });
      if ([input.zero_data, input.random_data, input.input_data_file].every((one) => one === undefined)) {
        model.problems.add(at, 'has no values', {
          allowed: 'one of zero_data: true, random_data: true, input_data_file',
        });
      }
    }
  }
};

/** Rules for the requests that Triton sends before it calls a model READY. */
export const warmupRules: readonly ModelRule[] = [
  batchSizeIsGiven,
  repetitionsEnd,
  inputsAreTheModels,
  inputsHaveTypeAndShape,
];
