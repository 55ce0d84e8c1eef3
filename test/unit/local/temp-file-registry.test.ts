import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { removeEnvironmentFolders } from '../../../src/local/process/temp-file-registry';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

describe('removeEnvironmentFolders', () => {
  const names = (): string[] => readdirSync(scratch.directory).sort();
  beforeAll(() => {
    for (const name of ['python_env_empty', 'python_env_used', 'other']) mkdirSync(join(scratch.directory, name));
    writeFileSync(join(scratch.directory, 'python_env_used', 'file'), '');
  });

  test('deletes nothing while a server runs, which may use a folder later', () => {
    // The name under which Linux knows this process, which may be called "node" or "MainThread".
    const running = readFileSync('/proc/self/comm', 'utf8').trim();
    removeEnvironmentFolders(scratch.directory, running);
    expect(names()).toEqual(['other', 'python_env_empty', 'python_env_used']);
  });

  test('deletes the empty folders if no server runs', () => {
    removeEnvironmentFolders(scratch.directory, 'no server');
    expect(names()).toEqual(['other', 'python_env_used']);
  });
});
