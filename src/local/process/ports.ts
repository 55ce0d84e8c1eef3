import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { UserError } from '../../core/errors';

const LOOPBACK = '127.0.0.1';

/**
 * Below what Linux and macOS give to connections, and to who asks for any port: between our look and the server that opens it,
 * one of theirs would now and then be taken.
 */
const FIRST_PORT = 10_240;
const LAST_PORT = 32_767;

/**
 * `count` TCP ports on loopback that are free now, and that no process has been given that still runs: their servers may
 * not have opened them yet.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  // All are held until there are enough, so that none comes twice.
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
 * Keeps others who want a free port from this one for as long as we live: by its namesake for UDP, which no server of ours
 * opens, and which the system takes back however we end.
 * @returns whether nobody has reserved it already
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
 * Checks that the wanted ports are free and gives free ones for those that are 0.
 * @param wanted by the name of the flag that sets it
 * @throws UserError that names each port in use, who has it where that can be told, and the flag to choose another.
 */
export async function claimPorts<Name extends string>(wanted: Record<Name, number>): Promise<Record<Name, number>> {
  const names = Object.keys(wanted) as Name[];
  const busy: string[] = [];
  for (const name of names) {
    const port = wanted[name];
    if (port === 0) continue;
    // Who starts us may have reserved it for us.
    await reserve(port);
    const twin = names.find((other) => other !== name && wanted[other] === port);
    if (twin !== undefined) throw new UserError(`--${name} and --${twin} are both ${port}`);
    try {
      const server = await listen(port);
      await new Promise((resolve) => server.close(resolve));
    } catch (error) {
      const why =
        (error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? `in use${owner(port)}` : (error as Error).message;
      busy.push(`port ${port} (--${name}) is ${why}`);
    }
  }
  if (busy.length > 0) {
    throw new UserError(busy.join('; '), { hint: 'stop what uses it, or choose another port (0 takes any free one)' });
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

/** " by tritonserver (process 123)", where /proc tells. */
function owner(port: number): string {
  try {
    const hex = port.toString(16).toUpperCase().padStart(4, '0');
    const inodes = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((table) =>
      readFileSync(table, 'utf8')
        .split('\n')
        .map((row) => row.trim().split(/\s+/))
        .filter((row) => row[1]?.endsWith(`:${hex}`) === true && row[3] === '0A')
        .map((row) => `socket:[${row[9]}]`),
    );
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      if (holds(pid, inodes)) return ` by ${readFileSync(`/proc/${pid}/comm`, 'utf8').trim()} (process ${pid})`;
    }
  } catch {
    // Not Linux, or not ours to see.
  }
  return '';
}

function holds(pid: string, inodes: readonly string[]): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      try {
        return inodes.includes(readlinkSync(`/proc/${pid}/fd/${fd}`));
      } catch {
        return false;
      }
    });
  } catch {
    return false;
  }
}
