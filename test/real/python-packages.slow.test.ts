import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { Progress } from '../../src/cli/progress';
import { ensurePython, getUv } from '../../src/local/install/python';
import { ensureTriton } from '../../src/local/install/triton';
import { writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { testTriton, type TestTriton } from '../support/triton';

jest.setTimeout(600_000);

/** Returns the versions of a package and of NumPy, and whether PyTorch is installed. */
const PROGRAM = `from importlib.util import find_spec

import idna
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        found = [idna.__version__, np.__version__, "torch" if find_spec("torch") else "no torch"]
        y = np.array([text.encode() for text in found], dtype=np.object_)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", y)]) for _ in requests]
`;

function model(name: string, environment?: string): Record<string, string> {
  const config = [
    'backend: "python"',
    'input { name: "x" data_type: TYPE_FP32 dims: 1 }',
    'output { name: "y" data_type: TYPE_STRING dims: 3 }',
    'instance_group { count: 1 kind: KIND_CPU }',
    ...(environment === undefined
      ? []
      : [`parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/${environment}" } }`]),
  ];
  return { [`${name}/config.pbtxt`]: config.join('\n'), [`${name}/1/model.py`]: PROGRAM };
}

describe('packages of Python-backend models, on a real server', () => {
  const scratch = new Scratch();
  const repository = writeRepository(join(scratch.directory, 'repository'), {
    ...model('named'),
    'named/requirements.txt': 'idna==3.10\n',
    ...model('other'),
    'other/requirements.txt': '# An older one\nidna==3.9\n',
    ...model('lacking'),
    ...model('wrong'),
    'wrong/requirements.txt': 'idna==3.10\nidna==3.9\n',
    ...model('packed', 'packed.tar.gz'),
    ...model('newer', 'newer.tar.gz'),
  });
  let triton: TestTriton;
  afterAll(() => scratch.clean());
  beforeAll(async () => {
    const environment = await ensurePython(new Progress(process.stderr, true).step(''), { embeddable: true });
    await ensureTriton(environment);
    const uv = getUv(environment.python);
    for (const [name, numpy] of [
      ['packed', 'numpy<2'],
      ['newer', 'numpy>=2'],
    ] as const) {
      const folder = join(scratch.directory, name);
      await exec(uv, ['venv', '--quiet', '--relocatable', '--python', environment.python, folder]);
      await exec(uv, ['pip', 'install', '--quiet', '--python', join(folder, 'bin', 'python'), numpy, 'idna==3.8']);
      await exec('tar', ['-czf', join(repository, name, `${name}.tar.gz`), '-C', folder, '.']);
    }
    triton = await testTriton(scratch, repository, { load: ['named'] });
  });

  async function found(name: string): Promise<string[]> {
    await triton.client.loadModel(name, { timeoutMs: 300_000 });
    const x = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(0) } as const;
    const { outputs } = await triton.client.infer(name, [x]);
    return Array.from(outputs[0]?.data as readonly Buffer[], String);
  }

  test.each([
    ['its requirements.txt', 'named', '3.10'],
    ['its requirements.txt, another version at the same time', 'other', '3.9'],
    ['an archive that EXECUTION_ENV_PATH names', 'packed', '3.8'],
  ])('a model finds the packages of %s and NumPy 1, but not those of tracing', async (_, name, version) => {
    expect(await found(name)).toEqual([version, expect.stringMatching(/^1\./), 'no torch']);
  });

  test.each([
    ['a package that no requirements.txt names', 'lacking', "ModuleNotFoundError: No module named 'idna'"],
    [
      'lines that contradict each other',
      'wrong',
      /cannot install the packages of wrong\/requirements.txt:[^]*idna==3\.10[^]*idna==3\.9/,
    ],
    ['an archive with NumPy 2', 'newer', 'the environment of EXECUTION_ENV_PATH has NumPy 2.'],
  ])('a load fails with the reason: %s', async (_, name, reason) => {
    await expect(found(name)).rejects.toThrow(reason);
  });
});
