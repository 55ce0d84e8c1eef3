import { join } from 'node:path';
import type { TritonError } from '../../src/triton/client';
import { TritonGrpcClient } from '../../src/triton/grpc';
import { TritonHttpClient } from '../../src/triton/http';
import { TritonModel } from '../../src/triton/model';
import type { Tensor } from '../../src/triton/tensor';
import { addingModel, writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { startProxy } from '../support/proxy';
import { testTriton, type TestTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

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
let grpc: TritonGrpcClient;
let http: TritonHttpClient;

beforeAll(async () => {
  server = await testTriton(scratch, repository);
  grpc = new TritonGrpcClient(server.grpcAddress);
  http = new TritonHttpClient(server.httpUrl);
  scratch.defer(() => grpc.close());
  scratch.defer(() => http.close());
});

const x = (...values: number[]): Tensor[] => [
  { name: 'x', datatype: 'FP32', shape: [values.length], data: Float32Array.from(values) },
];
const first = ({ outputs }: { outputs: Tensor[] }): number => Number(outputs[0]?.data[0]);

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
  const answer = client.infer('adds', x(1)).catch((error: unknown) => error as TritonError);
  client.close();
  expect(await answer).toMatchObject({ name: 'TritonError', status: 'unreachable' });
});
