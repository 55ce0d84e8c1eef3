import type { AddressInfo, Server, Socket } from 'node:net';

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
