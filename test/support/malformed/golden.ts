import { writeNpy } from '../../../src/model/media/npy';
import { ARTIFACT, begins, output, sound, type Malformed, type MalformedCase } from './case';

/** A model with input [n, 3] and output [n, 4]; n is at most 8. */
const MODEL = { 'm/model.yaml': JSON.stringify(sound()), 'm/labels.txt': '', ...ARTIFACT };
const INPUT = { name: 'input__0', data: [[1, 2, 3]] };
const OUTPUT = { name: 'output__0', data: [[1, 2, 3, 4]] };
const text = (content: unknown): string => JSON.stringify(content);

/** A case with the given files. */
const golden = (files: Record<string, Malformed>, problem: string): MalformedCase => ({
  name: `golden requests: ${problem.split('\n')[0]}`,
  files: { ...MODEL, ...files },
  problems: [begins(problem)],
});

/** A case whose golden request differs from a valid one in the input, the output or another field. */
const request = (more: object, problem: string, files: Record<string, Malformed> = {}): MalformedCase =>
  golden(
    { 'm/golden/a.json': text({ inputs: [INPUT], outputs: [OUTPUT], ...more }), ...files },
    `m/golden/a.json: ${problem}`,
  );

const input = (more: object, problem: string, files: Record<string, Malformed> = {}): MalformedCase =>
  request({ inputs: [{ ...INPUT, ...more }] }, problem, files);

const expected = (more: object, problem: string): MalformedCase =>
  request({ outputs: [{ ...OUTPUT, ...more }] }, problem);

const npy = (tensor: Parameters<typeof writeNpy>[0]): Record<string, Buffer> => ({
  'm/golden/x.npy': writeNpy(tensor),
});

/** Golden requests that do not fit their model. */
export const GOLDEN: readonly MalformedCase[] = [
  golden({ 'm/golden/a.json': '{' }, 'm/golden/a.json: is not JSON'),
  golden({ 'm/golden/a.json': '[]' }, 'm/golden/a.json: must be a mapping with inputs and outputs, got a list'),
  golden(
    { 'm/golden/2/a.json': text({ inputs: [INPUT], outputs: [OUTPUT] }) },
    'm/golden/2/a.json: is for version 2, which the model does not have; allowed: golden/CASE.json, golden/1/CASE.json',
  ),
  golden(
    { 'm/golden/v1/a.json': text({ inputs: [INPUT], outputs: [OUTPUT] }) },
    'm/golden/v1/a.json: is never sent, because its folder is not a version of the model',
  ),
  golden(
    {
      'm/golden/labels.txt': 'a\n',
      'm/model.yaml': text(sound({ output: [output({ label_filename: 'golden/labels.txt' })] })),
    },
    'm/model.yaml: output[0].label_filename: names a file of golden requests, which are not published',
  ),
  request({ inputs: undefined }, 'inputs: must be a list of tensors, got nothing'),
  request({ outputs: [] }, 'outputs: must not be empty'),
  request({ input: [] }, 'input: is an unknown field; allowed: description, inputs'),
  request({ inputs: [] }, 'inputs: input "input__0" is missing'),
  request({ inputs: [INPUT, INPUT] }, 'inputs[1].name: "input__0" is given twice'),
  request({ inputs: [1] }, 'inputs[0]: must be a mapping, got 1'),
  request({ parameters: { a: [] } }, 'parameters.a: must be a string, a number or a boolean, got a list'),
  input(
    { name: 'inptu__0' },
    'inputs[0].name: the model has no input "inptu__0"; allowed: input__0\n    -> did you mean "input__0"?',
  ),
  input(
    { datatype: 'FP64' },
    'inputs[0].datatype: is not the data type of the configuration, got "FP64"; allowed: FP32',
  ),
  input({ data: undefined }, 'inputs[0]: has neither data nor file'),
  input({ file: 'x.npy' }, 'inputs[0]: has both data and file'),
  input({ data: [[1, 2]] }, 'inputs[0]: has shape [1, 2]; allowed: [-1, 3], where the first axis is the batch, 1 to 8'),
  input({ data: [1, 2, 3] }, 'inputs[0]: has shape [3]; allowed: [-1, 3]'),
  input({ data: [...Array(9).keys()].map(() => [1, 2, 3]) }, 'inputs[0]: has shape [9, 3]; allowed'),
  input({ data: [[1, 2, 3], [1]] }, "inputs[0].data: tensor 'input__0': rows of axis 1 differ"),
  input({ data: [1, 2], shape: [1, 3] }, 'inputs[0].data: 2 elements for shape [1, 3]'),
  input({ shape: [-1, 3] }, 'inputs[0].shape: must be a list of whole numbers from 0, got [-1,3]'),
  input({ data: [[1, null, 3]] }, 'inputs[0].data: null cannot be an element of a tensor of FP32'),
  input({ data: [[1, 'two', 3]] }, 'inputs[0].data: tensor \'input__0\': "two" is not a valid FP32 value'),
  input({ data: [[1, 1e39, 3]] }, "inputs[0].data: tensor 'input__0': 1e+39 is not a valid FP32 value"),
  input(
    { data: undefined, file: 'x.npy' },
    'inputs[0].file: names a file that is not in golden/: "x.npy"\n    -> put it at golden/x.npy',
  ),
  input(
    { data: undefined, file: '../labels.txt' },
    'inputs[0].file: names a file that is not in golden/: "../labels.txt"\n    -> copy it into golden/',
  ),
  input({ data: undefined, file: 'x.npy' }, 'inputs[0].file: x.npy is not a .npy file', {
    'm/golden/x.npy': 'x',
  }),
  input(
    { data: undefined, file: 'x.npy' },
    'inputs[0].file: x.npy is int64, but input__0 is FP32: 16777217 does not fit into FP32\n    -> save the file with values',
    npy({ name: '', datatype: 'INT64', shape: [1, 3], data: BigInt64Array.of(1n, 2n, 16_777_217n) }),
  ),
  expected({ tolerance: { absolute: -1 } }, 'outputs[0].tolerance.absolute: must be a number from 0, got -1'),
  expected({ tolerance: 0.1 }, 'outputs[0].tolerance: must be a mapping, got 0.1; allowed: {'),
  expected({ tolerance: { rtol: 1 } }, 'outputs[0].tolerance.rtol: is an unknown field'),
];
