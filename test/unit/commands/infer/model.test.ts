import { formatProblem, type UserError } from '../../../../src/core/errors';
import { inputsFor, type InputValue } from '../../../../src/commands/infer/model';
import { exampleInput } from '../../../../src/commands/infer/request';

const MODEL = {
  name: 'm',
  inputs: [
    { name: 'image', datatype: 'FP32', shape: [-1, 2, 2] },
    { name: 'label', datatype: 'BYTES', shape: [-1, 1] },
  ],
  optionalInputs: [],
};
const LABEL = { label: [['a']] };

function getProblems(values: Record<string, InputValue>): string[] {
  try {
    inputsFor(MODEL, values);
  } catch (error) {
    expect((error as UserError).message).toBe('the request does not fit m');
    return (error as UserError).problems.map(formatProblem);
  }
  return [];
}

it.each<[string, Record<string, InputValue>, ...string[]]>([
  [
    'all problems at once',
    { imagee: [1] },
    'imagee: the model has no such input; allowed: image, label\n    -> did you mean "image"?',
    'image: this input is missing; allowed: FP32 [-1, 2, 2]',
    'label: this input is missing; allowed: BYTES [-1, 1]',
  ],
  ['another shape', { image: [[1, 2]], ...LABEL }, 'image: got shape [1, 2]; allowed: FP32 [-1, 2, 2]'],
])('inputsFor reports %s with the allowed values', (_, values, ...problems) => {
  expect(getProblems(values)).toEqual(problems);
});

it('inputsFor omits an optional input', () => {
  const image = { data: Float32Array.of(1, 2, 3, 4), shape: [1, 2, 2] };
  expect(inputsFor({ ...MODEL, optionalInputs: ['label'] }, { image }).map(({ name }) => name)).toEqual(['image']);
});

const input = (name: string, datatype: string, shape: number[]) => ({ name, datatype, shape });

test.each([
  ['a text alone', [input('query', 'BYTES', [-1, 1])], '"a text"'],
  ['a picture alone', [input('x', 'UINT8', [-1, -1, 3])], 'PICTURE.jpg'],
  ['numbers', [input('x', 'FP32', [-1])], 'x=FILE.npy'],
  [
    'a text and numbers',
    [input('query', 'BYTES', [-1, 1]), input('item', 'FP32', [-1, 6])],
    'query="a text" item=FILE.npy',
  ],
  ['two pictures', [input('a', 'UINT8', [-1, -1, 3]), input('b', 'UINT8', [-1, -1, 3])], 'a=PICTURE.jpg b=PICTURE.jpg'],
  ['tokens without a tokenizer', [input('ids', 'INT64', [-1, -1])], 'ids=FILE.npy'],
])('exampleInput names an example for each input of a model that takes %s', (_, inputs, expected) => {
  const model = { name: 'm', version: undefined, versions: ['1'], inputs };
  expect(exampleInput(model, '/nowhere')).toBe(expected);
});
