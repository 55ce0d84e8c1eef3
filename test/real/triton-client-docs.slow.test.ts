import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { cached } from '../../src/local/install/cache';
import { ensurePython, getUv } from '../../src/local/install/python';
import type { TritonProcess } from '../../src/local/triton-server';
import { fences } from '../support/markdown';
import { addingModel, writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const COUNTER = `import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(int(request.inputs()[0].as_numpy()[0])):
                number = pb_utils.Tensor("number", np.array([i], dtype=np.int32))
                sender.send(pb_utils.InferenceResponse([number]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
`;

/** The model of the tutorial, without PyTorch. */
const CELSIUS = `import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        values = [(request.inputs()[0].as_numpy() - 32) * 5 / 9 for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("output__0", celsius)]) for celsius in values]
`;

const repository = writeRepository(join(scratch.directory, 'repository'), {
  ...addingModel('adds', { 1: 10 }),
  'celsius/config.pbtxt': [
    'backend: "python"',
    'max_batch_size: 8',
    'input { name: "input__0" data_type: TYPE_FP32 dims: 1 }',
    'output { name: "output__0" data_type: TYPE_FP32 dims: 1 }',
    'instance_group { count: 1 kind: KIND_CPU }',
  ].join('\n'),
  'celsius/1/model.py': CELSIUS,
  'counter/config.pbtxt': [
    'backend: "python"',
    'model_transaction_policy { decoupled: true }',
    'input { name: "count" data_type: TYPE_INT32 dims: 1 }',
    'output { name: "number" data_type: TYPE_INT32 dims: 1 }',
    'instance_group { count: 1 kind: KIND_CPU }',
  ].join('\n'),
  'counter/1/model.py': COUNTER,
});

const PAGE = readFileSync(join(paths.root, 'docs', 'client.md'), 'utf8');

let server: TritonProcess;
beforeAll(async () => {
  server = await testTriton(scratch, repository);
});

test('the program of docs/client.md prints the answer', async () => {
  const [program] = fences(PAGE).filter(({ language }) => language === 'ts');
  const file = join(scratch.directory, 'program.mjs');
  writeFileSync(file, (program?.text ?? '').replace('http://127.0.0.1:8000', server.httpUrl));
  const { stdout } = await exec(process.execPath, [file]);
  expect(stdout).toMatch(/^200 .*"data":\[11\.0,12\.0\]/);
});

/** The programs in Python of the page, and what they print. */
const PROGRAMS = fences(PAGE).filter(({ language }) => language === 'python');
const PYTHON_PRINTED = ['[[  0.]\n [100.]]\n', '[0]\n[1]\n[2]\n'];

test('the Python programs of docs/client.md print the expected output with tritonclient from PyPI', async () => {
  const requirement = /pip install "(.*?)"/.exec(PAGE)?.[1] ?? '';
  const { python, version } = await new Progress(process.stderr).run('Python', (step) => ensurePython(step));
  const packages = await cached(`${requirement.replace(/\W+/g, '-')}-python${version}`, async (target) => {
    const into = ['--quiet', '--no-build', '--python', python, '--target', target];
    await exec(getUv(python), ['pip', 'install', ...into, requirement]);
  });
  const printed: string[] = [];
  for (const { text } of PROGRAMS) {
    const here = text
      .replace('127.0.0.1:8000', server.httpUrl.replace('http://', ''))
      .replace('127.0.0.1:8001', server.grpcAddress);
    const env = { ...process.env, PYTHONPATH: packages };
    printed.push((await exec(python, ['-c', here], { env, timeoutMs: 60_000 })).stdout);
  }
  expect(printed).toEqual(PYTHON_PRINTED);
}, 300_000);
