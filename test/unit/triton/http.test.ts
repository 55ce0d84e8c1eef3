import { createServer, type Agent, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { TritonHttpClient } from '../../../src/triton/http';
import type { Tensor } from '../../../src/triton/tensor';

interface Seen {
  method: string | undefined;
  url: string | undefined;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** Answers the next request; requests are recorded in `seen`. */
let answer: (response: ServerResponse) => void;
let seen: Seen[];
let sockets: Set<Socket>;
let server: Server;
let client: TritonHttpClient;

beforeEach(async () => {
  seen = [];
  sockets = new Set();
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method, url, headers } = request;
      seen.push({ method, url, headers, body: Buffer.concat(chunks) });
      answer(response);
    });
  });
  server.on('connection', (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  client = new TritonHttpClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
});

afterEach(async () => {
  client.close();
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});

const json =
  (status: number, value: unknown) =>
  (response: ServerResponse): void => {
    response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
  };

/** Length of the JSON in the first request, as its header says. */
const jsonLength = (): number => Number(seen[0]?.headers['inference-header-content-length']);
const sentJson = (): object => JSON.parse(seen[0]?.body.toString('utf8', 0, jsonLength()) ?? '') as object;

const INPUTS: Tensor[] = [
  { name: 'a', datatype: 'FP32', shape: [1, 2], data: Float32Array.of(1, -2) },
  { name: 'b', datatype: 'INT8', shape: [1, 1], data: Int8Array.of(7) },
];

describe('infer', () => {
  const result = (parts: object, data: Buffer): ((response: ServerResponse) => void) => {
    const head = Buffer.from(JSON.stringify({ model_name: 'm', model_version: '3', ...parts }));
    return (response) => {
      response.writeHead(200, { 'Inference-Header-Content-Length': head.length }).end(Buffer.concat([head, data]));
    };
  };

  it('sends JSON, then the bytes of each input', async () => {
    answer = result({ outputs: [] }, Buffer.alloc(0));
    await client.infer('a model', INPUTS, {
      version: 3,
      requestId: 'r',
      outputs: [{ name: 'y', classification: 2 }, { name: 'z' }],
    });
    expect(seen.map(({ method, url }) => [method, url])).toEqual([['POST', '/v2/models/a%20model/versions/3/infer']]);
    expect(sentJson()).toEqual({
      id: 'r',
      parameters: { binary_data_output: true },
      inputs: [
        { name: 'a', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } },
        { name: 'b', datatype: 'INT8', shape: [1, 1], parameters: { binary_data_size: 1 } },
      ],
      outputs: [
        { name: 'y', parameters: { binary_data: true, classification: 2 } },
        { name: 'z', parameters: { binary_data: true } },
      ],
    });
    expect(seen[0]?.body.subarray(jsonLength()).toString('hex')).toBe('0000803f000000c007');
  });

  it('requests every output and the preferred version by default', async () => {
    answer = result({ outputs: [] }, Buffer.alloc(0));
    await client.infer('m', INPUTS);
    expect(seen[0]?.url).toBe('/v2/models/m/infer');
    expect(Object.keys(sentJson())).toEqual(['parameters', 'inputs']);
  });

  it('reads the outputs from the binary part of the answer', async () => {
    const outputs = [
      { name: 'y', datatype: 'INT8', shape: [1, 3], parameters: { binary_data_size: 3 } },
      { name: 'none', datatype: 'FP32', shape: [1, 0], parameters: { binary_data_size: 0 } },
      { name: 'z', datatype: 'FP32', shape: [1, 1], parameters: { binary_data_size: 4 } },
    ];
    answer = result({ id: 'r', outputs }, Buffer.from('01fe030000803f', 'hex'));
    expect(await client.infer('m', INPUTS)).toEqual({
      model: 'm',
      version: '3',
      requestId: 'r',
      outputs: [
        { name: 'y', datatype: 'INT8', shape: [1, 3], data: Int8Array.of(1, -2, 3) },
        { name: 'none', datatype: 'FP32', shape: [1, 0], data: new Float32Array(0) },
        { name: 'z', datatype: 'FP32', shape: [1, 1], data: Float32Array.of(1) },
      ],
    });
  });

  it('reports an answer with fewer bytes than it announces', async () => {
    answer = result(
      { outputs: [{ name: 'y', datatype: 'FP32', shape: [2], parameters: { binary_data_size: 8 } }] },
      Buffer.alloc(4),
    );
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
  it('have the message and the status of the server, and the model', async () => {
    answer = json(404, { error: "Request for unknown model: 'm' is not found" });
    await expect(client.modelMetadata('m')).rejects.toMatchObject({
      name: 'TritonError',
      status: 'HTTP 404',
      model: 'm',
      message: "Request for unknown model: 'm' is not found",
    });
  });

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

  it('do not include a longer timeout than timers support', async () => {
    answer = json(200, []);
    await expect(client.repositoryIndex({ timeoutMs: Infinity })).resolves.toEqual([]);
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

  it('include a server that is not running', async () => {
    await new Promise((resolve) => server.close(resolve));
    await expect(client.ready()).rejects.toMatchObject({
      status: 'unreachable',
      message: expect.stringMatching(/cannot be reached: connect ECONNREFUSED/) as string,
    });
  });
});

describe('connections', () => {
  /** Makes the server reset the connection after it has read the request number `reset`. */
  function resetAt(reset: number): void {
    answer = (response) => {
      if (seen.length === reset) (response.socket as Socket).resetAndDestroy();
      else json(200, { model_name: 'm', model_version: '1', outputs: [] })(response);
    };
  }

  it('are kept open between calls', async () => {
    answer = json(200, []);
    await client.repositoryIndex();
    await client.repositoryIndex();
    expect(sockets.size).toBe(1);
  });

  it('are replaced if the server resets a reused one, and a GET request is sent again', async () => {
    resetAt(2);
    await client.infer('m', INPUTS);
    await expect(client.ready()).resolves.toBe(true);
    expect(seen.map(({ method }) => method)).toEqual(['POST', 'GET', 'GET']);
    expect(sockets.size).toBe(2);
  });

  it('do not repeat infer after the request was written, because the model may have run', async () => {
    resetAt(2);
    await client.infer('m', INPUTS);
    await expect(client.infer('m', INPUTS)).rejects.toMatchObject({ status: 'unreachable', nothingSent: false });
    expect(seen).toHaveLength(2);
  });

  it('repeat infer if a reused connection is closed before anything of the request was written', async () => {
    resetAt(-1);
    await client.infer('m', INPUTS);
    const { agent } = (client as unknown as { transport: { agent: Agent } }).transport;
    const call = client.infer('m', INPUTS);
    for (const socket of Object.values(agent.sockets).flat()) socket?.destroy();
    await expect(call).resolves.toMatchObject({ model: 'm' });
    expect(seen).toHaveLength(2);
    expect(sockets.size).toBe(2);
  });

  it.each(['loadModel', 'unloadModel'] as const)('of %s are new ones, because it is never sent again', async (call) => {
    resetAt(-1);
    await client.infer('m', INPUTS);
    await client[call]('m');
    expect(sockets.size).toBe(2);
  });
});

describe('paths', () => {
  it.each<[string, (c: TritonHttpClient) => Promise<unknown>]>([
    ['GET /v2/health/live', (c) => c.live()],
    ['GET /v2/health/ready', (c) => c.ready()],
    ['GET /v2/models/m/ready', (c) => c.modelReady('m')],
    ['GET /v2/models/m/versions/2/ready', (c) => c.modelReady('m', 2)],
    ['GET /v2', (c) => c.serverMetadata()],
    ['GET /v2/models/m/versions/2', (c) => c.modelMetadata('m', 2)],
    ['GET /v2/models/m/config', (c) => c.modelConfig('m')],
    ['POST /v2/repository/index', (c) => c.repositoryIndex()],
    ['POST /v2/repository/models/m/load', (c) => c.loadModel('m')],
    ['POST /v2/repository/models/m/unload', (c) => c.unloadModel('m')],
  ])('%s', async (expected, call) => {
    answer = json(200, []);
    await call(client);
    expect(seen.map(({ method, url }) => `${method} ${url}`)).toEqual([expected]);
  });

  it('begin with the path of the URL', async () => {
    answer = json(200, []);
    const proxied = new TritonHttpClient(`127.0.0.1:${(server.address() as AddressInfo).port}/triton/`);
    await proxied.ready();
    proxied.close();
    expect(seen[0]?.url).toBe('/triton/v2/health/ready');
  });
});

it.each([
  [200, true],
  [400, false],
  [404, false],
  [503, false],
])('modelReady reads status %d as %s', async (status, ready) => {
  answer = json(status, {});
  expect(await client.modelReady('m')).toBe(ready);
});

it('repositoryIndex fills in the fields that Triton omits for a model that was never loaded', async () => {
  answer = json(200, [{ name: 'm' }, { name: 'n', version: '1', state: 'READY', reason: '' }]);
  expect(await client.repositoryIndex()).toEqual([
    { name: 'm', version: '', state: '', reason: '' },
    { name: 'n', version: '1', state: 'READY', reason: '' },
  ]);
});

it.each([
  [undefined, false],
  [true, true],
])('unloadModel with unloadDependents %s sends %s', async (unloadDependents, sent) => {
  answer = json(200, {});
  await client.unloadModel('m', unloadDependents === undefined ? {} : { unloadDependents });
  expect(JSON.parse(seen[0]?.body.toString() ?? '')).toEqual({ parameters: { unload_dependents: sent } });
});
