import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { exec } from '../../src/core/exec';
import { ensurePython } from '../../src/local/install/python';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

test('Python keeps bytecode also if PYTHONDONTWRITEBYTECODE is set, but then outside the folders of the sources', async () => {
  const { python, bin } = await ensurePython(new Progress(process.stderr, true).step(''));
  const folder = scratch.directory;
  writeFileSync(join(folder, 'one_module.py'), '');
  const env = { ...process.env, PYTHONPATH: folder };
  const kept = join(dirname(bin), 'bytecode', folder);
  await exec(python, ['-c', 'import one_module'], { env: { ...env, PYTHONDONTWRITEBYTECODE: '1' } });
  expect([readdirSync(kept), readdirSync(folder)]).toEqual([
    [expect.stringMatching('one_module.*pyc')],
    ['one_module.py'],
  ]);
  await exec(python, ['-c', 'import one_module'], { env: { ...env, PYTHONDONTWRITEBYTECODE: '' } });
  expect(existsSync(join(folder, '__pycache__'))).toBe(true);
});
