import {
  getTopClasses,
  classTable,
  outputTable,
  resultJson,
  similarities,
} from '../../../../src/commands/infer/results';
import { exactValue } from '../../../../src/core/exact-json';
import { toTensor } from '../../../../src/triton/tensor-from-json';

const lines = (text: string | undefined): string[] => (text ?? '').split('\n');

it('getTopClasses reads labels with colons, and classes without labels', () => {
  const output = toTensor('y', 'BYTES', [
    ['2.5:2:zebra: striped', '-0.25:0'],
    ['1.0:1:dog', '0.5:0:cat'],
  ]);
  const rows = getTopClasses(output);
  expect(rows[0]).toEqual([
    { score: 2.5, index: 2, label: 'zebra: striped' },
    { score: -0.25, index: 0, label: '' },
  ]);
  expect(getTopClasses(toTensor('y', 'BYTES', ['1.0:1:dog']))).toEqual([[{ score: 1, index: 1, label: 'dog' }]]);
  expect(lines(classTable(rows, ['a.jpg', 'b.jpg'])).filter((line) => /jpg|dog/.test(line))).toEqual([
    'a.jpg',
    'b.jpg',
    '1.000      1  dog',
  ]);
});

it.each([
  [toTensor('y', 'INT32', [3, 1, 2]), 'y       INT32  [3]    3, 1, 2 (from 1 to 3, mean 2)'],
  [toTensor('y', 'FP32', [0.123456, NaN]), 'y       FP32  [2]    0.1235, NaN (1 of 2 values are not finite)'],
  [toTensor('y', 'BYTES', ['a', 'b"']), 'y       BYTES  [2]    "a", "b\\""'],
  [toTensor('y', 'FP32', []), 'y       FP32  [0]    none'],
  [toTensor('y', 'INT64', [1, 2, 3, 4, 5]), 'y       INT64  [5]    1, 2, 3, 4, ... (from 1 to 5, mean 3)'],
  [
    toTensor('y', 'INT64', [2n ** 53n + 1n, -(2n ** 53n) - 1n]),
    'y       INT64  [2]    9007199254740993, -9007199254740993 (from -9007199254740993 to 9007199254740993, mean 0)',
  ],
  [
    toTensor('y', 'FP32', [
      [1, 2],
      [3, 4],
    ]),
    'y       FP32  [2, 2]  1, 2',
    '                      3, 4',
    '                      (from 1 to 4, mean 2.5)',
  ],
  [toTensor('y', 'BYTES', [['a'], ['b']]), 'y       BYTES  [2, 1]  "a"', '                       "b"'],
  [
    toTensor('y', 'INT8', [[[0], [1]], [[2], [3]], [[4], [5]]]), // prettier-ignore
    'y       INT8  [3, 2, 1]  0',
    ...['1', '2', '3', '...', '(from 0 to 5, mean 2.5)'].map((line) => `                         ${line}`),
  ],
])('outputTable summarises %j', (output, ...expected) => {
  expect(lines(outputTable([output])).slice(2)).toEqual(expected);
});

it('similarities compares rows only if they are embeddings of norm 1', () => {
  const states = toTensor('states', 'FP32', [[[1]], [[2]]]);
  const embeddings = toTensor('y', 'FP32', [
    [1, 0],
    [0.6, 0.8],
  ]);
  expect(lines(similarities([states, embeddings], ['one', 'two']))[2]).toBe('     0.600  one   two');
  expect(
    similarities(
      [
        toTensor('y', 'FP32', [
          [1, 1],
          [1, 0],
        ]),
      ],
      ['one', 'two'],
    ),
  ).toBeUndefined();
  expect(similarities([embeddings], ['one'])).toBeUndefined();
  expect(similarities([states], ['one', 'two'])).toBeUndefined();
});

it('resultJson with exactValue writes numbers as text if JSON cannot express them', () => {
  const outputs = [toTensor('y', 'FP32', [1.5, NaN, -Infinity]), toTensor('n', 'INT64', [1n, 2n ** 60n])];
  const json = JSON.stringify(resultJson({ model: 'm', version: '1', outputs }, {}, []), exactValue);
  expect((JSON.parse(json) as { outputs: { data: unknown }[] }).outputs.map(({ data }) => data)).toEqual([
    [1.5, 'NaN', '-Infinity'],
    [1, '1152921504606846976'],
  ]);
});
