import type { Agent } from 'node:http';
import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Endpoint } from './endpoint';

type Connect = (target: object, callback?: (error: Error | null, socket?: Duplex) => void) => Duplex | undefined;

/**
 * Connections to one server that are opened before requests need them, because opening a connection takes two round
 * trips with TLS. The agent takes them when it needs a new connection.
 */
export class ConnectionStock {
  private readonly sockets = new Set<Duplex>();
  private readonly connect: Connect;
  private endpoint: Endpoint | undefined;

  constructor(private readonly agent: Agent) {
    this.connect = agent.createConnection.bind(agent) as Connect;
    const createConnection: Connect = (target, callback) => this.take(target) ?? this.connect(target, callback);
    Object.assign(agent, { createConnection });
  }

  /** Opens connections until `count` of them are idle. A connection that cannot be opened is ignored. */
  open(endpoint: Endpoint, count: number): void {
    if (this.endpoint?.url !== endpoint.url) this.clear();
    this.endpoint = endpoint;
    const idle = Object.values(this.agent.freeSockets).reduce((sum, sockets = []) => sum + sockets.length, 0);
    const { hostname: host, port } = endpoint;
    const { options } = this.agent as Agent & { options: object };
    for (let have = idle + this.sockets.size; have < count; have += 1) {
      const target = { ...options, host, port, servername: isIP(host) === 0 ? host : '' };
      const socket = this.connect(target, (_, tunnel) => this.add(tunnel));
      this.add(socket);
    }
  }

  /** Closes the connections that no request has used. */
  clear(): void {
    for (const socket of this.sockets) socket.destroy();
    this.sockets.clear();
  }

  private add(socket: Duplex | undefined): void {
    if (socket === undefined) return;
    this.sockets.add(socket);
    socket.on('error', ignore);
    socket.on('close', () => this.sockets.delete(socket));
  }

  private take(target: { host?: string; port?: number | string }): Duplex | undefined {
    if (target.host !== this.endpoint?.hostname || Number(target.port) !== this.endpoint?.port) return undefined;
    for (const socket of this.sockets) {
      this.sockets.delete(socket);
      if (socket.destroyed) continue;
      socket.off('error', ignore);
      return socket;
    }
    return undefined;
  }
}

const ignore = (): void => undefined;
