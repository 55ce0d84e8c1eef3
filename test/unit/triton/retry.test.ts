import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts } from '../../../src/local/process/ports';
import { TritonError, type ClientOptions } from '../../../src/triton/client';
import { TritonGrpcClient } from '../../../src/triton/grpc';
import { TritonHttpClient } from '../../../src/triton/http';
import { withRetries } from '../../../src/triton/retry';
import type { Tensor } from '../../../src/triton/tensor';

/** Reaction of the server to each request in turn; the last one repeats. */
type Behaviour = 'unavailable' | 'reset' | 'ok';

let server: Server;
let seen: string[];
let clients: { close(): void }[];

beforeEach(() => {
  seen = [];
  clients = [];
});

afterEach(async () => {
  for (const client of clients) client.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function serverThat(...behaviours: Behaviour[]): void {
  server = createServer((request, response) => {
    request.resume().on('end', () => {
      seen.push(request.url ?? '');
      const behaviour = behaviours.length > 1 ? behaviours.shift() : behaviours[0];
      if (behaviour === 'reset') request.socket.resetAndDestroy();
      else if (behaviour === 'unavailable') response.writeHead(503).end('{"error":"busy"}');
      else getAnswer(response);
    });
  });
}

function getAnswer(response: ServerResponse): void {
  response.end(JSON.stringify({ model_name: 'm', model_version: '1', outputs: [], versions: [], inputs: [] }));
}

const listen = async (port = 0): Promise<string> => {
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

async function getClient(options: ClientOptions = {}): Promise<TritonHttpClient> {
  const client = new TritonHttpClient(await listen(), options);
  clients.push(client);
  return client;
}

const INPUT: Tensor = { name: 'a', datatype: 'FP32', shape: [1], data: Float32Array.of(1) };

it.each<Behaviour>(['unavailable', 'reset'])('a call that only reads is retried: %s', async (failure) => {
  serverThat(failure, failure, 'ok');
  await expect((await getClient()).modelMetadata('m')).resolves.toMatchObject({ versions: [] });
  expect(seen).toHaveLength(3);
});

it('a call fails with the last error after its retries', async () => {
  serverThat('unavailable');
  await expect((await getClient({ retries: 1 })).repositoryIndex()).rejects.toMatchObject({
    status: 'HTTP 503',
    message: 'busy',
  });
  expect(seen).toHaveLength(2);
});

it('a call with retries 0 is sent once', async () => {
  serverThat('unavailable');
  await expect((await getClient({ retries: 0 })).repositoryIndex()).rejects.toMatchObject({ message: 'busy' });
  expect(seen).toHaveLength(1);
});

it.each<Behaviour>(['unavailable', 'reset'])('infer is sent once: %s', async (failure) => {
  serverThat(failure, 'ok');
  await expect((await getClient()).infer('m', [INPUT])).rejects.toMatchObject({ model: 'm' });
  expect(seen).toHaveLength(1);
});

it.each(['loadModel', 'unloadModel'] as const)('%s is never retried', async (call) => {
  serverThat('unavailable', 'ok');
  await expect((await getClient())[call]('m')).rejects.toMatchObject({ status: 'HTTP 503' });
  expect(seen).toHaveLength(1);
});

it('ready is not retried, because it reports the current state', async () => {
  serverThat('unavailable', 'ok');
  await expect((await getClient()).ready()).resolves.toBe(false);
});

it('a call is not retried after the server rejected the request', async () => {
  server = createServer((request, response) => {
    seen.push(request.url ?? '');
    response.writeHead(400).end('{"error":"no"}');
  });
  await expect((await getClient()).modelMetadata('m')).rejects.toMatchObject({ message: 'no' });
  expect(seen).toHaveLength(1);
});

it('withRetries does not retry after the deadline, which would hide the error', async () => {
  let tries = 0;
  const refused = new TritonError('refused', { status: 'unreachable', nothingSent: true });
  const call = withRetries({ retries: 5 }, 'read', performance.now(), () => {
    tries += 1;
    return Promise.reject(refused);
  });
  await expect(call).rejects.toBe(refused);
  expect(tries).toBe(1);
});

describe('a server that does not run yet', () => {
  /** The address at which `listen` will start the server. */
  async function addressToBe(): Promise<{ url: string; port: number }> {
    serverThat('ok');
    const [port = 0] = await freePorts(1);
    return { url: `http://127.0.0.1:${port}`, port };
  }

  it('receives an infer that was retried, because nothing was sent before', async () => {
    const { url, port } = await addressToBe();
    const client = new TritonHttpClient(url, { retries: 6 });
    clients.push(client);
    const answer = client.infer('m', [INPUT]);
    await sleep(60);
    await listen(port);
    await expect(answer).resolves.toMatchObject({ model: 'm' });
  });

  it.each([
    ['HTTP', (url: string): TritonHttpClient => new TritonHttpClient(url, { retries: 1 })],
    ['gRPC', (url: string): TritonGrpcClient => new TritonGrpcClient(url.replace('http://', ''), { retries: 1 })],
  ])('is reported over %s after the retries', async (_, connect) => {
    const { url } = await addressToBe();
    const client = connect(url);
    clients.push(client);
    await expect(client.infer('m', [INPUT])).rejects.toMatchObject({ status: 'unreachable', nothingSent: true });
  });

  it('is not waited for after the deadline', async () => {
    const { url } = await addressToBe();
    const client = new TritonHttpClient(url, { retries: 1000 });
    clients.push(client);
    await expect(client.infer('m', [INPUT], { timeoutMs: 300 })).rejects.toMatchObject({ model: 'm' });
  });
});
