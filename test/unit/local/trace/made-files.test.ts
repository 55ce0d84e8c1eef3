import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ignoreMadeFiles } from '../../../../src/local/trace/made-files';
import { writeRepository } from '../../../support/repository';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'made-files-test-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** A traced model, with these fields of its record. */
function model(record: unknown, files: Record<string, string> = {}): string {
  writeRepository(root, {
    'm/trace.py': '',
    'm/1/model.pt': '123',
    'm/1/model.pt.trace.json': typeof record === 'string' ? record : JSON.stringify(record),
    ...files,
  });
  return join(root, 'm');
}

/** The entries of the .gitignore in a folder; undefined if there is none. */
function ignored(folder: string): string[] | undefined {
  const file = join(folder, '.gitignore');
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').slice(1) : undefined;
}

const artifact = { path: '1/model.pt', bytes: 3 };

test.each<{ damage: string; record: unknown; listed: string[] }>([
  { damage: 'is cut short', record: '{"artifact": {', listed: [] },
  { damage: 'is no object', record: 'null', listed: [] },
  { damage: 'lacks the artifact', record: { data_files: [], extra_files: [], golden: [] }, listed: [] },
  { damage: 'lacks its lists', record: { artifact }, listed: ['/model.pt'] },
  { damage: 'has entries without a path', record: { artifact, data_files: [null, 1, {}] }, listed: ['/model.pt'] },
  { damage: 'has a path with a zero byte', record: { artifact: { path: '1/\0', bytes: 3 } }, listed: [] },
])('ignoreMadeFiles accepts a record that $damage', ({ record, listed }) => {
  const folder = model(record);
  ignoreMadeFiles(folder);
  expect(ignored(join(folder, '1'))).toEqual(['/.gitignore', ...listed, '/model.pt.trace.json']);
});

test('ignoreMadeFiles writes nothing outside of the model folder', () => {
  const folder = model({ artifact: { path: '../other/file', bytes: 1 } }, { 'other/file': 'a' });
  ignoreMadeFiles(folder);
  expect(ignored(join(root, 'other'))).toBeUndefined();
});
