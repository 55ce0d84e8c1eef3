import { join } from 'node:path';
import { TritonGrpcClient, TritonHttpClient, TritonModel, type Tensor, type TritonError } from '../../src/triton';
import { addingModel, writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { startProxy } from '../support/proxy';
import { testTriton, type TestTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** Sends each number from 0 to below its input as an answer; rejects a negative input. */
const COUNTING = `import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            count = int(pb_utils.get_input_tensor_by_name(request, "count").as_numpy()[0])
            sender = request.get_response_sender()
            if count < 0:
                error = pb_utils.TritonError("a count is negative")
                sender.send(pb_utils.InferenceResponse([], error))
            for i in range(count):
                number = pb_utils.Tensor("number", np.array([i], dtype=np.int32))
                sender.send(pb_utils.InferenceResponse([number]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
`;

/** Sums the inputs and the parameters "more" of all requests of a sequence. */
const SUMMING = `import json
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            start = pb_utils.get_input_tensor_by_name(request, "START").as_numpy()
            key = request.correlation_id()
            more = json.loads(request.parameters()).get("more", 0)
            self.sums[key] = (0 if start[0] else self.sums[key]) + float(x[0]) + more
            y = pb_utils.Tensor("y", np.array([self.sums[key]], dtype=np.float32))
            responses.append(pb_utils.InferenceResponse([y]))
        return responses
`;

const CPU = 'instance_group { count: 1 kind: KIND_CPU }';
const repository = writeRepository(join(scratch.directory, 'repository'), {
  ...addingModel('adds', { 1: 10 }),
  'batches/config.pbtxt': [
    'backend: "python"',
    'max_batch_size: 4',
    'input { name: "x" data_type: TYPE_FP32 dims: 2 }',
    'output { name: "y" data_type: TYPE_FP32 dims: 2 }',
    CPU,
  ].join('\n'),
  'batches/1/model.py': addingModel('batches', { 1: 1 })['batches/1/model.py'] ?? '',
  'counting/config.pbtxt': [
    'backend: "python"',
    'model_transaction_policy { decoupled: true }',
    'input { name: "count" data_type: TYPE_INT32 dims: 1 }',
    'output { name: "number" data_type: TYPE_INT32 dims: 1 }',
    CPU,
  ].join('\n'),
  'counting/1/model.py': COUNTING,
  'summing/config.pbtxt': [
    'backend: "python"',
    'input { name: "x" data_type: TYPE_FP32 dims: 1 }',
    'output { name: "y" data_type: TYPE_FP32 dims: 1 }',
    // By default Triton ends a sequence after one second, which a busy machine may take for two requests.
    'sequence_batching { max_sequence_idle_microseconds: 60000000 control_input {',
    '  name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] }',
    '} }',
    CPU,
  ].join('\n'),
  'summing/1/model.py': SUMMING,
});

let server: TestTriton;
let hasEnded = false;
let grpc: TritonGrpcClient;
let http: TritonHttpClient;

// Triton 2.51 sometimes crashes when a stream is cancelled while its model sends answers. Then a test runs again, on a new
// server.
jest.retryTimes(2, { logErrorsBeforeRetry: true });

function watch(): void {
  hasEnded = false;
  void server.ended.then(() => (hasEnded = true));
}

beforeEach(async () => {
  if (!hasEnded) return;
  server = await server.startAgain();
  watch();
});

beforeAll(async () => {
  server = await testTriton(scratch, repository);
  watch();
  grpc = new TritonGrpcClient(server.grpcAddress);
  http = new TritonHttpClient(server.httpUrl);
  scratch.defer(() => grpc.close());
  scratch.defer(() => http.close());
});

const count = (value: number): Tensor[] => [
  { name: 'count', datatype: 'INT32', shape: [1], data: Int32Array.of(value) },
];
const x = (...values: number[]): Tensor[] => [
  { name: 'x', datatype: 'FP32', shape: [values.length], data: Float32Array.from(values) },
];
const first = ({ outputs }: { outputs: Tensor[] }): number => Number(outputs[0]?.data[0]);

describe('a decoupled model', () => {
  async function numbers(value: number): Promise<number[]> {
    const seen: number[] = [];
    for await (const answer of grpc.inferStream('counting', count(value))) seen.push(first(answer));
    return seen;
  }

  test.each([0, 1, 5, 500])('sends %d answers to one request in order', async (value) => {
    expect(await numbers(value)).toEqual(Array.from({ length: value }, (_, i) => i));
  });

  test('fails with the error message of the model', async () => {
    await expect(numbers(-1)).rejects.toMatchObject({
      name: 'TritonError',
      message: expect.stringContaining('a count is negative') as string,
    });
  });

  test('is cancelled if the caller stops reading, and the client stays usable', async () => {
    for await (const answer of grpc.inferStream('counting', count(1000))) {
      if (first(answer) === 3) break;
    }
    expect(await numbers(2)).toEqual([0, 1]);
  });

  test('a failed request does not end other requests of its stream', async () => {
    const stream = grpc.openStream();
    for (const [id, value] of [
      ['a', 2],
      ['b', -1],
      ['c', 1],
    ] as const) {
      stream.send('counting', count(value), { requestId: id });
    }
    stream.end();
    const seen: string[] = [];
    for await (const { result, error } of stream) {
      seen.push(
        error === undefined ? `${result.requestId} ${first(result)}` : error.message.replace(/.*(a count)/s, '$1'),
      );
    }
    expect(seen.sort()).toEqual(['a 0', 'a 1', 'a count is negative', 'c 0']);
  });

  test('marks the last answer on request', async () => {
    const stream = grpc.openStream();
    stream.send('counting', count(2), { parameters: { triton_enable_empty_final_response: true } });
    stream.end();
    const seen: [number, boolean][] = [];
    for await (const answer of stream) {
      if (answer.error === undefined) seen.push([answer.result.outputs.length, answer.isFinal]);
    }
    expect(seen).toEqual([
      [1, false],
      [1, false],
      [0, true],
    ]);
  });
});

test('a stream ends at its deadline', async () => {
  const stream = grpc.openStream({ timeoutMs: 3000 });
  stream.send('adds', x(1));
  const seen: number[] = [];
  const reading = (async () => {
    for await (const answer of stream) if (answer.error === undefined) seen.push(first(answer.result));
  })();
  await expect(reading).rejects.toMatchObject({ status: 'timeout' });
  expect(seen).toEqual([11]);
});

test('a stream to an unknown model fails', async () => {
  const reading = (async () => {
    for await (const answer of grpc.inferStream('nothing', x(1))) first(answer);
  })();
  await expect(reading).rejects.toMatchObject({ message: expect.stringContaining("'nothing'") as string });
});

test('the client sends sequences and request parameters over gRPC and HTTP', async () => {
  const options = (i: number) => ({ sequence_start: i === 0, sequence_end: i === 2, more: 100 });
  for (const [client, id] of [
    [grpc, 7],
    [http, 8],
  ] as const) {
    const sums: number[] = [];
    for (let i = 0; i < 3; i += 1) {
      const parameters = { sequence_id: id, ...options(i) };
      sums.push(first(await client.infer('summing', x(i + 1), { parameters })));
    }
    expect(sums).toEqual([101, 203, 306]);
  }
});

describe.each(['gzip', 'deflate'] as const)('%s', (compression) => {
  const input = x(...new Float32Array(50_000));

  test('over HTTP, of request and answer', async () => {
    const sizes: number[] = [];
    const proxy = await startProxy(server.httpUrl, async (incoming, reply, passOn) => {
      const answer = await passOn(incoming);
      sizes.push(Number(incoming.headers['content-length']), answer.body.length);
      reply.writeHead(answer.status, answer.headers).end(answer.body);
    });
    const client = new TritonHttpClient(proxy.endpoint);
    try {
      const options = { requestCompression: compression, responseCompression: compression };
      const { outputs } = await client.infer('adds', input, options);
      expect(outputs[0]?.data).toEqual(new Float32Array(50_000).fill(10));
      expect(Math.max(...sizes)).toBeLessThan(20_000);
      const refused = client.infer('adds', input, { ...options, version: 9 });
      await expect(refused).rejects.toMatchObject({ message: expect.stringContaining('version 9') as string });
    } finally {
      client.close();
      await proxy.stop();
    }
  });

  test('over gRPC, of the request', async () => {
    const { outputs } = await grpc.infer('adds', input, { requestCompression: compression });
    expect(outputs[0]?.data).toEqual(new Float32Array(50_000).fill(10));
  });
});

test.each(['HTTP', 'gRPC'] as const)(
  'TritonModel.infer splits a batch with more rows than the model accepts, over %s',
  async (protocol) => {
    const model = await TritonModel.open(protocol === 'HTTP' ? http : grpc, 'batches');
    const values = Float32Array.from({ length: 22 }, (_, i) => i);
    const { outputs } = await model.infer({ x: values });
    expect(outputs).toEqual([{ name: 'y', datatype: 'FP32', shape: [11, 2], data: values.map((value) => value + 1) }]);
  },
);

test('the client sends headers with each request', async () => {
  const seen: unknown[] = [];
  const proxy = await startProxy(server.httpUrl, async (incoming, reply, passOn) => {
    seen.push(incoming.headers['x-key']);
    const answer = await passOn(incoming);
    reply.writeHead(answer.status, answer.headers).end(answer.body);
  });
  const client = new TritonHttpClient(proxy.endpoint, { headers: { 'X-Key': 'secret' } });
  await client.infer('adds', x(1));
  await client.ready();
  client.close();
  await proxy.stop();
  expect(seen).toEqual(['secret', 'secret']);
});

test('the client matches many parallel gRPC requests with their answers', async () => {
  const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => grpc.infer('adds', x(i))));
  expect(answers.map(first)).toEqual(Array.from({ length: 200 }, (_, i) => i + 10));
});

test('a closed client rejects requests and does not hang', async () => {
  const client = new TritonGrpcClient(server.grpcAddress);
  const answer = client.infer('counting', count(1)).catch((error: unknown) => error as TritonError);
  client.close();
  expect(await answer).toMatchObject({ name: 'TritonError', status: 'unreachable' });
});
