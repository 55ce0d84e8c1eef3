import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ONE_MODEL } from '../support/publish';
import { writeRepository } from '../support/repository';
import { runByNpm } from '../support/run';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** A user's folder with a model repository and a stack file. */
let home: string;

beforeAll(() => {
  home = join(scratch.directory, 'home');
  writeRepository(join(home, 'models'), ONE_MODEL);
  mkdirSync(join(home, 'stacks'));
  writeFileSync(join(home, 'stacks', 'Pulumi.mine.yaml'), 'config: {}\n');
});

test('npm --prefix resolves relative paths in the folder of the shell', async () => {
  const validated = await runByNpm(join(home, 'models'), 'validate', ['--repo', '.']);
  expect(validated).toMatchObject({ code: 0, stdout: expect.stringContaining('1 model, 0 problems') as string });
  const exported = await runByNpm(join(home, 'models'), 'export', ['--repo', '.', '--out', '../exported']);
  expect(exported).toMatchObject({ code: 0, stderr: '' });
  expect(existsSync(join(home, 'exported', 'a', 'config.pbtxt'))).toBe(true);
});

test.each([
  ['validate', '--repo ../no-models', '/no-models: cannot be read: no such file or folder'],
  ['infer', 'a -o gone/answer.json', 'the folder HOME/gone does not exist'],
  ['local', '--repo gone', 'HOME/gone'],
  // The command finds the stack in the folder.
  ['cost', 'other --stack-dir stacks', 'a stack file: mine'],
])('npm --prefix %s %s reports the absolute path of a missing file', async (command, args, place) => {
  const { code, stderr } = await runByNpm(home, command, args.split(' '));
  expect(code).toBeGreaterThan(0);
  expect(stderr).toContain(place.replace('HOME', home));
});
