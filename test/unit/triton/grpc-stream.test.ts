import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { TritonGrpcClient } from '../../../src/triton/grpc';
import { until } from '../../support/wait-for';

/** A client of a server that answers calls with `onStream`; `close` ends both. */
async function connectedTo(
  onStream: (stream: ServerHttp2Stream) => void,
): Promise<{ client: TritonGrpcClient; close: () => Promise<unknown> }> {
  const sessions: ServerHttp2Session[] = [];
  const server = createServer()
    .on('session', (session) => sessions.push(session))
    .on('stream', onStream);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = new TritonGrpcClient(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  const close = (): Promise<unknown> => {
    client.close();
    for (const session of sessions) session.destroy();
    return new Promise((resolve) => server.close(resolve));
  };
  return { client, close };
}

test('TritonGrpcClient reports a corrupt compressed answer as a bad response', async () => {
  const { client, close } = await connectedTo((stream) => {
    stream.respond({ ':status': 200, 'grpc-encoding': 'gzip' }, { waitForTrailers: true });
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    // Compressed, of three bytes.
    stream.end(Buffer.of(1, 0, 0, 0, 3, 1, 2, 3));
  });
  try {
    await expect(client.repositoryIndex()).rejects.toMatchObject({ status: 'bad response' });
  } finally {
    await close();
  }
});

test('InferStream closes the call when iteration stops before the end', async () => {
  const closed: string[] = [];
  const { client, close } = await connectedTo((stream) => {
    stream.respond({ ':status': 200 });
    stream.write(Buffer.alloc(5));
    stream.on('aborted', () => closed.push('aborted')).on('error', () => undefined);
  });
  try {
    for await (const { error } of client.openStream()) {
      expect(error).toMatchObject({ status: 'bad response' });
      break;
    }
    await until('the server sees its end', () => closed.length === 1);
  } finally {
    await close();
  }
});
