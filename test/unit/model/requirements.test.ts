import { requiresNumpy2 } from '../../../src/model/requirements';
import { explainLoadFailure, explainRequestFailure } from '../../../src/triton/load-failure';
import { folder, read, removeFolders } from '../../support/model-files';
import { addingModel } from '../../support/repository';

afterAll(removeFolders);

describe('requirements.txt', () => {
  test('in a version folder it is not read', async () => {
    const { texts } = await read(folder({ ...addingModel('adds', { 1: 1 }), 'adds/1/requirements.txt': 'pandas' }));
    expect(texts).toEqual([
      'adds/1/requirements.txt: is not read; one file applies to all versions\n    -> move it to adds/requirements.txt',
    ]);
  });

  test('beside EXECUTION_ENV_PATH Triton would not use it', async () => {
    const files = addingModel('adds', { 1: 1 });
    const parameter =
      'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }\n';
    const root = folder({
      ...files,
      'adds/config.pbtxt': (files['adds/config.pbtxt'] ?? '') + parameter,
      'adds/env.tar.gz': 'x',
      'adds/requirements.txt': 'pandas',
    });
    const { texts } = await read(root);
    expect(texts).toEqual([
      expect.stringContaining('parameters.EXECUTION_ENV_PATH: is set, so Triton ignores requirements.txt'),
    ]);
  });

  test('is published with a model.py that has a model.yaml, and not with a trace.py', async () => {
    const tensors =
      'input: [{ name: x, data_type: TYPE_FP32, dims: [1] }]\noutput: [{ name: y, data_type: TYPE_FP32, dims: [1] }]\n';
    const repository = folder({
      'served/model.yaml': `backend: python\n${tensors}`,
      'served/1/model.py': 'x',
      'served/requirements.txt': 'idna',
      'traced/model.yaml': `platform: onnxruntime_onnx\n${tensors}`,
      'traced/requirements.txt': 'idna',
      'traced/trace.py': '',
    });
    const { models } = await read(repository);
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
