import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { startRelay, type Distance } from '../../../tools/network/relay';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

/** A relay in front of a server that answers with what it received. */
async function startEcho(distance: Distance, onClient: (socket: Socket) => void = (socket) => socket.pipe(socket)) {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined);
    onClient(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  undo.push(() => server.close());
  const relay = await startRelay((server.address() as AddressInfo).port, distance);
  undo.push(() => relay.stop());
  return relay;
}

async function send(port: number, body: Buffer): Promise<Buffer> {
  const socket = connect({ port, host: '127.0.0.1' });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.end(body);
  await once(socket, 'close');
  return Buffer.concat(chunks);
}

test.each<Distance>([{}, { roundTripMs: 5 }, { bytesPerSecond: 400e6 }, { roundTripMs: 20, bytesPerSecond: 200e6 }])(
  'the relay forwards all bytes in order with %p',
  async (distance) => {
    const relay = await startEcho(distance);
    const body = Buffer.from(Float64Array.from({ length: 2_000_000 }, (_, i) => i).buffer);
    expect((await send(relay.port, body)).equals(body)).toBe(true);
    expect(relay.connections()).toBe(1);
  },
);

test('the relay closes the connection to the client if the server resets its own', async () => {
  const { port } = await startEcho({}, (socket) => socket.resetAndDestroy());
  expect(await send(port, Buffer.from('x')).catch(() => Buffer.alloc(0))).toEqual(Buffer.alloc(0));
});
