import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** A server that listens on 127.0.0.1. */
export interface LoopbackServer {
  port: number;
  /** Closes the connections, also those that are in use. */
  cut: () => void;
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
  const cut = (): void => open.forEach((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      cut();
      await closed;
    },
  };
}

/** Connects a client to a port on loopback. If one of the two connections ends, so does the other. */
export function joinPort(client: Duplex, port: number): void {
  const target = connect({ port, host: '127.0.0.1', noDelay: true });
  for (const [from, to] of [
    [client, target],
    [target, client],
  ] as const) {
    from.pipe(to);
    from.on('error', () => undefined);
    from.on('close', () => to.destroy());
  }
}

/** A server that passes a connection on to a port on loopback if `admits` is true then, and closes it otherwise. */
export function passOn(port: number, admits: () => boolean | Promise<boolean>): Promise<LoopbackServer> {
  const server = createServer({ pauseOnConnect: true }, (client) => {
    client.on('error', () => client.destroy());
    Promise.resolve()
      .then(admits)
      .then(
        (isAdmitted) => {
          if (isAdmitted) joinPort(client, port);
          else client.destroy();
        },
        () => client.destroy(),
      );
  });
  return listenOnLoopback(server);
}
