import { join } from 'node:path';
import { readLetters } from '../../../src/media/letters';
import { versionFile } from '../../../src/model/version-file';
import { writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());
const folder = scratch.directory;

test.each([
  ['invalid JSON', '{', /vocab\.json is not JSON: /],
  ['an index that is no number', '{"<pad>": 0, "A": "1"}', /vocab\.json: "A" is "1", not a number/],
  ['no blank', '{"A": 0}', /vocab\.json has no CTC blank/],
])('readLetters rejects a file with %s', (_, text, message) => {
  writeRepository(folder, { 'vocab.json': text });
  expect(() => readLetters(join(folder, 'vocab.json'))).toThrow(message);
});

test('readLetters prefers the file of the version to the file of the model', () => {
  expect(readLetters(versionFile(join(folder, 'm'), 1, 'vocab.json'))).toBeUndefined();
  writeRepository(folder, { 'm/vocab.json': '{"[PAD]": 1, "a": 0}', 'm/2/vocab.json': '{"<pad>": 0}' });
  expect(readLetters(versionFile(join(folder, 'm'), 1, 'vocab.json'))?.blank).toBe(1);
  expect(readLetters(versionFile(join(folder, 'm'), 2, 'vocab.json'))?.blank).toBe(0);
});
