import * as grpc from '@grpc/grpc-js';
import protobuf from 'protobufjs/light';
import { TritonGrpcClient } from '../../../src/triton/grpc';
import { grpcTimeout } from '../../../src/triton/grpc-channel';
import protocol from '../../../src/triton/protocol.json';
import { encodeTensor, type Tensor } from '../../../src/triton/tensor';
import { until } from '../../support/wait-for';

type Message = Record<string, unknown>;

const service = protobuf.Root.fromJSON(protocol).resolveAll().lookupService('inference.GRPCInferenceService');
/** Answers the next call; calls are recorded in `seen`. */
let answer: (call: { method: string; request: Message }) => Message | Partial<grpc.StatusObject> | undefined;
let seen: {
  method: string;
  request: Message;
  metadata: grpc.MetadataValue[];
  call: grpc.ServerUnaryCall<Message, Message>;
}[];
let server: grpc.Server;
let client: TritonGrpcClient;
let address: string;

beforeEach(async () => {
  seen = [];
  server = new grpc.Server({ 'grpc.max_receive_message_length': -1 });
  for (const name of [
    'ServerLive',
    'ServerReady',
    'ModelReady',
    'RepositoryIndex',
    'RepositoryModelUnload',
    'ModelInfer',
  ]) {
    const method = service.methods[name] as protobuf.Method;
    const request = method.resolvedRequestType as protobuf.Type;
    const response = method.resolvedResponseType as protobuf.Type;
    server.register<Message, Message>(
      `/inference.GRPCInferenceService/${name}`,
      (call: grpc.ServerUnaryCall<Message, Message>, done: grpc.sendUnaryData<Message>) => {
        seen.push({ method: name, request: call.request, metadata: call.metadata.get('authorization'), call });
        const said = answer({ method: name, request: call.request });
        if (said !== undefined && 'code' in said) done(said);
        else if (said !== undefined) done(null, said);
      },
      (message) => Buffer.from(response.encode(response.fromObject(message)).finish()),
      (bytes) => request.toObject(request.decode(bytes), { longs: Number }),
      'unary',
    );
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  address = `127.0.0.1:${port}`;
  client = new TritonGrpcClient(address);
});

afterEach(() => {
  client.close();
  server.forceShutdown();
});

const INPUT: Tensor = { name: 'a', datatype: 'FP32', shape: [1, 2], data: Float32Array.of(1, -2) };

describe('infer', () => {
  it('reports an output without raw contents', async () => {
    answer = () => ({ outputs: [{ name: 'y', datatype: 'FP32', shape: [2] }] });
    await expect(client.infer('m', [INPUT])).rejects.toMatchObject({
      status: 'bad response',
      message: "the answer cannot be read: tensor 'y': 0 bytes for FP32 of shape [2], which has 8",
    });
  });

  it('is aborted by its signal, which cancels the call', async () => {
    const abort = new AbortController();
    answer = () => {
      abort.abort(new Error('not needed any more'));
      return undefined;
    };
    await expect(client.infer('m', [INPUT], { signal: abort.signal })).rejects.toThrow('not needed any more');
    await until('the call is cancelled', () => seen[0]?.call.cancelled === true);
    await expect(client.infer('m', [INPUT], { signal: abort.signal })).rejects.toThrow('not needed any more');
    expect(seen).toHaveLength(1);
  });

  it('sends metadata of its own', async () => {
    answer = () => ({ code: grpc.status.INTERNAL, details: 'no' });
    await expect(client.infer('m', [INPUT], { headers: { Authorization: 'Bearer a' } })).rejects.toThrow('no');
    expect(seen[0]?.metadata).toEqual(['Bearer a']);
  });

  it('sends and receives messages above the default limit of 4 MiB', async () => {
    const data = new Float32Array(2_000_000).fill(1.5);
    answer = ({ request }) => ({
      outputs: [{ name: 'y', datatype: 'FP32', shape: [data.length] }],
      raw_output_contents: request['raw_input_contents'],
    });
    const { outputs } = await client.infer('m', [{ name: 'a', datatype: 'FP32', shape: [data.length], data }]);
    // Not toEqual, which takes seconds for this number of elements.
    expect(encodeTensor(outputs[0] as Tensor).equals(Buffer.from(data.buffer))).toBe(true);
  });
});

it('TritonGrpcClient ends a call at its deadline', async () => {
  answer = () => undefined;
  await expect(client.repositoryIndex({ timeoutMs: 50 })).rejects.toMatchObject({
    status: 'timeout',
    message: expect.stringMatching(/^127\.0\.0\.1:\d+ did not answer RepositoryIndex within 0\.05 s$/) as string,
  });
});

it('TritonGrpcClient accepts a longer timeout than timers support', async () => {
  answer = () => ({ models: [] });
  await expect(client.repositoryIndex({ timeoutMs: Infinity })).resolves.toEqual([]);
});

it.each([
  [-1, '1m'],
  [0.2, '1m'],
  [30_000, '30000m'],
  [99_999_999, '99999999m'],
  [99_999_999.5, '100000S'],
  [2 ** 31 - 1, '2147484S'],
])('sends a deadline of %d ms as %s, in at most eight digits', (milliseconds, text) => {
  expect(grpcTimeout(milliseconds)).toBe(text);
});

it('TritonGrpcClient reads omitted fields as their defaults', async () => {
  answer = () => ({});
  expect([
    await client.live(),
    await client.ready(),
    await client.modelReady('m', 2),
    await client.repositoryIndex(),
  ]).toEqual([false, false, false, []]);
  expect(seen[2]?.request).toEqual({ name: 'm', version: '2' });
});

it('TritonGrpcClient accepts a URL as address', async () => {
  answer = () => ({ ready: true });
  const other = new TritonGrpcClient(`http://${address}`);
  expect(await other.ready()).toBe(true);
  other.close();
});
