import { input, output, positionHint, type Fields, type RuleCase } from '../case';
import { sequence } from './sequence';

const ONNX = { platform: 'onnxruntime_onnx' };
const parameter = (name: string, value: string): Fields => ({ parameters: { [name]: { string_value: value } } });
const named = (name: string): Fields => sequence({ control_input: [{ name, control: [START] }] });
const SEQUENCE_HINT =
  "\n    -> Triton's libtorch backend identifies the tensors of sequences by their position among the arguments of forward()";
const START = { kind: 'CONTROL_SEQUENCE_START', int32_false_true: [0, 1] };
const state = (input_name: string, output_name: string): Fields =>
  sequence({
    control_input: undefined,
    state: [{ input_name, output_name, data_type: 'TYPE_FP32', dims: [2] }],
  });

/** Configurations that Triton's libtorch and ONNX Runtime backends reject when they load a model. */
export const BACKENDS: readonly RuleCase[] = [
  [
    { input: [input({ optional: true })] },
    "input[0].optional: is not supported by Triton's libtorch backend\n    -> require the input in every request, for example as an empty tensor",
  ],
  [
    { ...ONNX, input: [input({ optional: true })] },
    'input[0].optional: needs max_batch_size: 0 with ONNX Runtime\n    -> set max_batch_size: 0, or require the input in every request',
  ],
  [
    {
      ...ONNX,
      max_batch_size: 0,
      input: [input({ optional: true, allow_ragged_batch: true })],
      output: [output({ dims: [-1, 4] })],
    },
    'input[0].optional: cannot be combined with allow_ragged_batch in ONNX Runtime',
  ],
  [
    { input: [input({ name: 'x' })], ...named('START') },
    `sequence_batching.control_input[0].name: does not end in a position, got "START"; allowed: a name such as x__1${SEQUENCE_HINT}`,
  ],
  [
    state('input__1', 'later'),
    `sequence_batching.state[0].output_name: does not end in a position, got "later"; allowed: a name such as x__1${SEQUENCE_HINT}`,
  ],
  [
    { input: [input({ name: 'x' })], ...state('input__1', 'output__1') },
    `input[0].name: does not end in a position, got "x"; allowed: input__0 to input__1${positionHint('input')}`,
    [`input[0].name: does not end in a position, got "x"; allowed: a name such as x__1${SEQUENCE_HINT}`],
  ],
  [
    parameter('INFERENCE_MODE', 'yes'),
    'parameters.INFERENCE_MODE: cannot be parsed by the backend, got "yes"; allowed: true, false',
  ],
  [
    parameter('INTRA_OP_THREAD_COUNT', 'two'),
    'parameters.INTRA_OP_THREAD_COUNT: cannot be parsed by the backend, got "two"; allowed: a whole number',
  ],
  [
    { ...ONNX, ...parameter('inter_op_thread_count', '') },
    'parameters.inter_op_thread_count: cannot be parsed by the backend, got ""; allowed: a whole number',
  ],
  [
    { ...ONNX, ...parameter('execution_mode', '2') },
    'parameters.execution_mode: cannot be parsed by the backend, got "2"; allowed: 0, 1',
  ],
];
