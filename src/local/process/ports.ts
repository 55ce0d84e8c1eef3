import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { createServer, type Server } from 'node:net';
import { UserError } from '../../core/errors';

const LOOPBACK = '127.0.0.1';

/**
 * Below the ephemeral port range of Linux and macOS, so that the system does not assign a port between our check and
 * the server's bind.
 */
const FIRST_PORT = 10_240;
const LAST_PORT = 32_767;

/**
 * Returns `count` free TCP ports on loopback that no running process has reserved. A process with a reservation may not
 * have opened its port yet.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  // All ports are held until the last one is found, so that none is returned twice.
  const servers: Server[] = [];
  while (ports.length < count) {
    const port = randomInt(FIRST_PORT, LAST_PORT + 1);
    try {
      const server = await listen(port);
      servers.push(server);
      if (await reserve(port)) ports.push(port);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    }
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/**
 * Reserves a free TCP port for the life of this process, by binding the UDP port of the same number. Our servers do not
 * use UDP, and the system releases the port however we end.
 * @returns whether the port was not reserved yet
 */
function reserve(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4');
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'EADDRINUSE'));
    socket.bind({ address: LOOPBACK, port, exclusive: true }, () => resolve(true));
    socket.unref();
  });
}

/**
 * Checks that the desired ports are free, and replaces each 0 by a free port.
 * @param wanted flag name -> port
 * @throws UserError that names each port in use and the flag to choose another port
 */
export async function claimPorts<Name extends string>(wanted: Record<Name, number>): Promise<Record<Name, number>> {
  const names = Object.keys(wanted) as Name[];
  const busy: string[] = [];
  for (const name of names) {
    const port = wanted[name];
    if (port === 0) continue;
    // The result is ignored, because the process that started us may have reserved the port for us.
    await reserve(port);
    const twin = names.find((other) => other !== name && wanted[other] === port);
    if (twin !== undefined) throw new UserError(`--${name} and --${twin} are both ${port}`);
    try {
      const server = await listen(port);
      await new Promise((resolve) => server.close(resolve));
    } catch (error) {
      const why = (error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? 'in use' : (error as Error).message;
      busy.push(`port ${port} (--${name}) is ${why}`);
    }
  }
  if (busy.length > 0) {
    throw new UserError(busy.join('; '), {
      hint: 'stop the program that uses the port, or choose another port (0: any free port)',
    });
  }
  const free = await freePorts(names.filter((name) => wanted[name] === 0).length);
  return Object.fromEntries(names.map((name) => [name, wanted[name] === 0 ? free.shift() : wanted[name]])) as Record<
    Name,
    number
  >;
}

function listen(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(port, LOOPBACK, () => resolve(server));
  });
}
