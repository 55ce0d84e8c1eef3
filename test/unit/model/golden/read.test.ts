import { join } from 'node:path';
import { decodeGolden, encodeGolden, readGolden } from '../../../../src/model/golden';
import { writeNpy } from '../../../../src/model/media/npy';
import { readRepository } from '../../../../src/model';
import type { ModelConfig } from '../../../../src/model';
import { DATA_TYPES, type DataType, type Tensor } from '../../../../src/triton/tensor';
import { folder, removeFolders } from '../../../support/model-files';

afterAll(removeFolders);

const NAMES = Object.keys(DATA_TYPES) as DataType[];

/** A model with an input and an output of each data type, of any length. */
const EVERY: ModelConfig = {
  name: 'm',
  input: NAMES.map((name) => ({ name, data_type: DATA_TYPES[name].configName, dims: [-1] })),
  output: NAMES.map((name) => ({ name, data_type: DATA_TYPES[name].configName, dims: [-1] })),
};

const data = (type: DataType): unknown[] =>
  type === 'BYTES'
    ? ['a', 'ä']
    : type === 'BOOL'
      ? [true, false]
      : type.startsWith('INT')
        ? [-1, 100]
        : type.startsWith('UINT')
          ? [1, 200]
          : ['NaN', '-Infinity', 0.1];

const tensors = NAMES.map((name) => ({ name, data: data(name) }));

const readOne = async (content: object, config: ModelConfig, files: Record<string, string | Buffer> = {}) => {
  const root = folder({ 'golden/a.json': JSON.stringify(content), ...(files as Record<string, string>) });
  const { requests, problems } = await readGolden(root, config, [1]);
  return { request: requests[0], problems };
};

test('every data type is read from JSON, and is the same after the object of a release', async () => {
  const { request, problems } = await readOne({ inputs: tensors, outputs: tensors }, EVERY);
  expect(problems).toEqual([]);
  const requests = request === undefined ? [] : [request];
  expect(request?.inputs.map(({ name, shape }) => `${name} ${shape.join()}`)).toEqual(
    tensors.map(({ name, data }) => `${name} ${data.length}`),
  );
  expect(decodeGolden(encodeGolden(requests), 'x')).toEqual(requests);
});

test('values of FP16 are those that the wire can hold', async () => {
  const only = { ...EVERY, input: [{ name: 'FP16', data_type: 'TYPE_FP16', dims: [-1] }] };
  const { request } = await readOne(
    { inputs: [{ name: 'FP16', data: [0.1] }], outputs: [{ name: 'FP16', data: [0.1] }] },
    only,
  );
  expect([...(request?.inputs[0]?.data as Float32Array)]).toEqual([0.0999755859375]);
});

const npy = (tensor: Tensor): Record<string, Buffer> => ({ 'golden/x.npy': writeNpy(tensor) });
test.each<[string, DataType, Record<string, Buffer>, unknown[]]>([
  [
    'float64 for FP32',
    'FP32',
    npy({ name: '', datatype: 'FP64', shape: [2], data: Float64Array.of(0.1, -2) }),
    [Math.fround(0.1), -2],
  ],
  ['float32 for BF16', 'BF16', npy({ name: '', datatype: 'FP32', shape: [1], data: Float32Array.of(1.5) }), [1.5]],
  ['int64 for INT8', 'INT8', npy({ name: '', datatype: 'INT64', shape: [1], data: BigInt64Array.of(-128n) }), [-128]],
  ['uint8 for INT64', 'INT64', npy({ name: '', datatype: 'UINT8', shape: [1], data: Uint8Array.of(255) }), [255n]],
])('npy: %s is converted by value', async (_, type, files, wanted) => {
  const config = { ...EVERY, input: (EVERY.input ?? []).filter(({ name }) => name === type) };
  const { request, problems } = await readOne(
    { inputs: [{ name: type, file: 'x.npy' }], outputs: [{ name: 'INT8', data: [1] }] },
    config,
    files,
  );
  expect(problems).toEqual([]);
  expect(Array.from<unknown>(request?.inputs[0]?.data ?? [])).toEqual(wanted);
});

test('a configuration without tensors: the request names the data types, or an array has them', async () => {
  const bare: ModelConfig = { name: 'm', backend: 'python' };
  const named = { inputs: [{ name: 'x', datatype: 'INT8', data: [1] }], outputs: [{ name: 'y', file: 'x.npy' }] };
  const files = npy({ name: '', datatype: 'FP64', shape: [1], data: Float64Array.of(0.1) });
  expect(await readOne(named, bare, files)).toMatchObject({
    problems: [],
    request: { inputs: [{ datatype: 'INT8' }], outputs: [{ tensor: { datatype: 'FP64' } }] },
  });
  const unnamed = { inputs: [{ name: 'x', data: [1] }], outputs: [{ name: 'y', file: 'x.npy' }] };
  expect((await readOne(unnamed, bare, files)).problems).toMatchObject([{ field: 'inputs[0].datatype' }]);
});

test('readGolden reads integers beyond 2^53 exactly', async () => {
  const root = folder({
    'golden/a.json':
      '{"inputs": [{"name": "x", "datatype": "INT64", "data": [1152921504606846979]}], ' +
      '"outputs": [{"name": "y", "datatype": "UINT64", "data": [18446744073709551615]}]}',
  });
  const { requests, problems } = await readGolden(root, { name: 'm', backend: 'python' }, [1]);
  expect(problems).toEqual([]);
  expect(requests[0]).toMatchObject({
    inputs: [{ data: BigInt64Array.of(1152921504606846979n) }],
    outputs: [{ tensor: { data: BigUint64Array.of(18446744073709551615n) } }],
  });
});

test('requests of a model folder have their version and the tolerance that is given, or the usual one', async () => {
  const content = (tolerance?: object): string =>
    JSON.stringify({ inputs: [{ name: 'x', data: [1] }], outputs: [{ name: 'y', data: [1], tolerance }] });
  const root = folder({
    'm/config.pbtxt':
      'backend: "anything" input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }',
    'm/1/weights.bin': 'x',
    'm/notes.txt': 'x',
    'm/golden/b.json': content(),
    'm/golden/1/a.json': content({ absolute: 0.5 }),
    'm/golden/.hidden.json': '{',
    'm/golden/README.md': 'not a request',
  });
  const { models, problems } = await readRepository(root);
  expect(problems).toEqual([]);
  expect(models[0]?.golden).toMatchObject([
    { name: '1/a', version: 1, outputs: [{ tolerance: { absolute: 0.5, relative: 0 } }] },
    { name: 'b', outputs: [{ tolerance: { absolute: 1e-5, relative: 1e-5 } }] },
  ]);
  // Of a hand-written configuration everything is published but these.
  expect(models[0]?.extraFiles.map(({ path }) => path)).toEqual([join(root, 'm', 'notes.txt')]);
});

test('requests of a version that is not served, which may have had other tensors, are not read', async () => {
  const root = folder({ 'golden/1/a.json': '{"inputs": [{"name": "gone"}]}', 'golden/2/a.json': '{}' });
  const { problems } = await readGolden(root, EVERY, [1, 2], [2]);
  expect(problems.map(({ file }) => file.replace(/^.*golden/, 'golden'))).toEqual([
    'golden/2/a.json',
    'golden/2/a.json',
  ]);
});

test('a file may begin with a byte order mark', async () => {
  const root = folder({ 'golden/a.json': `\uFEFF${JSON.stringify({ inputs: tensors, outputs: tensors })}` });
  expect(await readGolden(root, EVERY, [1])).toMatchObject({ requests: [{ name: 'a' }], problems: [] });
});

test('control sequences of a file that is not JSON do not reach the terminal', async () => {
  const root = folder({ 'golden/a.json': '{"a": \u001b[31mEVIL\u001b]0;title\u0007' });
  const { problems } = await readGolden(root, EVERY, [1]);
  expect(problems[0]?.message).toMatch(/^is not JSON: .*EVIL/);
  expect(problems[0]?.message).not.toMatch(/\p{Cc}/u);
});
