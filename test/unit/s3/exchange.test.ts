import * as http from 'node:http';
import * as net from 'node:net';
import type { AddressInfo } from 'node:net';
import { endpointOf } from '../../../src/s3/endpoint';
import { ConnectionFailure, exchange, type Answer } from '../../../src/s3/exchange';
import { PART_BYTES, S3Store } from '../../../src/s3/store';

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0).reverse()) step();
});

/** A server on bare TCP, which does what the test says once it has the first bytes of a request. */
async function serverThat(act: (socket: net.Socket) => void): Promise<{ url: string; connections: () => number }> {
  let connections = 0;
  const server = net.createServer((socket) => {
    connections += 1;
    socket.on('error', () => undefined);
    // The rest of the request is left unread.
    socket.once('data', () => act(socket.pause()));
    undo.push(() => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  undo.push(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connections: () => connections };
}

/** PUTs a body, if none is given one that no socket takes in one go. */
function put(url: string, body: Buffer = Buffer.alloc(PART_BYTES), idleTimeoutMs = 10_000): Promise<Answer> {
  const agent = new http.Agent({ keepAlive: true, timeout: idleTimeoutMs });
  undo.push(() => agent.destroy());
  return exchange(endpointOf('bucket', 'us-east-1', url), agent, {
    method: 'PUT',
    path: '/bucket/key',
    headers: { host: 'host', 'content-length': String(body.byteLength) },
    body,
    timeoutMs: 10_000,
  });
}

const xml = (code: string): string => `<Error><Code>${code}</Code></Error>`;
const answer = (status: string, body: string, length = body.length): string =>
  `HTTP/1.1 ${status}\r\nContent-Length: ${length}\r\n\r\n${body}`;

/** What a server may do after an answer to a request that it does not read to its end. */
const ENDS: [string, (socket: net.Socket) => void][] = [
  ['resets the connection', (socket) => socket.resetAndDestroy()],
  ['resets it a little later', (socket) => void setTimeout(() => socket.resetAndDestroy(), 20)],
  ['closes it', (socket) => socket.destroy()],
  ['goes on reading', (socket) => socket.resume()],
  ['does nothing', () => undefined],
];

describe.each(ENDS)('a server that refuses a request before it was sent whole, and %s', (_, end) => {
  test.each([
    ['503 Slow Down', xml('SlowDown')],
    ['403 Forbidden', xml('AccessDenied')],
    ['400 Bad Request', xml('EntityTooLarge')],
  ])('%s is the answer', async (status, body) => {
    const { url } = await serverThat((socket) => socket.write(answer(status, body), () => end(socket)));
    const got = await put(url);
    expect([got.status, got.body.toString()]).toEqual([Number(status.slice(0, 3)), body]);
  });
});

test('of a refusal that is cut short the status counts', async () => {
  const { url } = await serverThat((socket) =>
    socket.write(answer('503 Slow Down', '<Error><Co', 100), () => setTimeout(() => socket.resetAndDestroy(), 20)),
  );
  expect(await put(url)).toMatchObject({ status: 503 });
});

test.each(['400 Bad Request', '403 Forbidden', '409 Conflict'])(
  '%s that is cut short may be one to try again: the connection failed',
  async (status) => {
    const { url } = await serverThat((socket) =>
      socket.write(answer(status, '<Error><Co', 100), () => setTimeout(() => socket.resetAndDestroy(), 20)),
    );
    await expect(put(url)).rejects.toBeInstanceOf(ConnectionFailure);
  },
);

test('a refusal whose body never comes counts when the time is up', async () => {
  const { url } = await serverThat((socket) => socket.write(answer('503 Slow Down', '', 100)));
  expect(await put(url, undefined, 1000)).toMatchObject({ status: 503 });
});

describe('a failure of the connection', () => {
  test.each<[string, (socket: net.Socket) => void, Buffer | undefined]>([
    ['without an answer', (socket) => socket.resetAndDestroy(), undefined],
    [
      'with a good answer to a request that was not sent whole',
      (socket) => socket.end(answer('200 OK', '')),
      undefined,
    ],
    [
      'with a refusal that is cut short, of a request that was sent whole',
      (socket) => socket.write(answer('404 Not Found', '<Err', 100), () => socket.resetAndDestroy()),
      Buffer.from('small'),
    ],
  ])('%s', async (_, act, body) => {
    const { url } = await serverThat(act);
    await expect(put(url, body)).rejects.toBeInstanceOf(ConnectionFailure);
  });
});

test('a connection that is used again has as much time as a new one, whatever the server keeps idle ones for', async () => {
  let requests = 0;
  const server = http.createServer((_, reply) => {
    requests += 1;
    setTimeout(() => reply.end(String(requests)), requests === 1 ? 0 : 1500);
  });
  // Told as "Keep-Alive: timeout=2", of which Node takes one second off.
  server.keepAliveTimeout = 2000;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  undo.push(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const agent = new http.Agent({ keepAlive: true, timeout: 10_000 });
  undo.push(() => agent.destroy());
  const get = (): Promise<Answer> =>
    exchange(endpointOf('bucket', 'us-east-1', url), agent, {
      method: 'GET',
      path: '/bucket/key',
      headers: { host: 'host' },
      body: undefined,
      timeoutMs: 10_000,
    });
  expect((await get()).body.toString()).toBe('1');
  expect((await get()).body.toString()).toBe('2');
});

describe('a client', () => {
  const store = (url: string): S3Store => {
    const keys = { accessKeyId: 'a', secretAccessKey: 'b' };
    const opened = new S3Store({ bucket: 'bucket', endpointUrl: url, credentials: keys, attempts: 3 });
    undo.push(() => opened.close());
    return opened;
  };

  test.each([
    ['503 Slow Down', 'SlowDown', 3],
    ['403 Forbidden', 'AccessDenied', 1],
    ['400 Bad Request', 'EntityTooLarge', 1],
  ])('that gets an early %s says so, after as many tries as are of use', async (status, code, tries) => {
    const { url, connections } = await serverThat((socket) =>
      socket.write(answer(status, xml(code)), () => socket.resetAndDestroy()),
    );
    await expect(store(url).putBytes('key', Buffer.alloc(PART_BYTES))).rejects.toMatchObject({
      code,
      status: Number(status.slice(0, 3)),
    });
    expect(connections()).toBe(tries);
  });
});
