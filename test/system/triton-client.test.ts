import { join } from 'node:path';
import { toNumbers } from '../../src/local/sample-requests';
import { TritonError } from '../../src/triton/client';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { TritonHttpClient } from '../../src/triton/http';
import type { TritonProcess } from '../../src/local/triton-server';
import type { Tensor } from '../../src/triton/tensor';
import {
  DIFFERENCE,
  DIVIDEND,
  DIVISOR,
  everyType,
  floats,
  NUMERIC_TYPES,
  QUOTIENT,
  REPOSITORY,
  strings,
  VALUES,
  writeClientModels,
} from '../support/client-models';
import { writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { testTriton } from '../support/triton';
import { until } from '../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const repository = join(scratch.directory, 'repository');
let server: TritonProcess;

beforeAll(async () => {
  await writeClientModels(repository);
  server = await testTriton(scratch, repository);
});

describe('the HTTP client', () => {
  let client: TritonHttpClient;
  beforeAll(() => {
    client = new TritonHttpClient(server.httpUrl, { headers: { [CONTROL_HEADER]: server.modelControlKey } });
  });
  afterAll(() => client.close());

  /** The error of a request. */
  async function failure(
    request: Promise<unknown>,
  ): Promise<{ status: string; model: string | undefined; message: string }> {
    const error = await request.then(
      () => new Error('it did not fail'),
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(TritonError);
    const { status: failed, model, message } = error as TritonError;
    return { status: failed, model, message };
  }

  test('returns metadata of models', async () => {
    expect(await client.live()).toBe(true);
    expect(await client.modelMetadata('scores')).toEqual({
      name: 'scores',
      versions: ['1'],
      platform: 'pytorch_libtorch',
      inputs: [{ name: 'input__0', datatype: 'FP32', shape: [-1, 3] }],
      outputs: [{ name: 'output__0', datatype: 'FP32', shape: [-1, 3] }],
    });
    expect(await client.modelConfig('scores')).toMatchObject({
      name: 'scores',
      platform: 'pytorch_libtorch',
      max_batch_size: 8,
    });
  });

  describe('data types', () => {
    let outputs: Map<string, Tensor>;
    beforeAll(async () => {
      const result = await client.infer(
        'every_type',
        everyType((type) => VALUES[type]),
      );
      outputs = new Map(result.outputs.map((output) => [output.name, output]));
    });

    test.each(NUMERIC_TYPES.map((type, i) => ({ type, i })))(
      '$type is sent and received, and PyTorch gets its values',
      ({ type, i }) => {
        const data = VALUES[type];
        expect(outputs.get(`output__${i}`)).toStrictEqual({
          name: `output__${i}`,
          datatype: type,
          shape: [data.length],
          data,
        });
        const name = `output__${i + NUMERIC_TYPES.length}`;
        const seen = Float64Array.from(Array.from<number | bigint>(data), Number);
        expect(outputs.get(name)).toStrictEqual({ name, datatype: 'FP64', shape: [data.length], data: seen });
      },
    );

    test('FP16 is rounded to the nearest', async () => {
      const inputs = everyType((type) => (type === 'FP16' ? Float32Array.of(1 / 3, 1e9) : VALUES[type]));
      const wanted = [{ name: `output__${NUMERIC_TYPES.indexOf('FP16')}` }];
      const result = await client.infer('every_type', inputs, { outputs: wanted });
      expect(result.outputs.map(toNumbers)).toEqual([[1365 / 4096, Infinity]]);
    });

    test('tensors without elements are accepted', async () => {
      const { outputs: empty } = await client.infer(
        'every_type',
        everyType((type) => VALUES[type].slice(0, 0)),
      );
      expect(empty).toHaveLength(2 * NUMERIC_TYPES.length);
      for (const { name, datatype, shape, data } of empty) {
        const i = Number(name.replace('output__', ''));
        expect([datatype, shape, data.length]).toEqual([NUMERIC_TYPES[i] ?? 'FP64', [0], 0]);
      }
    });

    /**
     * Triton verifies that the number of strings fits the shape before it queues the request. The test ends there,
     * because the python backend of this server version cannot read strings with numpy 2.
     * The test "classification" covers strings from the server.
     */
    test('BYTES may hold UTF-8, empty, binary and long strings', async () => {
      const values = ['naïve café ☕', '', Buffer.from([0, 255, 128, 10]), 'x'.repeat(70_000)];
      const text: Tensor = { ...strings('text', ...values), shape: [1, values.length] };
      expect(await failure(client.infer('strings', [text]))).toMatchObject({
        message: expect.stringContaining('Request timeout expired') as string,
      });
    });
  });

  describe('requests', () => {
    test('send several inputs in any order and return several outputs', async () => {
      const { outputs } = await client.infer('divide', [DIVIDEND, DIVISOR], { version: 1 });
      expect(outputs).toEqual([DIFFERENCE, QUOTIENT]);
      expect((await client.infer('divide', [DIVISOR, DIVIDEND], { version: 1 })).outputs).toEqual(outputs);
    });

    test('return only the requested outputs', async () => {
      const { outputs } = await client.infer('divide', [DIVIDEND, DIVISOR], {
        version: 1,
        outputs: [{ name: 'quotient' }],
      });
      expect(outputs).toEqual([QUOTIENT]);
    });

    test('select a version, by default the newest', async () => {
      const first = await client.infer('divide', [DIVIDEND, DIVISOR], { version: 1 });
      const second = await client.infer('divide', [DIVIDEND, DIVISOR], { version: 2 });
      expect([first.model, first.version, second.version]).toEqual(['divide', '1', '2']);
      expect(second.outputs[1]).toEqual(floats('quotient', [2, 2], 3, 2, -5, 2));
      expect(await client.infer('divide', [DIVIDEND, DIVISOR])).toEqual(second);
    });

    test('return classes with labels', async () => {
      const scores = floats('input__0', [2, 3], 0.5, 0.25, 2, -1, -2, -3);
      const { outputs } = await client.infer('scores', [scores], {
        outputs: [{ name: 'output__0', classification: 2 }],
      });
      const classes = ['2.000000:2:zebra: striped', '0.500000:0:cat', '-1.000000:0:cat', '-2.000000:1:dog'];
      expect(outputs).toEqual([{ ...strings('output__0', ...classes), shape: [2, 2] }]);
    });
  });

  describe('rejected requests, with the error message of the server', () => {
    const REFUSED = [
      {
        what: 'a model that is not there',
        send: () => client.infer('divides', [DIVIDEND, DIVISOR]),
        message: /unknown model: 'divides' is not found/,
        status: 'HTTP 404',
        model: 'divides',
      },
      {
        what: 'an input missing',
        send: () => client.infer('divide', [DIVIDEND]),
        message: /expected 2 inputs but got 1 inputs for model 'divide'/,
        status: 'HTTP 400',
      },
      {
        what: 'a batch beyond max_batch_size',
        send: () => client.infer('scores', [floats('input__0', [9, 3], ...new Float32Array(27))]),
        message: /batch-size must be <= 8 for 'scores'/,
        status: 'HTTP 400',
        model: 'scores',
      },
      {
        what: 'a forward that fails',
        send: () => client.infer('divide', [DIVIDEND, floats('divisor', [2, 2], 1, 0, 1, 1)], { version: 1 }),
        message: /PyTorch execute failure: [\s\S]*ValueError: a divisor is zero/,
        status: 'HTTP 500',
      },
    ] as const;

    test.each(REFUSED)('$what', async ({ send, message, status, ...more }) => {
      const model = 'model' in more ? more.model : 'divide';
      expect(await failure(send())).toEqual({
        status,
        model,
        message: expect.stringMatching(message) as string,
      });
      // A rejected request does not affect others.
      expect((await client.infer('divide', [DIVIDEND, DIVISOR], { version: 1 })).outputs).toEqual([
        DIFFERENCE,
        QUOTIENT,
      ]);
    });
  });

  describe('loading and unloading', () => {
    async function getState(model: string): Promise<string> {
      const entry = (await client.repositoryIndex()).find(({ name }) => name === model);
      return entry?.state ?? 'none';
    }

    /** Waits, because unloading ends some time after the answer. */
    async function untilUnloaded(model: string): Promise<void> {
      await until(`${model} is unloaded`, async () => (await getState(model)) === 'UNAVAILABLE');
    }

    test('unloads and loads a model', async () => {
      await client.unloadModel('strings');
      await untilUnloaded('strings');
      expect(await client.repositoryIndex()).toContainEqual({
        name: 'strings',
        version: '1',
        state: 'UNAVAILABLE',
        reason: 'unloaded',
      });
      expect(await getState('divide')).toBe('READY');
      await client.loadModel('strings');
      expect(await client.repositoryIndex()).toContainEqual({
        name: 'strings',
        version: '1',
        state: 'READY',
        reason: '',
      });
    });

    test('reports an invalid model.pt by name while other models keep answering', async () => {
      const config = REPOSITORY['scores/config.pbtxt'].replace('label_filename: "labels.txt"', '');
      writeRepository(repository, { 'corrupt/config.pbtxt': config, 'corrupt/1/model.pt': 'half of a file' });
      const reason = /corrupt\/1\/model\.pt: the file is not TorchScript/;
      expect(await failure(client.loadModel('corrupt'))).toMatchObject({
        model: 'corrupt',
        message: expect.stringMatching(reason) as string,
      });
      expect(await client.repositoryIndex()).toContainEqual({
        name: 'corrupt',
        version: '1',
        state: 'UNAVAILABLE',
        reason: expect.stringMatching(reason) as string,
      });
      expect((await client.infer('divide', [DIVIDEND, DIVISOR], { version: 1 })).outputs).toEqual([
        DIFFERENCE,
        QUOTIENT,
      ]);
    });
  });
});
