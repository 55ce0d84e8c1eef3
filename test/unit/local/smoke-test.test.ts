import { join } from 'node:path';
import { askModel, isZerosRefused } from '../../../src/local/smoke-test';
import { readRepository } from '../../../src/model';
import type { InferenceClient } from '../../../src/triton/client';
import type { Tensor } from '../../../src/triton/tensor';
import { writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const CONFIG = `name: "m" backend: "python"
input [{ name: "x" data_type: TYPE_FP32 dims: [4] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [4] }]
`;

test.each<{ name: string; output: Tensor; error: string | undefined }>([
  {
    name: 'accepts an answer to zeros with the configured shape',
    output: { name: 'y', datatype: 'FP32', shape: [4], data: new Float32Array(4) },
    error: undefined,
  },
  {
    name: 'reports an answer to zeros with another shape as wrong, not as a refusal of zeros',
    output: { name: 'y', datatype: 'FP32', shape: [1, 7], data: new Float32Array(7) },
    error: 'output y has shape [1, 7], but the configuration has [4]',
  },
])('askModel $name', async ({ output, error }) => {
  const repository = join(scratch.directory, 'repository');
  writeRepository(repository, { 'm/config.pbtxt': CONFIG, 'm/1/model.py': 'class TritonPythonModel: ...\n' });
  const { models, problems } = await readRepository(repository);
  expect(problems).toEqual([]);
  const client = { infer: () => Promise.resolve({ outputs: [output] }) } as unknown as InferenceClient;
  const [answer] = await askModel([{ protocol: 'HTTP', client }], models[0] as (typeof models)[0]);
  expect(answer?.error).toBe(error);
  expect(answer !== undefined && isZerosRefused(answer)).toBe(false);
});
