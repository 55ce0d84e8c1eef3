import { mkdirSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ContentStore, type Unit } from '../../../src/agent/content-store';
import { ModelRepository } from '../../../src/agent/model-repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

test('write makes config.pbtxt newer than a file in a version folder, whose time is in the future', () => {
  const future = Date.now() / 1000 + 3600;
  const version: Unit = { name: '1', isVersion: true, content: 'content', files: [] };
  const store = new ContentStore(join(scratch.directory, 'store'));
  const folder = join(scratch.directory, 'models/m');
  mkdirSync(store.path(version), { recursive: true });
  mkdirSync(folder, { recursive: true });
  const weights = join(store.path(version), 'weights');
  writeFileSync(weights, 'weights');
  utimesSync(weights, future, future);
  symlinkSync(store.path(version), join(folder, '1'));
  const repository = new ModelRepository(join(scratch.directory, 'models'), store);
  const note = { sure: true, units: { 1: version.content }, config: 'before' };
  expect(repository.write('m', { config: 'after', units: [version] }, note)).toBe(true);
  expect(statSync(join(folder, 'config.pbtxt')).mtimeMs / 1000).toBeGreaterThan(future);
});
