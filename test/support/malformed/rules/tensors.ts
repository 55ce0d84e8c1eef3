import { input, output, positionHint, SIZES, TYPES, type RuleCase } from '../case';

const LIBTORCH_TYPES =
  'TYPE_BOOL, TYPE_UINT8, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_STRING';

/** Inputs and outputs, and the tensors that Triton makes from a whole batch. */
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
    { input: [input({ dims: [3, 4], format: 'FORMAT_NCHW' })] },
    'input[0].dims: must have 3 sizes for FORMAT_NCHW (without the batch axis), got 2',
  ],
  [
    {
      platform: 'tensorrt_plan',
      default_model_filename: 'x',
      input: [input({ dims: [1, 3, 4, 4], is_non_linear_format_io: true })],
    },
    'input[0].dims: must have 3 sizes for is_non_linear_format_io, got 4',
  ],
  [
    { input: [input({ is_shape_tensor: true })] },
    'input[0].is_shape_tensor: is supported by platform tensorrt_plan only',
  ],
  [
    { input: [input({ data_type: 'TYPE_UINT16' })] },
    `input[0].data_type: is not supported by Triton's libtorch backend, got TYPE_UINT16; allowed: ${LIBTORCH_TYPES}\n    -> convert the data type inside the model`,
  ],
  [
    { input: [input({ data_type: 'TYPE_STRING' })] },
    'input[0].dims: must have one axis in total for a string input of libtorch, got 2; allowed: dims: [-1] with max_batch_size: 0, or dims: [1] with reshape: { shape: [] }',
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
    { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', data_type: 'TYPE_INT64', source_input: ['input__0'] }] },
    'batch_input[0].data_type: is not a data type of batch inputs, got TYPE_INT64; allowed: TYPE_FP32, TYPE_INT32',
  ],
  [
    { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', source_input: ['input__0'] }] },
    'batch_input[0].data_type: is missing; allowed: TYPE_FP32, TYPE_INT32',
  ],
  [
    { batch_input: [{ data_type: 'TYPE_FP32', source_input: ['input__0', 'input__0'] }] },
    'batch_input[0].source_input: must name exactly one input, got 2',
  ],
  [
    { batch_input: [{ data_type: 'TYPE_FP32', source_input: ['input__9'] }] },
    'batch_input[0].source_input[0]: is not an input of the model, got "input__9"; allowed: input__0\n    -> did you mean "input__0"?',
  ],
  [
    { batch_output: [{ source_input: ['input__0'], target_name: ['x'] }] },
    'batch_output[0].target_name[0]: is not an output of the model, got "x"; allowed: output__0',
  ],
  [
    { batch_output: [{ source_input: ['input__0'], target_name: ['output__0', 'output__0'] }] },
    'batch_output[0].target_name[1]: is listed twice, got "output__0"',
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
