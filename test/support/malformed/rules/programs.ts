import { input, output, type Fields, type RuleCase } from '../case';

const NAME = 'is not a name that Triton gives to tensors of a program';
const TYPES =
  'TYPE_BOOL, TYPE_UINT8, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_BF16, TYPE_FP32, TYPE_FP64';
const program = (fields: Fields): Fields => ({
  platform: 'torch_aoti',
  input: [input({ name: 'INPUT__0' })],
  output: [output({ name: 'OUTPUT__0' })],
  ...fields,
});
const hint = (name: string): string => `\n    -> number the tensors in the order of forward(), in capitals: ${name}`;

/** Configurations that Triton rejects for programs of torch.export. */
export const PROGRAMS: readonly RuleCase[] = [
  ...['input__0', 'ARGS', 'ARGS[a b]', 'KWARGS[mask]', 'x'].map((name): RuleCase => [
    program({ input: [input({ name })] }),
    `input[0].name: ${NAME}, got ${JSON.stringify(name)}; allowed: INPUT__0, ARGS[0] and so on${hint('INPUT__0')}`,
  ]),
  [
    program({ output: [output({ name: 'RESULT' }), output({ name: 'RESULT[]' })] }),
    `output[1].name: ${NAME}, got "RESULT[]"; allowed: OUTPUT__0, RESULT, RESULT[0] and so on${hint('OUTPUT__1')}`,
  ],
  [
    program({ input: [input({ name: 'INPUT__0' }), input({ name: 'ARGS[0]' })] }),
    'input[1].name: is the tensor INPUT__0 once more, got "ARGS[0]"\n    -> name each tensor once',
  ],
  [
    program({ input: [input({ name: 'INPUT__1' })] }),
    'input[0].name: skips a position, got "INPUT__1"; allowed: INPUT__0\n    -> name every argument of forward()',
  ],
  [
    program({ output: [output({ name: 'OUTPUT__0', data_type: 'TYPE_UINT16' })] }),
    `output[0].data_type: is not supported for torch_aoti, got TYPE_UINT16; allowed: ${TYPES}\n    -> convert the data type inside the model`,
  ],
  [
    program({ sequence_batching: { control_input: [{ name: 'START__1' }] } }),
    'sequence_batching: is not supported for torch_aoti\n    -> use platform: pytorch_libtorch',
  ],
  [
    program({ input: [input({ name: 'INPUT__0', optional: true })] }),
    'input[0].optional: is not supported for torch_aoti',
  ],
  [
    program({ input: [input({ name: 'INPUT__0', allow_ragged_batch: true })] }),
    'input[0].allow_ragged_batch: is not supported for torch_aoti\n    -> use platform: pytorch_libtorch',
  ],
];
