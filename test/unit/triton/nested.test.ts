import { nestedOf, tensorOf } from '../../../src/triton/nested';
import type { DataType } from '../../../src/triton/tensor';

it('takes the shape from the nesting', () => {
  expect(
    tensorOf('x', 'FP32', [
      [1, 2, 3],
      [4, 5, 6],
    ]),
  ).toEqual({
    name: 'x',
    datatype: 'FP32',
    shape: [2, 3],
    data: Float32Array.of(1, 2, 3, 4, 5, 6),
  });
  expect(tensorOf('x', 'FP32', 7)).toMatchObject({ shape: [], data: Float32Array.of(7) });
  expect(tensorOf('x', 'FP32', [])).toMatchObject({ shape: [0], data: new Float32Array(0) });
  expect(tensorOf('x', 'FP32', [[], []])).toMatchObject({ shape: [2, 0] });
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
])('holds the elements of %s as they are held', (datatype, data) => {
  expect(tensorOf('x', datatype, [1, 0]).data).toStrictEqual(data);
  expect(nestedOf(tensorOf('x', datatype, [1, 0]))).toEqual([1, 0]);
});

it('makes bytes of strings, and strings of bytes', () => {
  const tensor = tensorOf('x', 'BYTES', [['naïve', '']]);
  expect(tensor).toMatchObject({ shape: [1, 2], data: [Buffer.from('naïve'), Buffer.alloc(0)] });
  expect(nestedOf(tensor)).toEqual([['naïve', '']]);
});

it('keeps whole numbers beyond 2^53 whole', () => {
  const tensor = tensorOf('x', 'INT64', [2n ** 60n, 5]);
  expect(tensor.data).toEqual(BigInt64Array.of(2n ** 60n, 5n));
  expect(nestedOf(tensor)).toEqual([2n ** 60n, 5]);
});

it('rounds fractions, and keeps what is infinite', () => {
  expect(tensorOf('x', 'FP32', [0.1, -Infinity]).data).toEqual(Float32Array.of(0.1, -Infinity));
  expect(tensorOf('x', 'FP16', [65519, NaN]).data).toEqual(Float32Array.of(65519, NaN));
});

it('nests as deep as the shape', () => {
  const nested = [
    [[1], [2]],
    [[3], [4]],
    [[5], [6]],
  ];
  expect(nestedOf(tensorOf('x', 'INT32', nested))).toEqual(nested);
  expect(nestedOf(tensorOf('x', 'FP32', 7))).toBe(7);
  expect(nestedOf({ name: 'x', datatype: 'FP32', shape: [2, 0], data: new Float32Array(0) })).toEqual([[], []]);
});

describe('refuses', () => {
  it.each<[string, DataType, Parameters<typeof tensorOf>[2], string]>([
    ['uneven rows', 'FP32', [[1, 2], [3]], "tensor 'x': rows of axis 1 differ in length; the first ones give [2, 2]"],
    ['a row less deep', 'FP32', [[1], 2], "tensor 'x': rows of axis 1 differ in length; the first ones give [2, 1]"],
    ['a row too deep', 'FP32', [1, [2]], "tensor 'x': rows of axis 1 differ in length; the first ones give [2]"],
    ['what an integer type does not hold', 'UINT8', [256], "tensor 'x': 256 is no UINT8"],
    ['a fraction', 'INT32', [1.5], "tensor 'x': 1.5 is no INT32"],
    ['a fraction of 64 bits', 'INT64', [0.5], "tensor 'x': 0.5 is no INT64"],
    ['a number that JSON has rounded', 'INT64', [2 ** 53], "tensor 'x': 9007199254740992 is no INT64"],
    ['what 64 bits do not hold', 'UINT64', [-1n], "tensor 'x': -1 is no UINT64"],
    ['what becomes infinite', 'FP32', [1e39], "tensor 'x': 1e+39 is no FP32"],
    ['what becomes infinite with 16 bits', 'FP16', [65520], "tensor 'x': 65520 is no FP16"],
    ['a string for a number', 'FP32', ['1'], `tensor 'x': "1" is no FP32`],
    ['a number for a string', 'BYTES', [1], "tensor 'x': 1 is no BYTES"],
    ['neither true nor false', 'BOOL', [2], "tensor 'x': 2 is no BOOL"],
  ])('%s', (_, datatype, nested, message) => {
    expect(() => tensorOf('x', datatype, nested)).toThrow(
      expect.objectContaining({ name: 'UserError', message }) as Error,
    );
  });
});
