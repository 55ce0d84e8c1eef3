import * as http from 'node:http';
import * as net from 'node:net';
import type { AddressInfo } from 'node:net';
import { customEndpoint } from '../../../src/s3/endpoint';
import { ConnectionError, sendRequest, type WireResponse } from '../../../src/s3/send-request';
import { PART_BYTES, S3Store } from '../../../src/s3/store';

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0).reverse()) step();
});

/** A TCP server that calls `act` when it has received the first bytes of a request. */
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

/** PUTs a body; by default one that is larger than the buffers of a socket. */
function put(url: string, body: Buffer = Buffer.alloc(PART_BYTES), idleTimeoutMs = 10_000): Promise<WireResponse> {
  const agent = new http.Agent({ keepAlive: true, timeout: idleTimeoutMs });
  undo.push(() => agent.destroy());
  return sendRequest(customEndpoint('bucket', url), agent, {
    method: 'PUT',
    path: '/bucket/key',
    headers: { host: 'host', 'content-length': String(body.byteLength) },
    body,
    getLeftMs: () => 10_000,
  });
}

const xml = (code: string): string => `<Error><Code>${code}</Code></Error>`;
const answer = (status: string, body: string, length = body.length): string =>
  `HTTP/1.1 ${status}\r\nContent-Length: ${length}\r\n\r\n${body}`;

/** Actions of a server after it answered a request that it did not read completely. */
const ENDS: [string, (socket: net.Socket) => void][] = [
  ['resets the connection', (socket) => socket.resetAndDestroy()],
  ['resets the connection 20 ms later', (socket) => void setTimeout(() => socket.resetAndDestroy(), 20)],
  ['closes the connection', (socket) => socket.destroy()],
  ['reads the rest', (socket) => socket.resume()],
  ['does nothing', () => undefined],
];

describe.each(ENDS)('exchange, if the server rejects a request early and %s', (_, end) => {
  test.each([
    ['503 Slow Down', xml('SlowDown')],
    ['403 Forbidden', xml('AccessDenied')],
    ['400 Bad Request', xml('EntityTooLarge')],
  ])('returns the answer %s', async (status, body) => {
    const { url } = await serverThat((socket) => socket.write(answer(status, body), () => end(socket)));
    const got = await put(url);
    expect([got.status, got.body.toString()]).toEqual([Number(status.slice(0, 3)), body]);
  });
});

test('exchange returns the status of a truncated rejection', async () => {
  const { url } = await serverThat((socket) =>
    socket.write(answer('503 Slow Down', '<Error><Co', 100), () => setTimeout(() => socket.resetAndDestroy(), 20)),
  );
  expect(await put(url)).toMatchObject({ status: 503 });
});

test.each(['400 Bad Request', '403 Forbidden', '409 Conflict'])(
  'exchange throws ConnectionError for a truncated %s, because the request may be retried',
  async (status) => {
    const { url } = await serverThat((socket) =>
      socket.write(answer(status, '<Error><Co', 100), () => setTimeout(() => socket.resetAndDestroy(), 20)),
    );
    await expect(put(url)).rejects.toBeInstanceOf(ConnectionError);
  },
);

test('exchange returns a rejection whose body does not arrive before the timeout', async () => {
  const { url } = await serverThat((socket) => socket.write(answer('503 Slow Down', '', 100)));
  expect(await put(url, undefined, 1000)).toMatchObject({ status: 503 });
});

describe('exchange throws ConnectionError', () => {
  test.each<[string, (socket: net.Socket) => void, Buffer | undefined]>([
    ['if the connection is reset without an answer', (socket) => socket.resetAndDestroy(), undefined],
    [
      'for a successful answer before the whole request was sent',
      (socket) => socket.end(answer('200 OK', '')),
      undefined,
    ],
    [
      'for a truncated rejection after the whole request was sent',
      (socket) => socket.write(answer('404 Not Found', '<Err', 100), () => socket.resetAndDestroy()),
      Buffer.from('small'),
    ],
  ])('%s', async (_, act, body) => {
    const { url } = await serverThat(act);
    await expect(put(url, body)).rejects.toBeInstanceOf(ConnectionError);
  });
});

test('sendRequest gives a reused connection the timeout of a new one, for any keep-alive time that the server announces', async () => {
  let requests = 0;
  const server = http.createServer((_, reply) => {
    requests += 1;
    setTimeout(() => reply.end(String(requests)), requests === 1 ? 0 : 1500);
  });
  // Announced as "Keep-Alive: timeout=2", from which Node subtracts one second.
  server.keepAliveTimeout = 2000;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  undo.push(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const agent = new http.Agent({ keepAlive: true, timeout: 10_000 });
  undo.push(() => agent.destroy());
  const get = (): Promise<WireResponse> =>
    sendRequest(customEndpoint('bucket', url), agent, {
      method: 'GET',
      path: '/bucket/key',
      headers: { host: 'host' },
      body: undefined,
      getLeftMs: () => 10_000,
    });
  expect((await get()).body.toString()).toBe('1');
  expect((await get()).body.toString()).toBe('2');
});

describe('S3Store', () => {
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
  ])('reports an early %s with code %s after %d tries', async (status, code, tries) => {
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
