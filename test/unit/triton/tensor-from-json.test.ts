import { toNested, toTensor, type Nested } from '../../../src/triton/tensor-from-json';
import type { DataType } from '../../../src/triton/tensor';

it('toTensor takes the shape from the nesting', () => {
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
])('toTensor stores %s in its array type', (datatype, data) => {
  expect(toTensor('x', datatype, [1, 0]).data).toStrictEqual(data);
  expect(toNested(toTensor('x', datatype, [1, 0]))).toEqual([1, 0]);
});

it('toTensor converts strings to BYTES, and toNested converts them back', () => {
  const tensor = toTensor('x', 'BYTES', [['naïve', '']]);
  expect(tensor).toMatchObject({ shape: [1, 2], data: [Buffer.from('naïve'), Buffer.alloc(0)] });
  expect(toNested(tensor)).toEqual([['naïve', '']]);
});

it('toTensor and toNested keep integers above 2^53 exact', () => {
  const tensor = toTensor('x', 'INT64', [2n ** 60n, 5]);
  expect(tensor.data).toEqual(BigInt64Array.of(2n ** 60n, 5n));
  expect(toNested(tensor)).toEqual([2n ** 60n, 5]);
});

it('toTensor rounds fractions and keeps infinity and NaN', () => {
  expect(toTensor('x', 'FP32', [0.1, -Infinity]).data).toEqual(Float32Array.of(0.1, -Infinity));
  expect(toTensor('x', 'FP16', [65519, NaN]).data).toEqual(Float32Array.of(65504, NaN));
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

describe('toTensor rejects', () => {
  it.each<[values: string, datatype: DataType, nested: Nested, message: string]>([
    ['uneven rows', 'FP32', [[1, 2], [3]], 'rows of axis 1 differ in length; the first ones give [2, 2]'],
    ['a row that is less deep', 'FP32', [[1], 2], 'rows of axis 1 differ in length; the first ones give [2, 1]'],
    ['a row that is too deep', 'FP32', [1, [2]], 'rows of axis 1 differ in length; the first ones give [2]'],
    ['an integer out of range', 'UINT8', [256], '256 is not a valid UINT8 value'],
    ['a fraction for an integer', 'INT32', [1.5], '1.5 is not a valid INT32 value'],
    ['a fraction for a 64-bit integer', 'INT64', [0.5], '0.5 is not a valid INT64 value'],
    ['an integer that JSON rounds', 'INT64', [2 ** 53], '9007199254740992 is not a valid INT64 value'],
    ['a 64-bit integer out of range', 'UINT64', [-1n], '-1 is not a valid UINT64 value'],
    ['a float that becomes infinite', 'FP32', [1e39], '1e+39 is not a valid FP32 value'],
    ['a 16-bit float that becomes infinite', 'FP16', [65520], '65520 is not a valid FP16 value'],
    ['a string for a number', 'FP32', ['1'], '"1" is not a valid FP32 value'],
    ['a number for a string', 'BYTES', [1], '1 is not a valid BYTES value'],
    ['a number that is neither 0 nor 1 for BOOL', 'BOOL', [2], '2 is not a valid BOOL value'],
  ])('%s', (_, datatype, nested, message) => {
    expect(() => toTensor('x', datatype, nested)).toThrow(
      expect.objectContaining({ name: 'UserError', message: `tensor 'x': ${message}` }) as Error,
    );
  });
});
