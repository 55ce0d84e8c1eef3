import { connect, createServer } from 'node:net';
import { listenOnLoopback } from './loopback';
import type { Scratch } from './temp-dir';

/**
 * A proxy for a server on loopback that forwards connections while the gate is open and closes others at once. Stops
 * when the scratch folder is cleaned.
 * @param isOpen called for each connection
 * @returns the port of the gate
 */
export async function startConditionalProxy(
  scratch: Scratch,
  port: number,
  isOpen: () => Promise<boolean>,
): Promise<number> {
  const server = createServer({ pauseOnConnect: true }, (client) => {
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
  const listening = await listenOnLoopback(server);
  scratch.defer(listening.stop);
  return listening.port;
}
