import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { readProvenance } from '../../src/publish/provenance';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

test('readProvenance gives commit and subject of a folder, and marks only changes in that folder, without the lock of the index', async () => {
  const root = scratch.directory;
  const git = (...args: string[]) =>
    exec('git', ['-C', root, '-c', 'user.name=Ana', '-c', 'user.email=ana@example.org', ...args]);
  await git('init', '--quiet');
  const models = join(root, 'models');
  mkdirSync(models);
  writeFileSync(join(models, 'a.txt'), 'a');
  expect(await readProvenance(models, undefined)).toEqual({});
  await git('add', '.');
  await git('commit', '--quiet', '-m', 'ranker: train on October\n\nWith a body.');
  const commit = (await git('rev-parse', 'HEAD')).stdout.trim();
  // Git would refresh the index, for which it locks it.
  utimesSync(join(models, 'a.txt'), 1, 1);
  const index = readFileSync(join(root, '.git', 'index'));
  expect(await readProvenance(models, undefined)).toEqual({ commit, message: 'ranker: train on October' });
  expect(readFileSync(join(root, '.git', 'index'))).toEqual(index);
  writeFileSync(join(root, 'elsewhere.txt'), 'b');
  expect(await readProvenance(models, 'for the fair')).toEqual({ commit, message: 'for the fair' });
  writeFileSync(join(models, 'b.txt'), 'b');
  expect(await readProvenance(models, undefined)).toEqual({
    commit: `${commit}+`,
    message: 'ranker: train on October',
  });
});

test('readProvenance gives only the message outside of a git repository', async () => {
  expect(await readProvenance('/nowhere', undefined)).toEqual({});
  expect(await readProvenance('/nowhere', 'by hand')).toEqual({ message: 'by hand' });
});
