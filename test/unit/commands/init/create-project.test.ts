import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../../../src/core/paths';
import { createProject } from '../../../../src/commands/init/create-project';
import { readValidRepository } from '../../../../src/model';
import { stackFile } from '../../../../infra/settings/stack-file';
import { readSettings } from '../../../../infra/settings';
import { main } from '../../../../scripts/init';
import { Scratch } from '../../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

describe('a project', () => {
  const folder = join(scratch.directory, 'project');
  const files = createProject(folder);

  test('has a valid model', async () => {
    const { models } = await readValidRepository(join(folder, 'model-repo'), { artifacts: false }, 'served');
    expect(models.map(({ name }) => name)).toEqual(['celsius']);
  });

  test.each(['staging', 'prod'])('has a valid stack %s', (stack) => {
    expect(readSettings(stackFile(stack, folder)).gpuNodePools).toHaveLength(1);
  });

  test('has the files that npm leaves out of packages', () => {
    expect(files).toEqual(expect.arrayContaining(['.gitignore', join('.github', 'workflows', 'models.yml')]));
  });

  test('installs this version, and its program is the one of this package', () => {
    const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { dependencies: object };
    const { version } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as { version: string };
    expect(dependencies).toEqual({ 'triton-serving': version });
    expect(readFileSync(join(folder, 'Pulumi.yaml'), 'utf8')).toMatch(/^main: index\.js$/m);
  });
});

describe('npm run init', () => {
  const run = async (...args: string[]): Promise<{ code: number; error: string }> => {
    let error = '';
    jest.spyOn(process.stderr, 'write').mockImplementation((text) => ((error += String(text)), true));
    jest.spyOn(process.stdout, 'write').mockImplementation(() => true);
    const code = await main(args);
    jest.restoreAllMocks();
    return { code, error };
  };

  test('does not touch a folder with files', async () => {
    const folder = join(scratch.directory, 'full');
    mkdirSync(folder);
    writeFileSync(join(folder, 'notes.txt'), '');
    const { code, error } = await run(folder);
    expect(code).toBe(1);
    expect(error).toContain(`${folder} is not empty\n  -> name a new folder`);
    expect(readdirSync(folder)).toEqual(['notes.txt']);
  });

  test('reports a folder that cannot be made', async () => {
    const file = join(scratch.directory, 'file');
    writeFileSync(file, '');
    const { code, error } = await run(file);
    expect(code).toBe(1);
    expect(error).toContain(`cannot make the folder ${file}: EEXIST`);
  });

  test('reports a model file that does not exist', async () => {
    const { code, error } = await run('--from', join(scratch.directory, 'none.onnx'));
    expect(code).toBe(1);
    expect(error).toContain('none.onnx is not a file');
  });

  test.each([
    [[], 'the model file or the folder is missing'],
    [['--from', 'model.onnx', 'a b'], '"a b" cannot be the name of a model'],
  ])('refuses the command line %j', async (args, message) => {
    const { code, error } = await run(...args);
    expect(code).toBe(2);
    expect(error).toContain(message);
  });
});
