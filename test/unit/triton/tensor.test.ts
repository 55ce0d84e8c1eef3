import { decodeTensor, elementCount, encodeTensor, joinRows, type Tensor } from '../../../src/triton/tensor';

/** Each data type with elements and the bytes Triton's documentation gives for them: little endian, C order. */
const KNOWN: [tensor: Tensor, hex: string][] = [
  [{ name: 'x', datatype: 'BOOL', shape: [3], data: Uint8Array.of(1, 0, 1) }, '010001'],
  [{ name: 'x', datatype: 'UINT8', shape: [2], data: Uint8Array.of(1, 255) }, '01ff'],
  [{ name: 'x', datatype: 'UINT16', shape: [2], data: Uint16Array.of(1, 0xfffe) }, '0100feff'],
  [{ name: 'x', datatype: 'UINT32', shape: [2], data: Uint32Array.of(1, 0xfffffffe) }, '01000000feffffff'],
  [{ name: 'x', datatype: 'UINT64', shape: [1], data: BigUint64Array.of(2n ** 64n - 2n) }, 'feffffffffffffff'],
  [{ name: 'x', datatype: 'INT8', shape: [2], data: Int8Array.of(1, -2) }, '01fe'],
  [{ name: 'x', datatype: 'INT16', shape: [2], data: Int16Array.of(1, -2) }, '0100feff'],
  [{ name: 'x', datatype: 'INT32', shape: [2], data: Int32Array.of(1, -2) }, '01000000feffffff'],
  [{ name: 'x', datatype: 'INT64', shape: [1], data: BigInt64Array.of(-2n) }, 'feffffffffffffff'],
  [{ name: 'x', datatype: 'FP16', shape: [2], data: Float32Array.of(1, -2) }, '003c00c0'],
  [{ name: 'x', datatype: 'BF16', shape: [2], data: Float32Array.of(1, -2) }, '803f00c0'],
  [{ name: 'x', datatype: 'FP32', shape: [2], data: Float32Array.of(1, -2) }, '0000803f000000c0'],
  [{ name: 'x', datatype: 'FP64', shape: [1], data: Float64Array.of(-2) }, '00000000000000c0'],
  [
    { name: 'x', datatype: 'BYTES', shape: [3], data: [Buffer.from('ab'), Buffer.alloc(0), Buffer.from('c')] },
    '020000006162000000000100000063',
  ],
];

it.each(KNOWN)('the tensor %j is encoded as in the documentation of Triton, and decoded', (tensor, hex) => {
  const bytes = Buffer.from(hex, 'hex');
  const unaligned = Buffer.concat([Buffer.of(0), bytes]).subarray(1);
  expect(encodeTensor(tensor).toString('hex')).toBe(hex);
  expect(decodeTensor('x', tensor.datatype, tensor.shape, bytes)).toEqual(tensor);
  expect(decodeTensor('x', tensor.datatype, tensor.shape, unaligned)).toEqual(tensor);
});

it('encodeTensor encodes only the part of a buffer that a typed array views', () => {
  const data = Float32Array.of(1, 2, 3, 4).subarray(1, 3);
  expect(encodeTensor({ name: 'x', datatype: 'FP32', shape: [2], data }).toString('hex')).toBe('0000004000004040');
});

it('encodeTensor and decodeTensor accept tensors without elements', () => {
  const empty: Tensor = { name: 'x', datatype: 'FP32', shape: [2, 0], data: new Float32Array(0) };
  expect(encodeTensor(empty)).toEqual(Buffer.alloc(0));
  expect(decodeTensor('x', 'FP32', [2, 0], Buffer.alloc(0))).toEqual(empty);
});

it.each([
  [[], 1],
  [[3], 3],
  [[2, 3, 4], 24],
  [[2, 0, 4], 0],
])('elementCount of %j is %d', (shape, count) => {
  expect(elementCount(shape)).toBe(count);
});

describe('encodeTensor and decodeTensor reject', () => {
  const fp32 = (shape: number[]): Tensor => ({ name: 'x', datatype: 'FP32', shape, data: new Float32Array(6) });

  it.each([
    [
      'data that does not fill the shape',
      () => encodeTensor(fp32([2, 4])),
      "tensor 'x': 6 elements for shape [2, 4], which holds 8",
    ],
    [
      'a variable length',
      () => encodeTensor(fp32([-1, 6])),
      "tensor 'x': shape [-1, 6]; allowed: whole numbers from 0",
    ],
    [
      'a fraction as length',
      () => encodeTensor(fp32([1.5, 4])),
      "tensor 'x': shape [1.5, 4]; allowed: whole numbers from 0",
    ],
    [
      'bytes that do not fill the shape',
      () => decodeTensor('x', 'INT64', [2], Buffer.alloc(15)),
      "tensor 'x': 15 bytes for INT64 of shape [2], which has 16",
    ],
    [
      'more BYTES elements than the shape',
      () => decodeTensor('x', 'BYTES', [1], Buffer.alloc(8)),
      "tensor 'x': 2 elements for shape [1], which holds 1",
    ],
    [
      'an incomplete BYTES element',
      () => decodeTensor('x', 'BYTES', [1], Buffer.from('0200000061', 'hex')),
      "tensor 'x': element 0 is incomplete",
    ],
    [
      'an incomplete length of a BYTES element',
      () => decodeTensor('x', 'BYTES', [1], Buffer.from('0200', 'hex')),
      "tensor 'x': element 0 is incomplete",
    ],
    [
      'an unknown data type',
      () => decodeTensor('x', 'FP8', [1], Buffer.alloc(1)),
      "tensor 'x': unknown data type FP8; known: BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64, BYTES",
    ],
  ])('%s', (_, act, message) => {
    expect(act).toThrow(expect.objectContaining({ name: 'UserError', message }) as Error);
  });
});

const ROW: Tensor = { name: 'y', datatype: 'FP32', shape: [1, 2], data: Float32Array.of(1, 2) };

test.each<[string, Tensor]>([
  ['name', { ...ROW, name: 'z' }],
  ['data type', { ...ROW, datatype: 'INT32', data: Int32Array.of(1, 2) }],
  ['shape of its rows', { ...ROW, shape: [1, 3], data: Float32Array.of(1, 2, 3) }],
])('joinRows rejects a part with another %s', (_, part) => {
  expect(() => joinRows([ROW, ROW, part])).toThrow(/^the parts of a batch cannot be joined: 'y' FP32 \[1, 2\] and '/);
});

test('joinRows joins parts of any number of rows', () => {
  const two: Tensor = { ...ROW, shape: [2, 2], data: Float32Array.of(3, 4, 5, 6) };
  expect(joinRows([ROW, two])).toEqual({ ...ROW, shape: [3, 2], data: Float32Array.of(1, 2, 3, 4, 5, 6) });
});
