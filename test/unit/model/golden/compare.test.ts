import { compareAnswer, describeMismatch, measureAnswer } from '../../../../src/model/golden';
import type { ExpectedOutput } from '../../../../src/model/golden/request';
import type { Tensor } from '../../../../src/triton/tensor';

const floats = (values: number[], shape: number[] = [1, values.length]): Tensor => ({
  name: 'y',
  datatype: 'FP32',
  shape,
  data: Float32Array.from(values),
});
const texts = (...values: string[]): Tensor => ({
  name: 'y',
  datatype: 'BYTES',
  shape: [values.length],
  data: values.map((value) => Buffer.from(value)),
});
const longs = (...values: bigint[]): Tensor => ({
  name: 'y',
  datatype: 'INT64',
  shape: [values.length],
  data: BigInt64Array.from(values),
});
const bools = (...values: boolean[]): Tensor => ({
  name: 'y',
  datatype: 'BOOL',
  shape: [values.length],
  data: Uint8Array.from(values, Number),
});
const values = (tensor: Tensor, absolute = 0, relative = 0): ExpectedOutput => ({
  name: 'y',
  tensor,
  tolerance: { absolute, relative },
});
const compared = (expected: ExpectedOutput, ...answer: Tensor[]): string | undefined => {
  const mismatch = compareAnswer({ outputs: [expected] }, answer);
  return mismatch === undefined ? undefined : describeMismatch(mismatch);
};

test.each<[string, ExpectedOutput, Tensor]>([
  ['equal values', values(floats([1, 2])), floats([1, 2])],
  ['a difference within the absolute tolerance', values(floats([1, 2]), 0.5), floats([1.5, 1.5])],
  ['a difference within the relative tolerance', values(floats([100, 0]), 0, 0.25), floats([125, 0])],
  ['both tolerances together', values(floats([100]), 1, 0.25), floats([126])],
  ['NaN and infinities where they are expected', values(floats([NaN, Infinity])), floats([NaN, Infinity])],
  ['zeros of either sign', values(floats([0])), floats([-0])],
  ['equal strings', values(texts('a', 'ä')), texts('a', 'ä')],
  ['integers beyond 2^53', values(longs(2n ** 60n)), longs(2n ** 60n)],
  ['integers within a tolerance', values(longs(10n), 1), longs(9n)],
  ['an empty tensor', values(floats([], [0, 2])), floats([], [0, 2])],
])('compareAnswer accepts %s', (_, expected, received) => {
  expect(compared(expected, received)).toBeUndefined();
});

test.each<[string, ExpectedOutput, Tensor[], string]>([
  [
    'a value beyond the tolerance',
    values(floats([1, 2, 3, 4], [2, 2]), 0.125),
    [floats([1, 2, 3.5, 8], [2, 2])],
    'y[1, 0] is 3.5, expected 3; largest difference 4, 2 of 4 values differ',
  ],
  [
    'a value beyond the relative tolerance',
    values(floats([100]), 0, 0.25),
    [floats([126])],
    'y[0, 0] is 126, expected 100; largest difference 26, 1 of 1 values differ',
  ],
  ['NaN for a number', values(floats([1]), 1e9), [floats([NaN])], 'y[0, 0] is NaN, expected 1; 1 of 1 values differ'],
  ['a number for NaN', values(floats([NaN]), 1e9), [floats([1])], 'y[0, 0] is 1, expected NaN; 1 of 1 values differ'],
  [
    'infinity for a number',
    values(floats([1]), 1, 1e9),
    [floats([Infinity])],
    'y[0, 0] is Infinity, expected 1; 1 of 1 values differ',
  ],
  [
    'the other infinity',
    values(floats([Infinity]), 1),
    [floats([-Infinity])],
    'y[0, 0] is -Infinity, expected Infinity; 1 of 1 values differ',
  ],
  [
    'a number for infinity',
    values(floats([Infinity]), 1, 1),
    [floats([5])],
    'y[0, 0] is 5, expected Infinity; 1 of 1 values differ',
  ],
  ['another string', values(texts('a', 'b')), [texts('a', 'c')], 'y[1] is "c", expected "b"; 1 of 2 values differ'],
  [
    'an integer that differs by one beyond 2^53',
    values(longs(2n ** 60n)),
    [longs(2n ** 60n + 1n)],
    'y[0] is 1152921504606846977, expected 1152921504606846976; largest difference 1, 1 of 1 values differ',
  ],
  [
    'another boolean, because no tolerance applies',
    values(bools(true, false), 5, 5),
    [bools(true, true)],
    'y[1] is 1, expected 0; largest difference 1, 1 of 2 values differ',
  ],
  ['another shape', values(floats([1, 2])), [floats([1, 2], [2, 1])], 'y has shape [2, 1], expected [1, 2]'],
  ['another data type', values(floats([1])), [longs(1n)], 'y has data type INT64, expected FP32'],
  ['no such output', values(floats([1])), [], 'y is missing from the answer'],
])('compareAnswer refuses %s', (_, expected, answer, message) => {
  expect(compared(expected, ...answer)).toBe(message);
});

test('compareAnswer gives position and values as data too', () => {
  expect(compareAnswer({ outputs: [values(floats([1, 2]))] }, [floats([1, 4])])).toEqual({
    tensor: 'y',
    problem: '[0, 1] is 4, expected 2',
    position: [0, 1],
    expected: '2',
    received: '4',
    largestDifference: 2,
    differing: 1,
    elements: 2,
  });
});

test.each<[string, ExpectedOutput, Tensor[], [number, number][]]>([
  ['within the tolerance', values(floats([1, -2]), 1), [floats([1.5, -2.25])], [[0.5, 2]]],
  ['beyond the tolerance', values(floats([1, 2])), [floats([4, 2])], [[3, 2]]],
  ['NaN and infinity, which are left out', values(floats([NaN, Infinity, 3])), [floats([1, 1, 3.5])], [[0.5, 3]]],
  ['64-bit integers', values(longs(5n, -9n)), [longs(5n, -7n)], [[2, 9]]],
  ['an empty tensor', values(floats([], [0, 2])), [floats([], [0, 2])], [[0, 0]]],
  ['another shape', values(floats([1, 2])), [floats([1, 2], [2, 1])], []],
  ['another type', values(floats([1])), [longs(1n)], []],
  ['a missing tensor', values(floats([1])), [], []],
  ['strings', values(texts('a')), [texts('b')], []],
])('measureAnswer: %s', (_, expected, answer, found) => {
  const measured = measureAnswer({ name: 'case', outputs: [expected] }, answer);
  expect(measured.map(({ largest, largestExpected }) => [largest, largestExpected])).toEqual(found);
});
