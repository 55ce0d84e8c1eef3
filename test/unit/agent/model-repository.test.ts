import { mkdirSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ContentStore, type Unit } from '../../../src/agent/content-store';
import { ModelRepository } from '../../../src/agent/model-repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const version: Unit = { name: '1', isVersion: true, content: 'content', files: [] };

/** A repository with one version of the model `m`, whose file has this modification time. */
function create(name: string, fileTime: number): { repository: ModelRepository; folder: string; version: string } {
  const directory = join(scratch.directory, name);
  const store = new ContentStore(join(directory, 'store'));
  const folder = join(directory, 'models/m');
  mkdirSync(store.path(version), { recursive: true });
  mkdirSync(folder, { recursive: true });
  const weights = join(store.path(version), 'weights');
  writeFileSync(weights, 'weights');
  utimesSync(weights, fileTime, fileTime);
  symlinkSync(store.path(version), join(folder, '1'));
  return { repository: new ModelRepository(join(directory, 'models'), store), folder, version: store.path(version) };
}

const seconds = (path: string): number => statSync(path).mtimeMs / 1000;

test('write leaves the time of a version that is loaded, although a refused release left a label file', () => {
  const { repository, folder, version: path } = create('refused', 1000);
  writeFileSync(join(folder, 'labels.txt'), 'of the refused release');
  utimesSync(path, 1000, 1000);
  const note = { sure: true, units: { 1: version.content }, config: 'config' };
  repository.write('m', { config: 'config', units: [version] }, note);
  expect(seconds(path)).toBe(1000);
});

test('write makes config.pbtxt newer than a file in a version folder, whose time is in the future', () => {
  const future = Date.now() / 1000 + 3600;
  const { repository, folder } = create('future', future);
  const note = { sure: true, units: { 1: version.content }, config: 'before' };
  expect(repository.write('m', { config: 'after', units: [version] }, note)).toBe(true);
  expect(seconds(join(folder, 'config.pbtxt'))).toBeGreaterThan(future);
});
