import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Scratch } from './temp-dir';

/**
 * A proxy for a server on loopback that forwards connections while the gate is open and closes others at once. Stops
 * when the scratch folder is cleaned.
 * @param isOpen called for each connection
 * @returns the port of the gate
 */
export async function startGate(scratch: Scratch, port: number, isOpen: () => Promise<boolean>): Promise<number> {
  const clients = new Set<Socket>();
  const server = createServer({ pauseOnConnect: true }, (client) => {
    clients.add(client);
    client.on('close', () => clients.delete(client));
    client.on('error', () => client.destroy());
    const letThrough = (): void => {
      const behind = connect(port, '127.0.0.1');
      behind.on('error', () => client.destroy());
      behind.on('close', () => client.destroy());
      client.on('close', () => behind.destroy());
      client.pipe(behind).pipe(client);
      client.resume();
    };
    isOpen().then(
      (open) => (open ? letThrough() : client.destroy()),
      () => client.destroy(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  scratch.defer(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const client of clients) client.destroy();
    await closed;
  });
  return (server.address() as AddressInfo).port;
}
