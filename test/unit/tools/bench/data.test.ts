import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { changeLabels, labelsFile, makeRepository, modelName } from '../../../../tools/bench/sync/data';
import { readRepository } from '../../../../src/model';
import { Scratch } from '../../../support/scratch';

let scratch: Scratch;
beforeAll(() => {
  scratch = new Scratch();
});
afterAll(() => scratch.clean());

function files(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

test('the repository is valid and has just so many files, no two alike', async () => {
  const directory = join(scratch.directory, 'many');
  makeRepository(directory, { models: 10, parts: 100 - 30, partBytes: 1024 });
  const all = files(directory);
  expect(all).toHaveLength(100);
  const parts = all.filter((path) => path.endsWith('.bin'));
  expect(new Set(parts.map((path) => readFileSync(path, 'latin1'))).size).toBe(70);
  expect(new Set(parts.map((path) => statSync(path).size))).toEqual(new Set([1024]));
  expect(await readRepository(directory, {})).toMatchObject({ problems: [] });
});

test('large files have their size', () => {
  const directory = join(scratch.directory, 'large');
  makeRepository(directory, { models: 2, parts: 2, partBytes: 2_500_000 });
  const parts = files(directory).filter((path) => path.endsWith('.bin'));
  expect(parts.map((path) => statSync(path).size)).toEqual([2_500_000, 2_500_000]);
});

test('a change has the same size and an older time each time', () => {
  const directory = join(scratch.directory, 'changing');
  makeRepository(directory, { models: 1, parts: 1, partBytes: 10 });
  const path = labelsFile(directory, modelName(0));
  const seen = [1, 2, 3].map((change) => {
    const before = statSync(path);
    const text = readFileSync(path, 'utf8');
    changeLabels(directory, modelName(0), change);
    expect(statSync(path).size).toBe(before.size);
    expect(statSync(path).mtimeMs).toBeLessThan(before.mtimeMs);
    expect(readFileSync(path, 'utf8')).not.toBe(text);
    return text;
  });
  expect(new Set(seen).size).toBe(3);
});
