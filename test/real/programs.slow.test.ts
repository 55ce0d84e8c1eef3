import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { withCompiledPrograms } from '../../src/local/compiled';
import { readRepository } from '../../src/model';
import { isCompiled } from '../../src/model/torch-files';
import { FREE_PORTS, LocalCommand } from '../support/local-command';
import { scaling } from '../support/local-models';
import { writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';

jest.setTimeout(600_000);

const scratch = new Scratch();
const command = new LocalCommand(scratch);
afterAll(() => scratch.clean());
afterEach(() => command.expectNothingLeft());

test('npm run local serves a program as it was exported, and compiled for this machine', async () => {
  // Another program in each run: what was compiled stays in the cache of the machine.
  const folder = writeRepository(join(scratch.directory, 'models'), scaling('m', 1 + (Date.now() % 1_000_000)));
  const asExported = await command.run(['--repo', folder, '--once', ...FREE_PORTS]);
  expect(asExported).toMatchObject({ code: 0, stdout: expect.stringMatching(/^m +1 +torch_aoti +READY/m) as string });
  const answers = /^m +\d+ ms +golden request 1\/traced-0: as expected$/m;
  expect(asExported.stdout).toMatch(answers);

  const build = ['run', '--silent', 'build', '--', '--here', '--repo', folder];
  const first = await exec('npm', build, { cwd: paths.root });
  expect(first.stdout).toMatch(/^m 1: compiled in .+; golden requests differ by at most 0\.0$/m);
  expect((await exec('npm', build, { cwd: paths.root })).stdout).toBe('m 1: up to date\n');
  const { models } = await readRepository(folder);
  const served = models.map(withCompiledPrograms).flatMap(({ versions }) => versions[0]?.files.map(({ path }) => path));
  expect(served.filter((path) => path?.endsWith('.pt2') === true && isCompiled(path))).toHaveLength(1);
  const asCompiled = await command.run(['--repo', folder, '--once', ...FREE_PORTS]);
  expect(asCompiled).toMatchObject({ code: 0, stdout: expect.stringMatching(/^m +1 +torch_aoti +READY/m) as string });
  expect(asCompiled.stdout).toMatch(answers);
});
