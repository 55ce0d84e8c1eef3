import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TensorConfig } from '../../../src/model';
import { externalFiles, onnxFaults } from '../../../src/model/onnx';
import { programFaults, torchScriptFaults } from '../../../src/model/torch-files';
import { folder, program, read, removeFolders, torchScript, zip } from '../../support/model-files';

const DATA = join(__dirname, '..', '..', 'data', 'onnx');
const file = join(folder({}), 'model');
afterAll(removeFolders);

/** As torch.jit.save writes it: the attribute `training` of the module and of its two parts, of the same class. */
function modules(whole: boolean, first: boolean, second: boolean): Buffer {
  const flag = (value: boolean): string => (value ? '\x88' : '\x89');
  const part = (value: boolean): string => `)\x81}(h\x01${flag(value)}X\x04\0\0\0sizeK\x88ubq\x07`;
  const start = `(X\x08\0\0\0trainingq\x01${flag(whole)}X\x03\0\0\0oneq\x02(K\x01\x88tX\x06\0\0\0layersc__torch__.m\nPart\nq\x03`;
  const pickle = `\x80\x02c__torch__.m\nNet\nq\x00)\x81}${start}${part(first)}X\x01\0\0\x001h\x03${part(second)}ub.`;
  return zip(['model/data.pkl', 'model/constants.pkl'], { 'model/data.pkl': pickle });
}

test.each<[what: string, content: Buffer, isTraining: boolean]>([
  ['modules in evaluation mode', modules(false, false, false), false],
  ['an archive whose modules cannot be read', torchScript(), false],
  ['the whole module in training mode', modules(true, true, true), true],
  ['a part in training mode', modules(false, true, false), true],
  ['the last part in training mode', modules(false, false, true), true],
])('torchScriptFaults of %s', (_, content, isTraining) => {
  writeFileSync(file, content);
  const fault = { message: expect.stringMatching(/^was saved in training mode, /) as string };
  expect(torchScriptFaults(file)).toMatchObject(isTraining ? [fault] : []);
});

const tensor = (name: string, dims: number[], more: object = {}): TensorConfig => ({
  name,
  data_type: 'TYPE_FP32',
  dims,
  ...more,
});
/** Of the files in test/data/onnx, as test/python/test_backends.py describes them. */
const SCALARS = {
  max_batch_size: 0,
  input: [tensor('x', [-1, 2]), tensor('count', [1])],
  output: [tensor('y', [-1, 2]), tensor('n', [1])],
};
const BATCHED = {
  max_batch_size: 8,
  input: [tensor('x', [4]), tensor('flag', [1])],
  output: [tensor('y', [2, 2])],
};
const SINGLE = { max_batch_size: 0, input: [tensor('x', [1, 2])], output: [tensor('y', [1, 2])] };

test.each<[what: string, file: string, fields: object]>([
  ['dims that are fixed where the file leaves them open', 'batched', BATCHED],
  ['dims that are open as in the file', 'batched', { ...BATCHED, input: [tensor('x', [-1]), tensor('flag', [1])] }],
  ['scalars as [1]', 'scalars', SCALARS],
  ['an output that is left out', 'scalars', { ...SCALARS, output: [tensor('y', [-1, 2])] }],
  ['a whole shape', 'single', SINGLE],
  ['a shape behind reshape', 'single', { ...SINGLE, input: [tensor('x', [2], { reshape: { shape: [1, 2] } })] }],
  ['neither inputs nor outputs', 'batched', { max_batch_size: 8 }],
  [
    'ragged requests, joined along an axis',
    'batched',
    { ...BATCHED, input: [tensor('x', [1, 7], { allow_ragged_batch: true }), tensor('flag', [1])] },
  ],
])('onnxFaults allows %s', (_, name, fields) => {
  expect(onnxFaults(join(DATA, `${name}.onnx`), { name: 'm', ...fields })).toEqual([]);
});

const AS_IN_FILE = 'set data_type and dims as in the file';
const BATCH = `${AS_IN_FILE}; dims omits the batch axis, which is -1 here`;

test.each<[what: string, file: string, fields: object, says: string[]]>([
  [
    'tensors of another name',
    'batched',
    { ...BATCHED, input: [...BATCHED.input, tensor('z', [4])], output: [tensor('z', [2, 2])] },
    [
      'has no input "z"; it has x, flag\n    -> use the names of the file',
      'has no output "z"; it has y\n    -> use the names of the file',
    ],
  ],
  [
    'an input that is left out',
    'batched',
    { ...BATCHED, input: [tensor('x', [4])] },
    ['has an input "flag", which the configuration lacks\n    -> add it to the inputs of the configuration'],
  ],
  [
    'tensors of another type',
    'batched',
    {
      ...BATCHED,
      input: [tensor('x', [4], { data_type: 'TYPE_FP64' }), tensor('flag', [1])],
      output: [tensor('y', [2, 2], { data_type: 'TYPE_INT64' })],
    },
    [
      `has TYPE_FP32 [-1, -1] for the input "x", but the configuration has TYPE_FP64 [-1, 4]\n    -> ${BATCH}`,
      `has TYPE_FP32 [-1, 2, 2] for the output "y", but the configuration has TYPE_INT64 [-1, 2, 2]\n    -> ${BATCH}`,
    ],
  ],
  [
    'dims that are open where the file fixes them, and another number of dims',
    'batched',
    { ...BATCHED, input: [tensor('x', [4]), tensor('flag', [-1])], output: [tensor('y', [4])] },
    [
      `has TYPE_FP32 [-1, 1] for the input "flag", but the configuration has TYPE_FP32 [-1, -1]\n    -> ${BATCH}`,
      `has TYPE_FP32 [-1, 2, 2] for the output "y", but the configuration has TYPE_FP32 [-1, 4]\n    -> ${BATCH}`,
    ],
  ],
  [
    'another size behind reshape',
    'single',
    { ...SINGLE, input: [tensor('x', [2], { reshape: { shape: [2, 1] } })] },
    [`has TYPE_FP32 [1, 2] for the input "x", but the configuration has TYPE_FP32 [2, 1]\n    -> ${AS_IN_FILE}`],
  ],
  [
    'a batch axis that is fixed',
    'single',
    { max_batch_size: 1, input: [tensor('x', [2])] },
    [
      'has TYPE_FP32 [1, 2] for the input "x", but the configuration has TYPE_FP32 [-1, 2]\n    -> export it with a variable first axis (dynamic_axes), or set max_batch_size: 0 and give the whole shape in dims',
    ],
  ],
  [
    'a scalar that is more than one number',
    'scalars',
    { ...SCALARS, input: [tensor('x', [-1, 2]), tensor('count', [2])] },
    [`has TYPE_FP32 [] for the input "count", but the configuration has TYPE_FP32 [2]\n    -> ${AS_IN_FILE}`],
  ],
])('onnxFaults reports %s', (_, name, fields, says) => {
  const faults = onnxFaults(join(DATA, `${name}.onnx`), { name: 'm', ...fields });
  expect(faults.map(({ message, hint }) => `${message}\n    -> ${hint}`)).toEqual(says);
});

test('externalFiles names the files with weights, and onnxFaults reports if they are missing', () => {
  expect(externalFiles(join(DATA, 'outside.onnx'))).toEqual(['outside.bin']);
  expect(externalFiles(join(DATA, 'single.onnx'))).toEqual([]);
  copyFileSync(join(DATA, 'outside.onnx'), file);
  expect(onnxFaults(file, { name: 'm' })).toEqual([
    {
      message: 'has its weights in outside.bin, which is not in its version folder',
      hint: 'copy outside.bin beside the file',
    },
  ]);
});

test.each([
  ['a text', Buffer.from('version https://git-lfs.github.com/spec/v1')],
  ['TorchScript', torchScript()],
  ['a file that is cut short', readFileSync(join(DATA, 'batched.onnx')).subarray(0, -9)],
  ['an endless number', Buffer.alloc(100, 0xff)],
  ['zeros', Buffer.alloc(100)],
])('onnxFaults reports %s as no ONNX file', (_, content) => {
  writeFileSync(file, content);
  expect(onnxFaults(file, { name: 'm' })).toMatchObject([{ message: 'is not an ONNX file, or is truncated' }]);
});

test('a repository is read with the tensors of its ONNX file compared, also under another name', async () => {
  const tensors = 'input { name: "z" data_type: TYPE_FP32 dims: [1, 2] }';
  const root = folder({
    'm/config.pbtxt': `backend: "onnxruntime" ${tensors} default_model_filename: "net.onnx"`,
    'm/1/': '',
  });
  copyFileSync(join(DATA, 'single.onnx'), join(root, 'm/1/net.onnx'));
  expect((await read(root)).texts).toEqual([expect.stringMatching(/^m\/1\/net\.onnx: has no input "z"; it has x/)]);
});

test.each<[what: string, check: typeof torchScriptFaults, content: Buffer, message: string]>([
  ['an exported program', programFaults, program('exported'), ''],
  ['a compiled program', programFaults, program('compiled'), ''],
  ['TorchScript as a program', programFaults, torchScript(), 'is TorchScript, not a program'],
  ['weights as a program', programFaults, zip(['a/data.pkl']), 'is a zip archive without a program'],
  ['text as a program', programFaults, Buffer.from('text'), 'is not a program of torch.export, which is a zip archive'],
  ['a program as TorchScript', torchScriptFaults, program('compiled'), 'is a program of torch.export, not TorchScript'],
])('%s', (_, check, content, message) => {
  writeFileSync(file, content);
  expect(
    check(file)
      .map((fault) => fault.message)
      .join('\n'),
  ).toMatch(message === '' ? /^$/ : new RegExp(`^${message}`));
});

test('a program that was exported in training mode is refused', () => {
  const graph = (training: boolean): string =>
    JSON.stringify({ nodes: [{ inputs: [{ name: 'train', arg: { as_bool: training }, kind: 1 }] }] });
  const at = (training: boolean): string =>
    folder({ 'model.pt2': zip(['model/models/model.json'], { 'model/models/model.json': graph(training) }) });
  const faults = (training: boolean) => programFaults(join(at(training), 'model.pt2')).map(({ hint }) => hint);
  expect(faults(true)).toEqual(['call model.eval() before torch.export.export, and save the file again']);
  expect(faults(false)).toEqual([]);
});
