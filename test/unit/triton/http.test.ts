import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { TritonHttpClient } from '../../../src/triton/http';
import type { Tensor } from '../../../src/triton/tensor';
import { listenOnLoopback, type LoopbackServer } from '../../support/loopback';

/** Answers the next request; requests are recorded in `seen`. */
let answer: (response: ServerResponse) => void;
let seen: { method: string | undefined; url: string | undefined; headers: IncomingHttpHeaders }[];
let server: LoopbackServer;
let client: TritonHttpClient;

beforeEach(async () => {
  seen = [];
  const answering = createServer((request, response) => {
    request.resume().on('end', () => {
      seen.push({ method: request.method, url: request.url, headers: request.headers });
      answer(response);
    });
  });
  server = await listenOnLoopback(answering);
  client = new TritonHttpClient(`http://127.0.0.1:${server.port}/`);
});

afterEach(async () => {
  client.close();
  await server.stop();
});

const json =
  (status: number, value: unknown) =>
  (response: ServerResponse): void => {
    response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
  };

const INPUTS: Tensor[] = [
  { name: 'a', datatype: 'FP32', shape: [1, 2], data: Float32Array.of(1, -2) },
  { name: 'b', datatype: 'INT8', shape: [1, 1], data: Int8Array.of(7) },
];

describe('infer', () => {
  it('reports an answer with fewer bytes than it announces', async () => {
    const head = Buffer.from(
      '{"outputs":[{"name":"y","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}]}',
    );
    answer = (response) => {
      response.writeHead(200, { 'Inference-Header-Content-Length': head.length });
      response.end(Buffer.concat([head, Buffer.alloc(4)]));
    };
    await expect(client.infer('m', INPUTS)).rejects.toMatchObject({
      status: 'bad response',
      model: 'm',
      message: "the answer cannot be read: tensor 'y': 4 bytes for FP32 of shape [2], which has 8",
    });
  });

  it('sends nothing if data and shape disagree', async () => {
    await expect(
      client.infer('m', [{ name: 'a', datatype: 'INT8', shape: [2], data: new Int8Array(1) }]),
    ).rejects.toThrow("tensor 'a': 1 elements for shape [2], which holds 2");
    expect(seen).toEqual([]);
  });
});

describe('failures', () => {
  it.each([
    ['nothing', '', ' without a reason'],
    ['a text', 'Bad Gateway: port-forward failed\nmore', ': Bad Gateway: port-forward failed'],
    ['a page', '<html>\n<style>b {}</style><h1>502 Bad Gateway</h1>\n', ': 502 Bad Gateway'],
    ['JSON of another form', '{"message":"no route"}', ': {"message":"no route"}'],
  ])('have the status and the first line of a proxy that answers with %s', async (_, body, said) => {
    answer = (response) => response.writeHead(502).end(body);
    const error = await client.loadModel('m').catch((reason: unknown) => reason);
    expect(error).toMatchObject({ status: 'HTTP 502', answered: false });
    expect((error as Error).message.replace(/:\d+\//, ':PORT/')).toBe(
      `http://127.0.0.1:PORT/v2/repository/models/m/load answered HTTP 502${said}`,
    );
  });

  it('end a call at its deadline before an answer', async () => {
    answer = () => undefined;
    await expect(client.loadModel('m', { timeoutMs: 50 })).rejects.toMatchObject({
      status: 'timeout',
      model: 'm',
      message: expect.stringMatching(/\/v2\/repository\/models\/m\/load did not answer within 0\.05 s$/) as string,
    });
  });

  it('end a call at its deadline during an answer', async () => {
    answer = (response) => response.writeHead(200, { 'Content-Length': 100 }).write('{');
    await expect(client.repositoryIndex({ timeoutMs: 50 })).rejects.toMatchObject({ status: 'timeout' });
  });

  it('include a connection that breaks during an answer', async () => {
    answer = (response) => {
      response.writeHead(200, { 'Content-Length': 100 }).write('{');
      setTimeout(() => response.destroy(), 20);
    };
    await expect(client.repositoryIndex()).rejects.toMatchObject({ status: 'unreachable' });
  });
});

it('an answer that is larger than the limit of the client is not read', async () => {
  const small = new TritonHttpClient(client.url, { mostAnswerBytes: 10 });
  for (const headers of [{ 'Content-Length': 100 }, {}]) {
    answer = (response) => response.writeHead(200, headers).write(' '.repeat(11));
    await expect(small.infer('m', INPUTS)).rejects.toMatchObject({ status: 'too large', model: 'm' });
  }
});

it('close ends the calls in flight', async () => {
  answer = () => client.close();
  await expect(client.loadModel('m')).rejects.toMatchObject({ status: 'unreachable' });
});

it('paths begin with the path of the URL', async () => {
  answer = json(200, []);
  const proxied = new TritonHttpClient(`127.0.0.1:${server.port}/triton/`);
  await proxied.live();
  expect(seen[0]?.url).toBe('/triton/v2/health/live');
});

it('repositoryIndex fills in the fields that Triton omits for a model that was never loaded', async () => {
  answer = json(200, [{ name: 'm' }, { name: 'n', version: '1', state: 'READY', reason: '' }]);
  // Longer than timers support.
  expect(await client.repositoryIndex({ timeoutMs: Infinity })).toEqual([
    { name: 'm', version: '', state: '', reason: '' },
    { name: 'n', version: '1', state: 'READY', reason: '' },
  ]);
});
