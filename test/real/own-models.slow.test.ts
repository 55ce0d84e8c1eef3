import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { SHIPPED_MODELS } from '../../tools/shipped-models';
import { Scratch } from '../support/temp-dir';

jest.setTimeout(900_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

const IO = 'input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }';
/** Valid models in a style that violates the linters' rules. */
const OWN: Record<string, string> = {
  'plain/config.pbtxt': `backend: "python" ${IO}`,
  'plain/1/model.py': 'class TritonPythonModel:\n  def execute(self,requests): return  []\n',
  'mlp/model.yaml':
    'platform:   pytorch_libtorch\n' +
    'input: [{name: input__0, data_type: TYPE_FP32,   dims: [4]}]\n' +
    'output: [{name: output__0, data_type: TYPE_FP32, dims: [4]}]\n',
  'mlp/trace.py':
    'import   os,sys\nfrom  tracing import *\ndef export( context ):\n    l = lambda: 3\n    return  None\n',
  'mlp/README.md': '# My   model\n* [notes](missing.md)\n',
};

/** A copy of the files that the checks of models, format and Python need, with additional files. */
function packageWith(files: Record<string, string>): string {
  const copy = join(scratch.directory, 'package');
  const needed = ['package.json', 'package-lock.json', 'tsconfig.json', 'pyproject.toml'];
  const folders = ['python', 'scripts', 'src', 'tools'];
  const models = SHIPPED_MODELS.flatMap((name) => {
    const folder = join('model-repo', name);
    const files = readdirSync(join(paths.root, folder), { withFileTypes: true }).filter((entry) => entry.isFile());
    return files.map((file) => join(folder, file.name));
  });
  const settings = ['.prettierrc.json', '.prettierignore', join('model-repo', 'model.schema.json')];
  for (const path of [...needed, ...settings, ...folders, ...models]) {
    cpSync(join(paths.root, path), join(copy, path), { recursive: true });
  }
  for (const [path, content] of Object.entries(files)) {
    const at = join(copy, 'model-repo', path);
    mkdirSync(dirname(at), { recursive: true });
    writeFileSync(at, content);
  }
  symlinkSync(join(paths.root, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

test('npm run check passes with models of the user in model-repo', async () => {
  const copy = packageWith(OWN);
  const check = await exec('npm', ['run', 'check', '--', '--only', 'format,lint (Python)'], { cwd: copy });
  expect(check.stderr).toMatch(/^ok {3}format \(TypeScript, YAML, Markdown\)/m);
  expect(check.stderr).toMatch(/^ok {3}lint \(Python\)/m);
});
