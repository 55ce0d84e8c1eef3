import { input, output, type Fields, type RuleRow } from '../case';
import { sequence } from './sequence';

const ONNX = { platform: 'onnxruntime_onnx' };
const parameter = (name: string, value: string): Fields => ({ parameters: { [name]: { string_value: value } } });
const named = (name: string): Fields => sequence({ control_input: [{ name, control: [START] }] });
const START = { kind: 'CONTROL_SEQUENCE_START', int32_false_true: [0, 1] };
const state = (input_name: string, output_name: string): Fields =>
  sequence({
    control_input: undefined,
    state: [{ input_name, output_name, data_type: 'TYPE_FP32', dims: [2] }],
  });

/** Configurations that Triton's libtorch and ONNX Runtime backends reject when they load a model. */
export const BACKENDS: readonly RuleRow[] = [
  [
    'an optional input of libtorch',
    { input: [input({ optional: true })] },
    'input[0].optional',
    "is not supported by Triton's libtorch backend",
  ],
  [
    'an optional input of ONNX with batches',
    { ...ONNX, input: [input({ optional: true })] },
    'input[0].optional',
    'needs max_batch_size: 0 with ONNX Runtime',
  ],
  [
    'an optional input of ONNX that is ragged',
    {
      ...ONNX,
      max_batch_size: 0,
      input: [input({ optional: true, allow_ragged_batch: true })],
      output: [output({ dims: [-1, 4] })],
    },
    'input[0].optional',
    'cannot stand beside allow_ragged_batch',
  ],
  [
    'a control without a position',
    { input: [input({ name: 'x' })], ...named('START') },
    'sequence_batching.control_input[0].name',
    'does not end in a position, got "START"',
  ],
  [
    'a state without a position',
    state('input__1', 'later'),
    'sequence_batching.state[0].output_name',
    'does not end in a position, got "later"',
  ],
  [
    'an input without a position beside a state',
    { input: [input({ name: 'x' })], ...state('input__1', 'output__1') },
    'input[0].name',
    'does not end in a position, got "x"',
  ],
  [
    'a flag of libtorch that is none',
    parameter('INFERENCE_MODE', 'yes'),
    'parameters.INFERENCE_MODE',
    'cannot be read by the backend, got "yes"',
  ],
  [
    'a number of threads in words',
    parameter('INTRA_OP_THREAD_COUNT', 'two'),
    'parameters.INTRA_OP_THREAD_COUNT',
    'cannot be read by the backend, got "two"',
  ],
  [
    'a number of threads of ONNX Runtime in words',
    { ...ONNX, ...parameter('inter_op_thread_count', '') },
    'parameters.inter_op_thread_count',
    'cannot be read by the backend, got ""',
  ],
  [
    'an execution mode that there is not',
    { ...ONNX, ...parameter('execution_mode', '2') },
    'parameters.execution_mode',
    'cannot be read by the backend, got "2"',
  ],
];
