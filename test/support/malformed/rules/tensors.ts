import { input, output, positionHint, SIZES, TYPES, type RuleCase } from '../case';

/** Inputs and outputs. */
export const TENSORS: readonly RuleCase[] = [
  [{ input: undefined }, 'input: is missing; for pytorch_libtorch, the configuration must list the inputs'],
  [{ output: undefined }, 'output: is missing; for pytorch_libtorch, the configuration must list the outputs'],
  [{ input: [input({ name: undefined })] }, 'input[0].name: is missing'],
  [
    { backend: 'python', platform: undefined, input: [input(), input()] },
    'input[1].name: is also the name of input[0], got "input__0"',
  ],
  [{ input: [input({ data_type: undefined })] }, `input[0].data_type: is missing; allowed: ${TYPES}`],
  [
    { output: [output({ data_type: 'TYPE_INVALID' })] },
    `output[0].data_type: must not be TYPE_INVALID; allowed: ${TYPES}`,
  ],
  [
    { input: [input({ dims: undefined })] },
    'input[0].dims: is missing\n    -> write dims: [1] for a single number; omit the batch axis if max_batch_size is more than 0',
  ],
  [{ input: [input({ dims: [3, 0] })] }, `input[0].dims[1]: is not a size, got 0; allowed: ${SIZES}`],
  [{ output: [output({ dims: [-2] })] }, `output[0].dims[0]: is not a size, got -2; allowed: ${SIZES}`],
  [
    { input: [input({ dims: [2, 3], reshape: { shape: [5] } })] },
    'input[0].reshape.shape: has a different number of elements than dims, got [5]; allowed: a shape with as many elements as [2, 3]',
  ],
  [
    { input: [input({ dims: [2, -1, 3], reshape: { shape: [3, -1, 2] } })] },
    'input[0].reshape.shape: has a different number of elements than dims, got [3, -1, 2]; allowed: a shape with as many elements as [2, -1, 3]',
  ],
  [
    { output: [output({ dims: [-1, 2], reshape: { shape: [2] } })] },
    'output[0].reshape.shape: has a different number of elements than dims, got [2]; allowed: a shape with as many elements as [-1, 2]',
  ],
  [
    { input: [input({ dims: [1], reshape: { shape: [0] } })] },
    `input[0].reshape.shape[0]: is not a size, got 0; allowed: ${SIZES}`,
  ],
  [
    { max_batch_size: 0, input: [input({ dims: [1], reshape: {} })] },
    'input[0].reshape.shape: must not be empty if max_batch_size is 0',
  ],
  [
    { input: [input({ name: 'input__1' })] },
    `input[0].name: skips a position, got "input__1"; allowed: input__0${positionHint('input')}`,
  ],
  [
    { output: [output(), output({ name: 'mask__0' })] },
    'output[1].name: has the same position as output[0], got "mask__0"; allowed: output__0 to output__1',
  ],
  [
    { output: [output({ name: 'logits' })] },
    `output[0].name: does not end in a position, got "logits"; allowed: output__0${positionHint('output')}`,
    [],
  ],
  [
    { input: [input(), input({ name: 'mask' })] },
    `input[1].name: does not end in a position, got "mask"; allowed: input__0 to input__1${positionHint('input')}`,
    [],
  ],
  [
    { output: [output({ name: 'a__b__0' })] },
    `output[0].name: does not end in a position, got "a__b__0"; allowed: output__0${positionHint('output')}`,
    [],
  ],
];
