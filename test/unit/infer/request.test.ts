import { exampleInput } from '../../../src/infer/request';

const input = (name: string, datatype: string, shape: number[]) => ({ name, datatype, shape });

test.each([
  ['a text alone', [input('query', 'BYTES', [-1, 1])], '"a text"'],
  ['a picture alone', [input('x', 'UINT8', [-1, -1, 3])], 'PICTURE.jpg'],
  ['a sound alone', [input('x', 'FP32', [-1, -1])], 'SOUND.wav'],
  ['numbers', [input('x', 'FP32', [-1])], 'x=FILE.npy'],
  [
    'a text and numbers',
    [input('query', 'BYTES', [-1, 1]), input('item', 'FP32', [-1, 6])],
    'query="a text" item=FILE.npy',
  ],
  ['two pictures', [input('a', 'UINT8', [-1, -1, 3]), input('b', 'UINT8', [-1, -1, 3])], 'a=PICTURE.jpg b=PICTURE.jpg'],
  ['tokens without a tokenizer', [input('ids', 'INT64', [-1, -1])], 'ids=FILE.npy'],
])('exampleInput names an example for each input of a model that takes %s', (_, inputs, expected) => {
  const metadata = { name: 'm', versions: ['1'], platform: 'ensemble', inputs, outputs: [] };
  expect(exampleInput({ name: 'm', version: undefined, metadata }, '/nowhere')).toBe(expected);
});
