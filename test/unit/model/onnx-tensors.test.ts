import {
  closeSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readOnnxGraph } from '../../../src/model/onnx-file';
import type { TensorConfig } from '../../../src/model';
import { onnxFaults } from '../../../src/model/onnx-tensors';
import { folder, read, removeFolders } from '../../support/model-files';

const DATA = join(__dirname, '..', '..', 'data', 'onnx');
const scratch = mkdtempSync(join(tmpdir(), 'onnx-tensors-'));
afterAll(async () => {
  rmSync(scratch, { recursive: true, force: true });
  await removeFolders();
});

const tensor = (name: string, dims: number[], more: object = {}): TensorConfig => ({
  name,
  data_type: 'TYPE_FP32',
  dims,
  ...more,
});
/** Of test/python/test_real_backends.py, with the cases below. */
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

const getFaults = async (name: string, fields: object): Promise<string[]> => {
  const faults = await onnxFaults(join(DATA, `${name}.onnx`), { name: 'm', ...fields });
  return faults.map(({ message, hint }) => `${message}\n    -> ${hint}`);
};

test.each<[what: string, file: string, fields: object]>([
  ['dims that are fixed where the file leaves them open', 'batched', BATCHED],
  ['dims that are open as in the file', 'batched', { ...BATCHED, input: [tensor('x', [-1]), tensor('flag', [1])] }],
  ['scalars as [1]', 'scalars', SCALARS],
  [
    'an optional input that is an initializer',
    'scalars',
    { ...SCALARS, input: [...SCALARS.input, tensor('bias', [2])] },
  ],
  ['an output that is left out', 'scalars', { ...SCALARS, output: [tensor('y', [-1, 2])] }],
  ['a whole shape', 'single', SINGLE],
  ['a shape behind reshape', 'single', { ...SINGLE, input: [tensor('x', [2], { reshape: { shape: [1, 2] } })] }],
  ['neither inputs nor outputs', 'batched', { max_batch_size: 8 }],
  [
    'an input that is a control of sequences',
    'batched',
    { ...BATCHED, input: [tensor('x', [4])], sequence_batching: { control_input: [{ name: 'flag' }] } },
  ],
  [
    'an input that is a state of sequences',
    'batched',
    { ...BATCHED, input: [tensor('x', [4])], sequence_batching: { state: [{ input_name: 'flag' }] } },
  ],
  [
    'an input made from the batch',
    'batched',
    { ...BATCHED, input: [tensor('x', [4])], batch_input: [{ target_name: ['flag'] }] },
  ],
  [
    'ragged requests, joined along an axis',
    'batched',
    { ...BATCHED, input: [tensor('x', [1, 7], { allow_ragged_batch: true }), tensor('flag', [1])] },
  ],
])('onnxFaults allows %s', async (_, file, fields) => {
  expect(await getFaults(file, fields)).toEqual([]);
});

test.each<[what: string, file: string, fields: object, says: string]>([
  [
    'an input that the configuration lacks',
    'batched',
    { ...BATCHED, input: [tensor('x', [4])] },
    'has an input that the configuration lacks: "flag" TYPE_FP32 [-1, 1]\n    -> add it to input, or omit input: Triton then reads all inputs from the file',
  ],
  [
    'an input of another name',
    'batched',
    { ...BATCHED, input: [...BATCHED.input, tensor('z', [4])] },
    'has no input "z"; it has x, flag\n    -> use the names of the file in the configuration',
  ],
  [
    'an initializer that is a constant of the file',
    'batched',
    { ...BATCHED, input: [...BATCHED.input, tensor('shape', [3], { data_type: 'TYPE_INT64', optional: true })] },
    'has no input "shape"; it has x, flag\n    -> use the names of the file in the configuration',
  ],
  [
    'an output of another name',
    'batched',
    { ...BATCHED, output: [tensor('z', [2, 2])] },
    'has no output "z"; it has y\n    -> use the names of the file in the configuration',
  ],
  [
    'another type of an input',
    'batched',
    { ...BATCHED, input: [tensor('x', [4], { data_type: 'TYPE_FP64' }), tensor('flag', [1])] },
    'has TYPE_FP32 for the input "x", but the configuration has TYPE_FP64\n    -> set data_type: TYPE_FP32',
  ],
  [
    'another type of an output',
    'batched',
    { ...BATCHED, output: [tensor('y', [2, 2], { data_type: 'TYPE_INT64' })] },
    'has TYPE_FP32 for the output "y", but the configuration has TYPE_INT64\n    -> set data_type: TYPE_FP32',
  ],
  [
    'dims that are open where the file fixes them',
    'batched',
    { ...BATCHED, input: [tensor('x', [4]), tensor('flag', [-1])] },
    'has shape [-1, 1] for the input "flag", but the configuration has dims [-1], after the batch axis\n    -> set dims to [1]',
  ],
  [
    'another number of dims',
    'batched',
    { ...BATCHED, output: [tensor('y', [4])] },
    'has shape [-1, 2, 2] for the output "y", but the configuration has dims [4], after the batch axis\n    -> set dims to [2, 2]',
  ],
  [
    'another size behind reshape',
    'single',
    { ...SINGLE, input: [tensor('x', [2], { reshape: { shape: [2, 1] } })] },
    'has shape [1, 2] for the input "x", but the configuration has reshape [2, 1]\n    -> set reshape to [1, 2]',
  ],
  [
    'a batch axis that is fixed',
    'single',
    { max_batch_size: 1, input: [tensor('x', [2])], output: [tensor('y', [2])] },
    'has shape [1, 2] for the input "x"; with max_batch_size above 0 its first size must be variable\n    -> export it with dynamic_axes for axis 0, or set max_batch_size: 0 and give the whole shape in dims',
  ],
  [
    'a batch axis that is fixed, of tensors that Triton reads from the file',
    'single',
    { max_batch_size: 1 },
    'has shape [1, 2] for the input "x"; with max_batch_size above 0 its first size must be variable\n    -> export it with dynamic_axes for axis 0, or set max_batch_size: 0 and give the whole shape in dims',
  ],
  [
    'dims of a scalar that are more than one number',
    'scalars',
    { ...SCALARS, input: [tensor('x', [-1, 2]), tensor('count', [2])] },
    'has shape [] for the input "count", but the configuration has dims [2]\n    -> set dims to [1]',
  ],
])('onnxFaults reports %s', async (_, file, fields, says) => {
  // A fixed batch axis is reported for inputs and outputs.
  expect((await getFaults(file, fields))[0]).toBe(says);
});

test('onnxFaults reports all that differs', async () => {
  const input = [tensor('x', [4], { data_type: 'TYPE_FP64' }), tensor('mask', [1])];
  const faults = await onnxFaults(join(DATA, 'batched.onnx'), {
    name: 'm',
    ...BATCHED,
    input,
    output: [tensor('y', [4])],
  });
  expect(faults.map(({ message }) => message)).toEqual([
    'has an input that the configuration lacks: "flag" TYPE_FP32 [-1, 1]',
    'has TYPE_FP32 for the input "x", but the configuration has TYPE_FP64',
    'has no input "mask"; it has x, flag',
    'has shape [-1, 2, 2] for the output "y", but the configuration has dims [4], after the batch axis',
  ]);
});

const varint = (value: number): number[] =>
  value < 128 ? [value] : [(value % 128) | 128, ...varint(Math.floor(value / 128))];
const bytes = (id: number, content: Buffer | number[]): Buffer =>
  Buffer.from([...varint(id * 8 + 2), ...varint(content.length), ...content]);

test('readOnnxGraph reads the fields behind weights of 1.5 GB without reading the weights', async () => {
  const name = bytes(8, Buffer.from('weights'));
  const hole = 1.5e9;
  const inner = Buffer.concat([name, Buffer.from([...varint(9 * 8 + 2), ...varint(hole)])]);
  const head = Buffer.concat([Buffer.from([...varint(5 * 8 + 2), ...varint(inner.length + hole)]), inner]);
  const dim = bytes(1, Buffer.from([8, 3]));
  const type = bytes(2, bytes(1, Buffer.concat([Buffer.from([8, 16]), bytes(2, dim)])));
  const tail = Buffer.concat([
    bytes(11, Buffer.concat([bytes(1, Buffer.from('x')), type])),
    bytes(12, Buffer.concat([bytes(1, Buffer.from('list')), bytes(2, bytes(4, []))])),
  ]);
  const graph = Buffer.from([...varint(7 * 8 + 2), ...varint(head.length + hole + tail.length)]);
  const path = join(scratch, 'large.onnx');
  const file = openSync(path, 'w');
  writeSync(file, Buffer.concat([Buffer.from([8, 9]), graph, head]), 0, undefined, 0);
  const end = 2 + graph.length + head.length + hole;
  ftruncateSync(file, end);
  writeSync(file, tail, 0, undefined, end);
  closeSync(file);
  const before = process.memoryUsage().arrayBuffers;
  expect(await readOnnxGraph(path)).toEqual({
    inputs: [{ name: 'x', dataType: 'TYPE_BF16', shape: [3] }],
    initializers: new Set(['weights']),
    outputs: [{ name: 'list', dataType: undefined, shape: undefined }],
    external: new Map(),
  });
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 26);
  const config: object = { input: [tensor('x', [3], { data_type: 'TYPE_BF16' })], output: [tensor('list', [1])] };
  expect(await onnxFaults(path, { name: 'm', ...config })).toEqual([
    {
      message: 'has an output "list" of a data type that Triton does not support',
      hint: 'export the model with a data type that Triton supports',
    },
  ]);
});

test('onnxFaults reports weights outside of the file that are missing, truncated or not published', async () => {
  const entry = (key: string, value: string): Buffer =>
    bytes(13, Buffer.concat([bytes(1, Buffer.from(key)), bytes(2, Buffer.from(value))]));
  const weights = (file: string): Buffer =>
    bytes(
      5,
      Buffer.concat([
        bytes(8, Buffer.from('w')),
        ...[entry('location', file), entry('offset', '4096'), entry('length', '8')],
      ]),
    );
  const path = join(scratch, 'outside.onnx');
  writeFileSync(path, bytes(7, Buffer.concat(['a', 'b', 'c', '../onnx-tensors.test.ts'].map(weights))));
  writeFileSync(join(scratch, 'a'), Buffer.alloc(4104));
  writeFileSync(join(scratch, 'b'), Buffer.alloc(134));
  expect((await onnxFaults(path, { name: 'm' })).map(({ message }) => message)).toEqual([
    'has its weights in b, which has 134 of at least 4104 bytes',
    'has its weights in c, which is not in its version folder',
    'has its weights in ../onnx-tensors.test.ts, which is not in its version folder',
  ]);
});

test.each([
  ['a text', Buffer.from('version https://git-lfs.github.com/spec/v1')],
  ['TorchScript', Buffer.from('PK\x03\x04\x00\x00\x08')],
  ['a file that is cut short', readFileSync(join(DATA, 'batched.onnx')).subarray(0, -9)],
  ['an endless number', Buffer.alloc(100, 0xff)],
  ['zeros', Buffer.alloc(100)],
])('npm run validate reports %s as no ONNX file', async (_, content) => {
  const file = join(scratch, 'broken.onnx');
  writeFileSync(file, content);
  expect(await onnxFaults(file, { name: 'm' })).toEqual([
    {
      message: 'is not an ONNX file, or is truncated',
      hint: 'save it with torch.onnx.export(model, inputs, path), or copy it again',
    },
  ]);
});

test.each([
  ['beside a model.yaml', 'model.yaml'],
  ['with default_model_filename', 'config.pbtxt'],
])('a repository is read with the tensors of its ONNX file compared, %s', async (_, config) => {
  const [text, key] =
    config === 'model.yaml'
      ? [JSON.stringify({ platform: 'onnxruntime_onnx', ...SINGLE, output: [tensor('z', [1, 2])] }), 'model.onnx']
      : ['backend: "onnxruntime" max_batch_size: 8 default_model_filename: "net.onnx"', 'net.onnx'];
  const content = readFileSync(join(DATA, 'single.onnx'));
  const { texts } = await read(folder({ [`m/${config}`]: text, [`m/1/${key}`]: content }));
  expect(texts).toContainEqual(expect.stringContaining(`m/1/${key}: has `));
});
