import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { TritonGrpcClient } from '../../../src/triton/grpc';
import { until } from '../../support/wait-for';

/** What keeps this program running. Undocumented, but names the sockets, so that those of other tests do not count. */
const { _getActiveHandles: getActiveHandles } = process as unknown as { _getActiveHandles: () => Partial<Socket>[] };

/** Answers a call with a message without a field. */
function answer(stream: ServerHttp2Stream | undefined): void {
  stream?.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream?.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
  stream?.end(Buffer.alloc(5));
}

test('an idle gRPC connection does not keep the process running, nor after the server closed an earlier connection', async () => {
  const sessions: ServerHttp2Session[] = [];
  const calls: ServerHttp2Stream[] = [];
  const server = createServer()
    .on('connection', (socket: Socket) => socket.unref())
    .on('session', (session) => sessions.push(session))
    .on('stream', (stream) => calls.push(stream));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  /** Connections to the server that keep this program running. */
  const busySockets = (): number => getActiveHandles().filter(({ remotePort }) => remotePort === port).length;
  const client = new TritonGrpcClient(`127.0.0.1:${port}`);
  try {
    const first = client.repositoryIndex();
    await until('the first call is there', () => calls.length === 1);
    expect(busySockets()).toBe(1);
    sessions[0]?.goaway();
    // The client uses the same connection until it receives the GOAWAY frame.
    const others: Promise<unknown>[] = [];
    await until('a call over another connection is there', () => {
      others.push(client.repositoryIndex());
      return sessions.length === 2;
    });
    await until('all calls are there', () => calls.length === others.length + 1);
    for (const call of calls.slice(1)) answer(call);
    await Promise.all(others);
    answer(calls[0]);
    await first;
    await until('no connection keeps the program running', () => busySockets() === 0);
  } finally {
    client.close();
    for (const session of sessions) session.destroy();
    await new Promise((resolve) => server.close(resolve));
  }
});
