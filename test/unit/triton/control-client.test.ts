import { createServer as createHttpServer } from 'node:http';
import { createServer, type ServerHttp2Stream } from 'node:http2';
import { ControlClient, defaultGrpcAddress } from '../../../src/triton/control-client';
import { listenOnLoopback } from '../../support/loopback';
import { until } from '../../support/wait-for';
import { explainLoadFailure, explainRequestFailure } from '../../../src/triton/load-failure';

/** Calls that a server received, each with the key that it had. */
let received: string[];
const stops: (() => Promise<void>)[] = [];
beforeEach(() => (received = []));
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function httpPort(): Promise<number> {
  const server = createHttpServer(({ url, headers }, response) => {
    received.push(`HTTP ${url} ${String(headers['triton-model-control-key'])}`);
    response.statusCode = url?.startsWith('/v2/') === true ? 200 : 404;
    response.end('{}');
  });
  const { port, stop } = await listenOnLoopback(server);
  stops.push(stop);
  return port;
}

/** A message with `live: true`, which has no meaning in an answer to a load. */
const LIVE = Buffer.from([0, 0, 0, 0, 2, 8, 1]);
const NOTHING = Buffer.alloc(5);

function answer(stream: ServerHttp2Stream, message: Buffer, status: string): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status, 'grpc-message': 'no memory' }));
  stream.end(message);
}

/**
 * @param onLoad the status of its answer to a load; no answer if undefined, no answer to anything if silent, and answers that
 * have no message if empty
 */
async function grpcPort(onLoad: string | undefined): Promise<number> {
  const server = createServer().on('stream', (stream, headers) => {
    const method = String(headers[':path']).split('/').at(-1);
    received.push(`gRPC ${method} ${String(headers['triton-grpc-protocol-triton-model-control-key'])}`);
    if (onLoad === 'empty') answer(stream, Buffer.alloc(0), '0');
    else if (method === 'ServerLive' && onLoad !== 'silent') answer(stream, LIVE, '0');
    else if (method !== 'ServerLive' && onLoad !== undefined) answer(stream, NOTHING, onLoad);
  });
  const { port, stop } = await listenOnLoopback(server);
  stops.push(stop);
  return port;
}

async function controlClient(grpc?: number): Promise<ControlClient> {
  const url = `http://127.0.0.1:${await httpPort()}`;
  const grpcAddress = grpc === undefined ? undefined : `127.0.0.1:${grpc}`;
  const client = new ControlClient({ url, grpcAddress, modelControlKey: 'the-key' });
  stops.unshift(() => {
    client.close();
    return Promise.resolve();
  });
  return client;
}

const OVER_HTTP = 'HTTP /v2/repository/models/m/load the-key';
const OVER_GRPC = ['gRPC ServerLive the-key', 'gRPC RepositoryModelLoad the-key'];

test.each<{ name: string; grpc: () => Promise<number | undefined>; expected: string[] }>([
  { name: 'over gRPC', grpc: () => grpcPort('0'), expected: OVER_GRPC },
  { name: 'over HTTP if no gRPC address is known', grpc: () => Promise.resolve(undefined), expected: [OVER_HTTP] },
  { name: 'over HTTP if nothing listens at the gRPC address', grpc: () => Promise.resolve(1), expected: [OVER_HTTP] },
  {
    name: 'over HTTP if an answer over gRPC has no message',
    grpc: () => grpcPort('empty'),
    expected: ['gRPC ServerLive the-key', OVER_HTTP],
  },
  { name: 'over HTTP if a server without gRPC listens there', grpc: httpPort, expected: [OVER_HTTP] },
])('loadModel loads $name', async ({ grpc, expected }) => {
  await (await controlClient(await grpc())).loadModel('m');
  expect(received).toEqual(expected);
});

test.each([
  { code: '13', status: 'gRPC INTERNAL', answered: true },
  // A server that ends, or a proxy, answers with these too.
  { code: '14', status: 'gRPC UNAVAILABLE', answered: false },
  { code: '1', status: 'gRPC CANCELLED', answered: false },
])('loadModel reports $status, and does not load again over HTTP', async ({ code, status, answered }) => {
  const client = await controlClient(await grpcPort(code));
  await expect(client.loadModel('m')).rejects.toMatchObject({ message: 'no memory', model: 'm', status, answered });
  expect(received).toEqual(OVER_GRPC);
});

test('a client that was closed before the load does not load over HTTP', async () => {
  const client = await controlClient(await grpcPort('silent'));
  const loading = client.loadModel('m').catch((error: unknown) => error);
  await until('the question is there', () => received.length === 1);
  client.close();
  expect(await loading).toMatchObject({ status: 'unreachable' });
  expect(received).toEqual(['gRPC ServerLive the-key']);
});

test.each([
  [50, 'timeout', /^127\.0\.0\.1:\d+ did not answer RepositoryModelLoad within 0\.05 s$/],
  // Longer than timers and gRPC support.
  [Infinity, 'unreachable', /cannot be reached/],
])('a load ends at its deadline of %d ms, or when the client is closed', async (timeoutMs, status, message) => {
  const client = await controlClient(await grpcPort(undefined));
  const loading = client.loadModel('m', { timeoutMs }).catch((error: unknown) => error);
  await until('the load is there', () => received.length === 2);
  if (timeoutMs === Infinity) client.close();
  expect(await loading).toMatchObject({ status, message: expect.stringMatching(message) as string });
});

test.each([
  ['http://triton:8000', 'triton:8001'],
  ['http://[::1]:8000/', '[::1]:8001'],
  ['http://triton:8080', undefined],
  ['http://triton', undefined],
  ['https://triton:8000', undefined],
])('the default gRPC address of %s is %s', (url, expected) => {
  expect(defaultGrpcAddress(url)).toBe(expected);
});

test.each([
  [
    "Internal: ModuleNotFoundError: No module named 'PIL.Image'\n\nAt:\n  model.py(1)",
    /^add the package of PIL \(its name may differ\) to m\/requirements\.txt/,
  ],
  ['instance group m of model m has kind KIND_GPU but no GPUs are available', /^omit "kind" in/],
  ['Internal: RuntimeError: no weights', undefined],
])('explainLoadFailure gives the next step for: %s', (reason, hint) => {
  const found = explainLoadFailure('m', reason);
  expect(found.message).not.toContain('At:');
  if (hint === undefined) expect(found.hint).toBeUndefined();
  else expect(found.hint).toMatch(hint);
});

test('explainRequestFailure keeps the cause of a TorchScript error', () => {
  const reason = `PyTorch execute failure: The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "/torch/nn/functional.py", line 2818, in _verify_batch_size
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")
        ~~~~~ <--- HERE
builtins.ValueError: Expected more than 1 value per channel when training, got input size [1, 4]
`;
  expect(explainRequestFailure('m', reason)).toBe(
    'PyTorch execute failure: ValueError: Expected more than 1 value per channel when training, got input size [1, 4]',
  );
});
