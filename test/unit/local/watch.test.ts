import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fingerprints, watchModels } from '../../../src/local/watch';
import { writeRepository } from '../../support/repository';

const repository = mkdtempSync(join(tmpdir(), 'watch-test-'));
afterAll(() => rmSync(repository, { recursive: true, force: true }));
writeRepository(repository, {
  'a/model.yaml': 'platform: x\n',
  'a/trace.py': 'pass\n',
  'a/1/model.pt': 'traced',
  'a/1/model.pt.trace.json': '{}',
  'b/1/model.py': 'pass\n',
  'd/1/model.onnx.trace.json': JSON.stringify({
    data_files: [{ path: '1/model.onnx.data', bytes: 1 }],
    extra_files: [{ path: '1/tokenizer.json', bytes: 1 }],
  }),
});

const A_FILE = 'a file\n';
test.each([
  ['a/1/model.pt', false],
  ['d/1/model.onnx.data', false],
  ['d/1/tokenizer.json', false],
  ['a/1/model.pt.trace.json', false],
  ['a/1/.gitignore', false],
  ['a/golden/1/traced-0.json', false],
  ['a/golden/1/traced-0.input__0.npy', false],
  ['b/__pycache__/model.pyc', false],
  ['a/model.yaml', true],
  ['a/trace.py', true],
  ['a/labels.txt', true],
  ['a/golden/cat.json', true],
  ['b/1/model.py', true],
  ['b/2/model.pt', true],
  ['c/config.pbtxt', true],
])('fingerprints: a change of %s counts as a change by the user: %p', async (file, expected) => {
  const before = await fingerprints(repository);
  writeRepository(repository, { [file]: `${A_FILE}${file}` });
  const after = await fingerprints(repository);
  const changed = [...after].filter(([name, text]) => before.get(name) !== text).map(([name]) => name);
  expect(changed).toEqual(expected ? [file.slice(0, 1)] : []);
});

test('watchModels reports changed and deleted models once their files are at rest', async () => {
  const stop = new AbortController();
  const seen = await fingerprints(repository);
  writeRepository(repository, { 'a/labels.txt': 'cat\ndog\n' });
  rmSync(join(repository, 'b'), { recursive: true });
  const calls: string[][] = [];
  await watchModels(
    repository,
    seen,
    (models) => {
      calls.push(models);
      stop.abort();
    },
    stop.signal,
  );
  expect(calls).toEqual([['a', 'b']]);
});

test('fingerprints follow links to models and version folders, also in a circle of links', async () => {
  const [linked, elsewhere] = [mkdtempSync(join(tmpdir(), 'watch-test-')), mkdtempSync(join(tmpdir(), 'watch-test-'))];
  try {
    writeRepository(elsewhere, { 'model/config.pbtxt': '', 'version/model.py': 'pass\n' });
    symlinkSync(join(elsewhere, 'version'), join(elsewhere, 'model', '1'));
    symlinkSync(elsewhere, join(elsewhere, 'version', 'back'));
    symlinkSync(join(elsewhere, 'model'), join(linked, 'm'));
    symlinkSync(join(elsewhere, 'gone'), join(linked, 'dangling'));
    for (const file of ['model/config.pbtxt', 'version/model.py', 'model/labels.txt']) {
      const before = await fingerprints(linked);
      expect([...before.keys()]).toEqual(['m']);
      writeRepository(elsewhere, { [file]: A_FILE });
      expect((await fingerprints(linked)).get('m')).not.toBe(before.get('m'));
    }
  } finally {
    for (const directory of [linked, elsewhere]) rmSync(directory, { recursive: true });
  }
});
