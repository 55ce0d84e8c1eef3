import { readdirSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { ensureLockedPackages, ensurePython, ensureUv } from '../../src/install/python';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterEach(() => jest.restoreAllMocks());
afterAll(() => scratch.clean());

test.each([
  ['are compiled if Python may not keep bytecode', '1', true],
  ['are not compiled otherwise, because Python keeps what it imports', '', false],
])('packages %s', async (_, value, isCompiled) => {
  const python = await ensurePython(new Progress(process.stderr, true).step(''));
  const { env } = process;
  jest.replaceProperty(process, 'env', {
    ...env,
    // In the other cache is no uv.
    PATH: [dirname(await ensureUv(python.python)), env['PATH']].join(delimiter),
    PYTHONDONTWRITEBYTECODE: value,
    XDG_CACHE_HOME: join(scratch.directory, `cache-${value}`),
  });
  const packages = await ensureLockedPackages('weights', python);
  const files = readdirSync(packages, { recursive: true }).map(String);
  expect(files.some((file) => file.endsWith('.py'))).toBe(true);
  expect(files.some((file) => file.endsWith('.pyc'))).toBe(isCompiled);
});
