import { input, output, positionHint, SIZES, TYPES, type RuleCase } from '../case';

const LIBTORCH_TYPES =
  'TYPE_BOOL, TYPE_UINT8, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_STRING';

/** Inputs and outputs, and the tensors that Triton makes from a whole batch. */
export const TENSORS: readonly RuleCase[] = [
  {
    name: 'no inputs',
    fields: { input: undefined },
    problems: 'input: is missing; for pytorch_libtorch, the configuration must list the inputs',
  },
  {
    name: 'no outputs',
    fields: { output: undefined },
    problems: 'output: is missing; for pytorch_libtorch, the configuration must list the outputs',
  },
  {
    name: 'an input without a name',
    fields: { input: [input({ name: undefined })] },
    problems: 'input[0].name: is missing',
  },
  {
    name: 'an output with an empty name',
    fields: { output: [output({ name: '' })] },
    problems: 'output[0].name: is missing',
  },
  {
    name: 'a name twice',
    fields: { backend: 'python', platform: undefined, input: [input(), input()] },
    problems: 'input[1].name: is also the name of input[0], got "input__0"',
  },
  {
    name: 'an output name twice',
    fields: { backend: 'python', platform: undefined, output: [output(), output()] },
    problems: 'output[1].name: is also the name of output[0], got "output__0"',
  },
  {
    name: 'no data type',
    fields: { input: [input({ data_type: undefined })] },
    problems: `input[0].data_type: is missing; allowed: ${TYPES}`,
  },
  {
    name: 'the type of nothing',
    fields: { output: [output({ data_type: 'TYPE_INVALID' })] },
    problems: `output[0].data_type: must not be TYPE_INVALID; allowed: ${TYPES}`,
  },
  {
    name: 'no dims',
    fields: { input: [input({ dims: undefined })] },
    problems:
      'input[0].dims: is missing\n    -> write dims: [1] for a single number; omit the batch axis if max_batch_size is more than 0',
  },
  {
    name: 'a size of 0',
    fields: { input: [input({ dims: [3, 0] })] },
    problems: `input[0].dims[1]: is not a size, got 0; allowed: ${SIZES}`,
  },
  {
    name: 'a size below -1',
    fields: { output: [output({ dims: [-2] })] },
    problems: `output[0].dims[0]: is not a size, got -2; allowed: ${SIZES}`,
  },
  {
    name: 'a reshape to fewer',
    fields: { input: [input({ dims: [2, 3], reshape: { shape: [5] } })] },
    problems:
      'input[0].reshape.shape: has a different number of elements than dims, got [5]; allowed: a shape with as many elements as [2, 3]',
  },
  {
    name: 'a reshape across any size',
    fields: { input: [input({ dims: [2, -1, 3], reshape: { shape: [3, -1, 2] } })] },
    problems:
      'input[0].reshape.shape: has a different number of elements than dims, got [3, -1, 2]; allowed: a shape with as many elements as [2, -1, 3]',
  },
  {
    name: 'a reshape that loses any size',
    fields: { output: [output({ dims: [-1, 2], reshape: { shape: [2] } })] },
    problems:
      'output[0].reshape.shape: has a different number of elements than dims, got [2]; allowed: a shape with as many elements as [-1, 2]',
  },
  {
    name: 'a reshape to a size of 0',
    fields: { input: [input({ dims: [1], reshape: { shape: [0] } })] },
    problems: `input[0].reshape.shape[0]: is not a size, got 0; allowed: ${SIZES}`,
  },
  {
    name: 'a reshape to nothing',
    fields: { max_batch_size: 0, input: [input({ dims: [1], reshape: {} })] },
    problems: 'input[0].reshape.shape: must not be empty if max_batch_size is 0',
  },
  {
    name: 'an image of two axes',
    fields: { input: [input({ dims: [3, 4], format: 'FORMAT_NCHW' })] },
    problems: 'input[0].dims: must have 3 sizes for FORMAT_NCHW (without the batch axis), got 2',
  },
  {
    name: 'an image of four axes',
    fields: { input: [input({ dims: [1, 3, 4, 4], format: 'FORMAT_NHWC' })] },
    problems: 'input[0].dims: must have 3 sizes for FORMAT_NHWC (without the batch axis), got 4',
  },
  {
    name: 'a format of TensorRT with four axes',
    fields: {
      platform: 'tensorrt_plan',
      default_model_filename: 'x',
      input: [input({ dims: [1, 3, 4, 4], is_non_linear_format_io: true })],
    },
    problems: 'input[0].dims: must have 3 sizes for is_non_linear_format_io, got 4',
  },
  {
    name: 'a shape tensor',
    fields: { input: [input({ is_shape_tensor: true })] },
    problems: 'input[0].is_shape_tensor: is supported by platform tensorrt_plan only',
  },
  {
    name: 'a format of TensorRT',
    fields: { output: [output({ is_non_linear_format_io: true })] },
    problems: 'output[0].is_non_linear_format_io: is supported by platform tensorrt_plan only',
  },
  {
    name: 'a type that libtorch has not',
    fields: { input: [input({ data_type: 'TYPE_UINT16' })] },
    problems: `input[0].data_type: is not supported by Triton's libtorch backend, got TYPE_UINT16; allowed: ${LIBTORCH_TYPES}\n    -> convert the data type inside the model`,
  },
  {
    name: 'texts in two axes',
    fields: { input: [input({ data_type: 'TYPE_STRING' })] },
    problems:
      'input[0].dims: must have one axis in total for a string input of libtorch, got 2; allowed: dims: [-1] with max_batch_size: 0, or dims: [1] with reshape: { shape: [] }',
  },
  {
    name: 'a position that is left out',
    fields: { input: [input({ name: 'input__1' })] },
    problems: `input[0].name: skips a position, got "input__1"; allowed: input__0${positionHint('input')}`,
  },
  {
    name: 'a position twice',
    fields: { output: [output(), output({ name: 'mask__0' })] },
    problems: 'output[1].name: has the same position as output[0], got "mask__0"; allowed: output__0 to output__1',
  },
  {
    name: 'a batch input of another type',
    fields: { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', data_type: 'TYPE_INT64', source_input: ['input__0'] }] },
    problems:
      'batch_input[0].data_type: is not a data type of batch inputs, got TYPE_INT64; allowed: TYPE_FP32, TYPE_INT32',
  },
  {
    name: 'a batch input without a type',
    fields: { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', source_input: ['input__0'] }] },
    problems: 'batch_input[0].data_type: is missing; allowed: TYPE_FP32, TYPE_INT32',
  },
  {
    name: 'a batch input of nothing',
    fields: { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', data_type: 'TYPE_FP32' }] },
    problems: 'batch_input[0].source_input: must name exactly one input, got 0',
  },
  {
    name: 'a batch input of two',
    fields: { batch_input: [{ data_type: 'TYPE_FP32', source_input: ['input__0', 'input__0'] }] },
    problems: 'batch_input[0].source_input: must name exactly one input, got 2',
  },
  {
    name: 'a batch input of no input',
    fields: { batch_input: [{ data_type: 'TYPE_FP32', source_input: ['input__9'] }] },
    problems:
      'batch_input[0].source_input[0]: is not an input of the model, got "input__9"; allowed: input__0\n    -> did you mean "input__0"?',
  },
  {
    name: 'a batch output of no input',
    fields: { batch_output: [{ source_input: ['x'], target_name: ['output__0'] }] },
    problems: 'batch_output[0].source_input[0]: is not an input of the model, got "x"; allowed: input__0',
  },
  {
    name: 'a batch output to no output',
    fields: { batch_output: [{ source_input: ['input__0'], target_name: ['x'] }] },
    problems: 'batch_output[0].target_name[0]: is not an output of the model, got "x"; allowed: output__0',
  },
  {
    name: 'a batch output twice',
    fields: { batch_output: [{ source_input: ['input__0'], target_name: ['output__0', 'output__0'] }] },
    problems: 'batch_output[0].target_name[1]: is listed twice, got "output__0"',
  },
  {
    name: 'empty dims',
    fields: { output: [output({ dims: [] })] },
    problems:
      'output[0].dims: is missing\n    -> write dims: [1] for a single number; omit the batch axis if max_batch_size is more than 0',
  },
  {
    name: 'an output without a position',
    fields: { output: [output({ name: 'logits' })] },
    problems: `output[0].name: does not end in a position, got "logits"; allowed: output__0${positionHint('output')}`,
    inText: [],
  },
  {
    name: 'an input without a position beside one that has it',
    fields: { input: [input(), input({ name: 'mask' })] },
    problems: `input[1].name: does not end in a position, got "mask"; allowed: input__0 to input__1${positionHint('input')}`,
    inText: [],
  },
  {
    name: 'a name with two positions',
    fields: { output: [output({ name: 'a__b__0' })] },
    problems: `output[0].name: does not end in a position, got "a__b__0"; allowed: output__0${positionHint('output')}`,
    inText: [],
  },
];
