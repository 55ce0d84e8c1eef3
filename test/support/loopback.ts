import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A server that listens on 127.0.0.1. */
export interface LoopbackServer {
  port: number;
  /** Closes the server and its connections, also those that are in use. */
  stop: () => Promise<void>;
}

/** Lets a server, such as one of HTTP or TLS, listen on a free port of 127.0.0.1. */
export async function listenOnLoopback(server: Server): Promise<LoopbackServer> {
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

/** A server that passes its connections on to a port on loopback. */
export function passOn(port: number, onConnection: () => void): Promise<LoopbackServer> {
  const server = createServer((client) => {
    onConnection();
    const target = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      from.pipe(to);
      from.on('error', () => undefined);
      from.on('close', () => to.destroy());
    }
  });
  return listenOnLoopback(server);
}
