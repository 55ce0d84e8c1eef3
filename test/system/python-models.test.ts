import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import type { DataType, Tensor } from '../../src/triton/tensor';
import { runCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';
import { testTriton, type TestTriton } from '../support/triton';

jest.setTimeout(600_000);

/** Two rows of three elements of each type, and the answers of test/data/python-models/types. */
const TYPES: { [T in Exclude<DataType, 'BF16'>]: [sent: Tensor['data'], answered: Tensor['data']] } = {
  BOOL: [Uint8Array.of(1, 0, 0, 1, 1, 0), Uint8Array.of(0, 1, 1, 0, 0, 1)],
  UINT8: [Uint8Array.of(1, 2, 254, 0, 7, 9), Uint8Array.of(255, 3, 2, 10, 8, 1)],
  UINT16: [Uint16Array.of(1, 2, 65534, 0, 7, 9), Uint16Array.of(65535, 3, 2, 10, 8, 1)],
  UINT32: [Uint32Array.of(1, 2, 2 ** 32 - 2, 0, 7, 9), Uint32Array.of(2 ** 32 - 1, 3, 2, 10, 8, 1)],
  UINT64: [BigUint64Array.of(1n, 2n, 2n ** 63n, 0n, 7n, 9n), BigUint64Array.of(2n ** 63n + 1n, 3n, 2n, 10n, 8n, 1n)],
  INT8: [Int8Array.of(-128, 2, 126, 0, -7, 9), Int8Array.of(127, 3, -127, 10, -6, 1)],
  INT16: [Int16Array.of(-32768, 2, 4, 0, -7, 9), Int16Array.of(5, 3, -32767, 10, -6, 1)],
  INT32: [Int32Array.of(-(2 ** 31), 2, 4, 0, -7, 9), Int32Array.of(5, 3, 1 - 2 ** 31, 10, -6, 1)],
  INT64: [BigInt64Array.of(-(2n ** 62n), 2n, 4n, 0n, -7n, 9n), BigInt64Array.of(5n, 3n, 1n - 2n ** 62n, 10n, -6n, 1n)],
  FP16: [Float32Array.of(0.5, -2, 1024, 0, 7, 0.25), Float32Array.of(1025, -1, 1.5, 1.25, 8, 1)],
  FP32: [Float32Array.of(1, 2, 3, 4, 5, 6.5), Float32Array.of(4, 3, 2, 7.5, 6, 5)],
  FP64: [Float64Array.of(1e9 + 0.125, 2, 3, 4, 5, 6), Float64Array.of(4, 3, 1e9 + 1.125, 7, 6, 5)],
  BYTES: [
    ['a', 'straße', '', 'two words', 'ünï', '\u0000x'].map((text) => Buffer.from(text)),
    ['A', 'STRASSE', '', 'TWO WORDS', 'ÜNÏ', '\u0000X'].map((text) => Buffer.from(text)),
  ],
};

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

  test.each(Object.entries(TYPES))('%s', async (type, [, answered]) => {
    const name = type === 'BYTES' ? 'STRING' : type;
    const inputs = Object.keys(TYPES).map((other) => {
      const input = other === 'BYTES' ? 'STRING' : other;
      return tensor(input, other as DataType, [2, 3], TYPES[other as keyof typeof TYPES][0]);
    });
    const { outputs } = await triton.client.infer('types', inputs, { outputs: [{ name: `changed_${name}` }] });
    expect(outputs).toEqual([tensor(`changed_${name}`, type as DataType, [2, 3], answered)]);
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

  test('Triton calls initialize and finalize once each', async () => {
    const notes = (): string => readFileSync(join(repository, 'scales', 'notes'), 'utf8');
    expect(notes()).toBe('initialize scales 1\n');
    await triton.client.unloadModel('scales');
    await until('it has ended', () => notes().includes('finalize'), 60_000);
    expect(notes()).toBe('initialize scales 1\nfinalize\n');
  });
});
