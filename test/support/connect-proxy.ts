import * as http from 'node:http';
import * as https from 'node:https';
import { connect, type Socket } from 'node:net';
import { listenOnLoopback, type LoopbackServer } from './loopback';

export interface ConnectProxy extends LoopbackServer {
  /** Every host that a tunnel was requested for, in order. */
  hosts: string[];
}

/**
 * Starts a forward proxy on 127.0.0.1. The tunnels to all hosts lead to one port on 127.0.0.1, so that the real commands
 * reach a test server under the names of AWS.
 * @param login `user:password` that the proxy requires
 * @param status the status for a tunnel; undefined opens it, and 'silent' never answers
 * @param tls key and certificate of a proxy that speaks TLS
 */
export async function startConnectProxy(
  targetPort: number,
  login?: string,
  status: (host: string, count: number) => number | 'silent' | undefined = () => undefined,
  tls?: { key: string; cert: string },
): Promise<ConnectProxy> {
  const hosts: string[] = [];
  const refuse: http.RequestListener = (_, reply) => reply.writeHead(405).end();
  const server = tls === undefined ? http.createServer(refuse) : https.createServer(tls, refuse);
  server.on('connect', (request: http.IncomingMessage, client: Socket) => {
    const host = (request.url ?? '').replace(/:\d+$/, '');
    hosts.push(host);
    client.on('error', () => undefined);
    const expected = login === undefined ? undefined : `Basic ${Buffer.from(login).toString('base64')}`;
    const rejected = request.headers['proxy-authorization'] === expected ? status(host, hosts.length) : 407;
    if (rejected === 'silent') return;
    if (rejected !== undefined) return void client.end(`HTTP/1.1 ${rejected} Rejected\r\n\r\n`);
    const target = connect({ port: targetPort, host: '127.0.0.1' }, () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n');
      client.pipe(target).pipe(client);
    });
    target.on('error', () => client.destroy());
    client.on('close', () => target.destroy());
  });
  return { ...(await listenOnLoopback(server)), hosts };
}
