import { toNested, toTensor, type Nested } from '../../../src/triton/nested';
import type { DataType } from '../../../src/triton/tensor';

it('readTensor takes the shape from the nesting', () => {
  expect(
    toTensor('x', 'FP32', [
      [1, 2, 3],
      [4, 5, 6],
    ]),
  ).toEqual({
    name: 'x',
    datatype: 'FP32',
    shape: [2, 3],
    data: Float32Array.of(1, 2, 3, 4, 5, 6),
  });
  expect(toTensor('x', 'FP32', 7)).toMatchObject({ shape: [], data: Float32Array.of(7) });
  expect(toTensor('x', 'FP32', [])).toMatchObject({ shape: [0], data: new Float32Array(0) });
  expect(toTensor('x', 'FP32', [[], []])).toMatchObject({ shape: [2, 0] });
});

it.each<[DataType, unknown]>([
  ['BOOL', Uint8Array.of(1, 0)],
  ['UINT8', Uint8Array.of(1, 0)],
  ['UINT16', Uint16Array.of(1, 0)],
  ['UINT32', Uint32Array.of(1, 0)],
  ['UINT64', BigUint64Array.of(1n, 0n)],
  ['INT8', Int8Array.of(1, 0)],
  ['INT16', Int16Array.of(1, 0)],
  ['INT32', Int32Array.of(1, 0)],
  ['INT64', BigInt64Array.of(1n, 0n)],
  ['FP16', Float32Array.of(1, 0)],
  ['BF16', Float32Array.of(1, 0)],
  ['FP32', Float32Array.of(1, 0)],
  ['FP64', Float64Array.of(1, 0)],
])('readTensor stores %s in its array type', (datatype, data) => {
  expect(toTensor('x', datatype, [1, 0]).data).toStrictEqual(data);
  expect(toNested(toTensor('x', datatype, [1, 0]))).toEqual([1, 0]);
});

it('readTensor converts strings to BYTES, and toNested converts them back', () => {
  const tensor = toTensor('x', 'BYTES', [['naïve', '']]);
  expect(tensor).toMatchObject({ shape: [1, 2], data: [Buffer.from('naïve'), Buffer.alloc(0)] });
  expect(toNested(tensor)).toEqual([['naïve', '']]);
});

it('readTensor and toNested keep integers above 2^53 exact', () => {
  const tensor = toTensor('x', 'INT64', [2n ** 60n, 5]);
  expect(tensor.data).toEqual(BigInt64Array.of(2n ** 60n, 5n));
  expect(toNested(tensor)).toEqual([2n ** 60n, 5]);
});

it('readTensor rounds fractions and keeps infinity and NaN', () => {
  expect(toTensor('x', 'FP32', [0.1, -Infinity]).data).toEqual(Float32Array.of(0.1, -Infinity));
  expect(toTensor('x', 'FP16', [65519, NaN]).data).toEqual(Float32Array.of(65519, NaN));
});

it('toNested nests as deep as the shape', () => {
  const nested = [
    [[1], [2]],
    [[3], [4]],
    [[5], [6]],
  ];
  expect(toNested(toTensor('x', 'INT32', nested))).toEqual(nested);
  expect(toNested(toTensor('x', 'FP32', 7))).toBe(7);
  expect(toNested({ name: 'x', datatype: 'FP32', shape: [2, 0], data: new Float32Array(0) })).toEqual([[], []]);
});

describe('readTensor rejects', () => {
  it.each<{ values: string; datatype: DataType; nested: Nested; message: string }>([
    {
      values: 'uneven rows',
      datatype: 'FP32',
      nested: [[1, 2], [3]],
      message: "tensor 'x': rows of axis 1 differ in length; the first ones give [2, 2]",
    },
    {
      values: 'a row that is less deep',
      datatype: 'FP32',
      nested: [[1], 2],
      message: "tensor 'x': rows of axis 1 differ in length; the first ones give [2, 1]",
    },
    {
      values: 'a row that is too deep',
      datatype: 'FP32',
      nested: [1, [2]],
      message: "tensor 'x': rows of axis 1 differ in length; the first ones give [2]",
    },
    {
      values: 'an integer out of range',
      datatype: 'UINT8',
      nested: [256],
      message: "tensor 'x': 256 is not a valid UINT8 value",
    },
    {
      values: 'a fraction for an integer',
      datatype: 'INT32',
      nested: [1.5],
      message: "tensor 'x': 1.5 is not a valid INT32 value",
    },
    {
      values: 'a fraction for a 64-bit integer',
      datatype: 'INT64',
      nested: [0.5],
      message: "tensor 'x': 0.5 is not a valid INT64 value",
    },
    {
      values: 'an integer that JSON rounds',
      datatype: 'INT64',
      nested: [2 ** 53],
      message: "tensor 'x': 9007199254740992 is not a valid INT64 value",
    },
    {
      values: 'a 64-bit integer out of range',
      datatype: 'UINT64',
      nested: [-1n],
      message: "tensor 'x': -1 is not a valid UINT64 value",
    },
    {
      values: 'a float that becomes infinite',
      datatype: 'FP32',
      nested: [1e39],
      message: "tensor 'x': 1e+39 is not a valid FP32 value",
    },
    {
      values: 'a 16-bit float that becomes infinite',
      datatype: 'FP16',
      nested: [65520],
      message: "tensor 'x': 65520 is not a valid FP16 value",
    },
    {
      values: 'a string for a number',
      datatype: 'FP32',
      nested: ['1'],
      message: `tensor 'x': "1" is not a valid FP32 value`,
    },
    {
      values: 'a number for a string',
      datatype: 'BYTES',
      nested: [1],
      message: "tensor 'x': 1 is not a valid BYTES value",
    },
    {
      values: 'a number that is neither 0 nor 1 for BOOL',
      datatype: 'BOOL',
      nested: [2],
      message: "tensor 'x': 2 is not a valid BOOL value",
    },
  ])('$values', ({ datatype, nested, message }) => {
    expect(() => toTensor('x', datatype, nested)).toThrow(
      expect.objectContaining({ name: 'UserError', message }) as Error,
    );
  });
});
