import { MODEL_DATA_TYPES, type TensorConfig } from '../model-config';
import { describe } from '../../core/problems';
import type { CheckedModel, ModelRule } from './rule';

/** An input or output with its path, `input[0]`. */
type TensorField = readonly [field: string, tensor: TensorConfig, side: 'input' | 'output'];

const inputs = ({ config }: CheckedModel): TensorField[] =>
  (config.input ?? []).map((tensor, index) => [`input[${index}]`, tensor, 'input']);
const outputs = ({ config }: CheckedModel): TensorField[] =>
  (config.output ?? []).map((tensor, index) => [`output[${index}]`, tensor, 'output']);
const tensors = (model: CheckedModel): TensorField[] => [...inputs(model), ...outputs(model)];

/** Tensors that the backend cannot read from the artifact must be in the configuration. */
const inputsAndOutputsAreGiven: ModelRule = (model) => {
  if (model.facts === undefined || model.facts.completesTensors) return;
  if (inputs(model).length === 0) {
    model.problems.add('input', `is missing; for ${model.facts.label}, the configuration must list the inputs`);
  }
  if (outputs(model).length === 0) {
    model.problems.add('output', `is missing; for ${model.facts.label}, the configuration must list the outputs`);
  }
};

const namesAreGiven: ModelRule = (model) => {
  for (const [field, tensor] of tensors(model)) {
    if (!tensor.name) model.problems.add(`${field}.name`, 'is missing');
  }
};

/** Requests address tensors by name. An input and an output may have the same name. */
const namesAreUnique: ModelRule = (model) => {
  for (const side of [inputs(model), outputs(model)]) {
    const seen = new Map<string, string>();
    for (const [field, { name }] of side) {
      if (!name) continue;
      const first = seen.get(name);
      if (first !== undefined)
        model.problems.add(`${field}.name`, `is also the name of ${first}, got ${describe(name)}`);
      else seen.set(name, field);
    }
  }
};

const dataTypesAreGiven: ModelRule = (model) => {
  for (const [field, { data_type: type }] of tensors(model)) {
    if (type !== undefined && type !== 'TYPE_INVALID') continue;
    model.problems.add(`${field}.data_type`, type === undefined ? 'is missing' : 'must not be TYPE_INVALID', {
      allowed: MODEL_DATA_TYPES.join(', '),
    });
  }
};

const dimsAreSizes: ModelRule = (model) => {
  for (const [field, { dims }] of tensors(model)) {
    if (dims === undefined) {
      model.problems.add(`${field}.dims`, 'is missing', {
        hint: 'write dims: [1] for a single number; omit the batch axis if max_batch_size is more than 0',
      });
    }
    wrongSizes(model, `${field}.dims`, dims ?? []);
  }
};

const isSize = (size: number): boolean => size >= 1 || size === -1;

function wrongSizes(model: CheckedModel, field: string, sizes: readonly number[]): void {
  sizes.forEach((size, index) => {
    if (isSize(size)) return;
    model.problems.add(`${field}[${index}]`, `is not a size, got ${size}`, {
      allowed: '1 or more, or -1 for any size',
    });
  });
}

/** `reshape` must keep the number of elements, also between two variable sizes (-1). */
const reshapeKeepsElements: ModelRule = (model) => {
  for (const [field, { dims = [], reshape }] of tensors(model)) {
    if (reshape === undefined) continue;
    const shape = reshape.shape ?? [];
    wrongSizes(model, `${field}.reshape.shape`, shape);
    if (shape.length === 0 && (model.config.max_batch_size ?? 0) === 0) {
      model.problems.add(`${field}.reshape.shape`, 'must not be empty if max_batch_size is 0');
    } else if ([...dims, ...shape].every(isSize) && runs(dims).join() !== runs(shape).join()) {
      model.problems.add(
        `${field}.reshape.shape`,
        `has a different number of elements than dims, got [${shape.join(', ')}]`,
        { allowed: `a shape with as many elements as [${dims.join(', ')}]` },
      );
    }
  }
};

/** Numbers of elements between the variable sizes: [2, 4, -1, 6] has runs of 8 and 6. */
function runs(dims: readonly number[]): number[] {
  const result = [1];
  for (const size of dims) {
    if (size === -1) result.push(1);
    else result.push((result.pop() ?? 1) * size);
  }
  return result;
}

/** The index of `name__index`, parsed as Triton's libtorch backend does: everything after the first `__`, if digits. */
const getPosition = (name: string): number | undefined => {
  const digits = /^(?:(?!__).)*__(\d+)$/s.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
};

/**
 * TorchScript identifies tensors by position, and libtorch reads the position from the name: `input__0`. Without a
 * position in the name, libtorch silently uses the order of the configuration. Inputs may also have the names of
 * forward()'s arguments. In a model.yaml we require positions for outputs always, and for inputs if one input has one.
 * Outputs may be left out.
 */
const libtorchNamesArePositions: ModelRule = (model) => {
  if (model.facts?.label !== 'pytorch_libtorch' || model.config.runtime) return;
  const hasPosition = ([, { name }]: TensorField): boolean => getPosition(name ?? '') !== undefined;
  const arguments_ = [...inputs(model), ...sequenceInputs(model)].filter(([, { name }]) => name);
  const results = outputs(model).filter(([, { name }]) => name);
  if (model.isPbtxt ? arguments_.every(hasPosition) : arguments_.some(hasPosition)) checkPositions(model, arguments_);
  if (!model.isPbtxt || results.every(hasPosition)) checkPositions(model, results);
};

/** Inputs that Triton adds to a model with sequence batching. They are arguments of forward() too. */
function sequenceInputs({ config: { sequence_batching: batching } }: CheckedModel): TensorField[] {
  const controls = (batching?.control_input ?? []).map(({ name = '' }, index): TensorField => [
    `sequence_batching.control_input[${index}]`,
    { name },
    'input',
  ]);
  const states = (batching?.state ?? []).map(({ input_name: name = '' }, index): TensorField => [
    `sequence_batching.state[${index}].input_name`,
    { name },
    'input',
  ]);
  return [...controls, ...states];
}

function checkPositions(model: CheckedModel, side: readonly TensorField[]): void {
  const taken = new Map<number, string>();
  for (const [field, { name = '' }, kind] of side) {
    const hint = `TorchScript files contain no names, so name the tensors by position: ${kind}__0, ${kind}__1, ...`;
    const allowed = side.length === 1 ? `${kind}__0` : `${kind}__0 to ${kind}__${side.length - 1}`;
    const position = getPosition(name);
    if (position === undefined) {
      model.problems.add(`${field}.name`, `does not end in a position, got ${describe(name)}`, { allowed, hint });
      continue;
    }
    const first = taken.get(position);
    if (first !== undefined) {
      model.problems.add(`${field}.name`, `has the same position as ${first}, got ${describe(name)}`, { allowed });
    } else if (kind === 'input' && position >= side.length) {
      model.problems.add(`${field}.name`, `skips a position, got ${describe(name)}`, { allowed, hint });
    }
    taken.set(position, first ?? field);
  }
}

export const tensorRules: readonly ModelRule[] = [
  inputsAndOutputsAreGiven,
  namesAreGiven,
  namesAreUnique,
  dataTypesAreGiven,
  dimsAreSizes,
  reshapeKeepsElements,
  libtorchNamesArePositions,
];
