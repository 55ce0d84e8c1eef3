import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import type { DataType, Tensor } from '../../src/triton/tensor';
import { runCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { testTriton, type TestTriton } from '../support/triton';

jest.setTimeout(600_000);

const tensor = (name: string, datatype: DataType, shape: readonly number[], data: Tensor['data']): Tensor =>
  ({ name, datatype, shape, data }) as Tensor;
const floats = (name: string, shape: readonly number[], ...values: number[]): Tensor =>
  tensor(name, 'FP32', shape, Float32Array.from(values));

describe('models for the Python backend, on a real server', () => {
  const scratch = new Scratch();
  const repository = join(scratch.directory, 'repository');
  let triton: TestTriton;
  afterAll(() => scratch.clean());
  beforeAll(async () => {
    cpSync(join(paths.root, 'test', 'data', 'python-models'), repository, { recursive: true });
    triton = await testTriton(scratch, repository);
  });

  test('BF16 tensors are passed as DLPack', async () => {
    const { outputs } = await triton.client.infer('bfloat16', [tensor('x', 'BF16', [2], Float32Array.of(1.5, -2))]);
    expect(outputs).toEqual([tensor('y', 'BF16', [2], Float32Array.of(1.5, -2))]);
  });

  test('a batch of eight requests returns seven answers and one error', async () => {
    const asked = Array.from({ length: 8 }, (_, i) =>
      triton.client
        .infer('batches', [floats('a', [1, 2], i === 3 ? -1 : i, 2), floats('b', [1, 2], 10, 20)])
        .then(({ outputs }) => outputs),
    );
    const answers = await Promise.allSettled(asked);
    answers.forEach((answer, i) => {
      if (i === 3) {
        expect(answer).toMatchObject({
          status: 'rejected',
          reason: { message: expect.stringContaining('a is negative: -1') as string },
        });
        return;
      }
      expect(answer).toEqual({
        status: 'fulfilled',
        value: [
          floats('sum', [1, 2], i + 10, 22),
          floats('difference', [1, 2], i - 10, -18),
          tensor('requests', 'INT32', [1, 1], Int32Array.of(8)),
        ],
      });
    });
  });

  test.each([
    ['a parameter of the configuration', 'scales', [2.5, 5, 7.5, 10]],
    ['a model that calls another one, and that again with its answer', 'calls', [12.5, 18.75, 25, 31.25]],
    ['a model that calls another one for each row at a time', 'calls_async', [2.5, 5, 7.5, 10]],
  ])('%s', async (_, model, expected) => {
    const { outputs } = await triton.client.infer(model, [floats('x', [2, 2], 1, 2, 3, 4)]);
    expect(outputs).toEqual([floats('y', [2, 2], ...expected)]);
  });

  test('npm run infer refuses a decoupled model before it sends anything', async () => {
    const asked = await runCommandLine('infer', ['words', 'one', '--url', triton.httpUrl], {});
    expect(asked).toMatchObject({ code: 1, stdout: '' });
    expect(asked.stderr).toMatch(/words is decoupled: .*\n +-> use the stream of tritonclient: docs\/client\.md/);
  });
});
