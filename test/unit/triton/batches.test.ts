import { joinRows } from '../../../src/triton/batches';
import type { Tensor } from '../../../src/triton/tensor';

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
