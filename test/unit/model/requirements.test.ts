import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatProblem } from '../../../src/core/errors';
import { readRepository } from '../../../src/model';
import { requiresNumpy2 } from '../../../src/model/requirements';
import { explainLoadFailure, explainRequestFailure } from '../../../src/triton/load-failure';
import { addingModel, writeRepository } from '../../support/repository';

const root = mkdtempSync(join(tmpdir(), 'requirements-test-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function problemsWith(files: Record<string, string>): Promise<string[]> {
  const repository = writeRepository(mkdtempSync(join(root, 'repository-')), {
    ...addingModel('adds', { 1: 1 }),
    ...files,
  });
  const { problems } = await readRepository(repository);
  return problems.map((problem) => formatProblem(problem).replaceAll(/\S*\/repository-\w+\//g, ''));
}

describe('requirements.txt', () => {
  test('in a version folder it is not read', async () => {
    expect(await problemsWith({ 'adds/1/requirements.txt': 'pandas' })).toEqual([
      'adds/1/requirements.txt: is not read; one file applies to all versions\n    -> move it to adds/requirements.txt',
    ]);
  });

  test('beside EXECUTION_ENV_PATH Triton would not use it', async () => {
    const config = addingModel('adds', { 1: 1 })['adds/config.pbtxt'] ?? '';
    const parameter =
      'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }\n';
    const files = {
      'adds/config.pbtxt': config + parameter,
      'adds/env.tar.gz': 'x',
      'adds/requirements.txt': 'pandas',
    };
    expect(await problemsWith(files)).toEqual([
      expect.stringContaining('parameters.EXECUTION_ENV_PATH: is set, so Triton ignores requirements.txt'),
    ]);
  });

  test('is published with a model.py that has a model.yaml, and not with a trace.py', async () => {
    const tensors =
      'input: [{ name: x, data_type: TYPE_FP32, dims: [1] }]\noutput: [{ name: y, data_type: TYPE_FP32, dims: [1] }]\n';
    const repository = writeRepository(mkdtempSync(join(root, 'repository-')), {
      'served/model.yaml': `backend: python\n${tensors}`,
      'served/1/model.py': 'x',
      'served/requirements.txt': 'idna',
      'traced/model.yaml': `platform: onnxruntime_onnx\n${tensors}`,
      'traced/requirements.txt': 'idna',
      'traced/trace.py': '',
    });
    const { models } = await readRepository(repository);
    expect(models.map(({ name, extraFiles }) => [name, extraFiles.map(({ key }) => key)])).toEqual([
      ['served', ['requirements.txt']],
      ['traced', []],
    ]);
  });
});

test.each([
  ['numpy>=2', true],
  ['pandas\nNumPy == 2.1.0 ; python_version > "3"', true],
  ['numpy~=2.0', true],
  ['numpy', false],
  ['numpy>=1.24,<2', false],
  ['numpy-financial>=2', false],
  ['numpy==1.26.4', false],
])('requiresNumpy2(%p) is %p', (text, expected) => {
  expect(requiresNumpy2(text)).toBe(expected);
});

const FRAME =
  '\n\nAt:\n  <frozen importlib._bootstrap>(1027): _find_and_load\n  /t/folderAb3dE9/1/model.py(4): execute\n';
test.each([
  ['Internal: ValueError: no', 'Internal: ValueError: no'],
  ['Internal: ValueError: no\n\nAt:\n  /x/model.py(1): f', 'Internal: ValueError: no'],
  [`ValueError: no${FRAME}`, 'ValueError: no (m/1/model.py, line 4, in execute)'],
  ['ValueError: no\n\nAt:\n  /repo/m/1/model.py(7): f\n', 'ValueError: no (m/1/model.py, line 7, in f)'],
  [
    'cannot install the packages of folderAb3dE9/requirements.txt: no version',
    'cannot install the packages of m/requirements.txt: no version',
  ],
  ["No such file or directory: '/t/folderAb3dE9/vocab.txt'", "No such file or directory: 'm/vocab.txt'"],
])('explainLoadFailure(%p) names the files of the model', (reason, message) => {
  expect(explainLoadFailure('m', reason)).toEqual({ message });
});

test.each([
  ["Stub process 'pystr_0' is not healthy.", /pystr_0.*The process of its model\.py ended/],
  ['the input is empty', /^the input is empty$/],
])('explainRequestFailure(%p)', (message, expected) => {
  expect(explainRequestFailure('m', message)).toMatch(expected);
});
