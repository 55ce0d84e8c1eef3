import { contradiction, zeroInputs } from '../../../../src/model/golden';
import type { Tensor } from '../../../../src/triton/tensor';

const CONFIG = {
  max_batch_size: 4,
  input: [
    { name: 'x', data_type: 'TYPE_FP32', dims: [-1, 2] },
    { name: 's', data_type: 'TYPE_STRING', dims: [1] },
    { name: 'o', data_type: 'TYPE_FP32', dims: [1], optional: true },
  ],
  output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [-1, 2] }],
};
const y = (shape: number[], more: object = {}): Tensor => ({
  name: 'y',
  datatype: 'FP32',
  shape,
  data: Float32Array.of(0, 0),
  ...more,
});

test('zeroInputs makes one row of zeros and empty strings for the required inputs', () => {
  expect(zeroInputs(CONFIG)).toEqual([
    { name: 'x', datatype: 'FP32', shape: [1, 1, 2], data: Float32Array.of(0, 0) },
    { name: 's', datatype: 'BYTES', shape: [1, 1], data: [Buffer.alloc(0)] },
  ]);
});

test.each<[string, Tensor[], string | undefined]>([
  ['as configured', [y([1, 1, 2])], undefined],
  ['of any length where the configuration has any', [y([1, 7, 2])], undefined],
  ['without the output', [], 'output y is missing from the answer'],
  [
    'of another data type',
    [y([1, 1, 2], { datatype: 'FP64' })],
    'output y has data type FP64, but the configuration has FP32',
  ],
  ['of another shape', [y([1, 1, 3])], 'output y has shape [1, 1, 3], but the configuration has [1, -1, 2]'],
  ['of another batch', [y([2, 1, 2])], 'output y has shape [2, 1, 2], but the configuration has [1, -1, 2]'],
])('contradiction of an answer %s', (_, answer, message) => {
  expect(contradiction(CONFIG, answer)).toBe(message);
});
