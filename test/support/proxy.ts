import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** An answer of the server behind, whole. */
export interface WholeAnswer {
  status: number;
  /** To be passed on: those of the body, not of the connection. */
  headers: http.OutgoingHttpHeaders;
  body: Buffer;
}

/** Passes a request on as it is, the Host header included, which is signed; `onChunk` may change pieces of its body. */
export type PassOn = (incoming: http.IncomingMessage, onChunk?: (chunk: Buffer) => void) => Promise<WholeAnswer>;

export interface Proxy {
  /** For the client, instead of the server's. */
  endpoint: string;
  /** Comes back when no request is under way. */
  untilQuiet: () => Promise<void>;
  stop: () => Promise<void>;
}

/** Stands between a client and a server. When `handle` fails, the connection of the client ends. */
export async function startProxy(
  target: string,
  handle: (incoming: http.IncomingMessage, reply: http.ServerResponse, passOn: PassOn) => Promise<void>,
): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const agent = new http.Agent({ keepAlive: true });

  const passOn: PassOn = (incoming, onChunk) =>
    new Promise((resolve, reject) => {
      const { method, url, headers } = incoming;
      const outgoing = http.request({ hostname, port, agent, method, path: url, headers }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () => resolve(wholeAnswer(answer, Buffer.concat(chunks))));
      });
      outgoing.on('error', reject);
      // A client that was killed in the middle of its request has sent no whole one.
      incoming.on('close', () => {
        if (!incoming.complete) outgoing.destroy(new Error('the client is gone'));
      });
      if (onChunk !== undefined) incoming.on('data', onChunk);
      incoming.pipe(outgoing);
    });

  let open = 0;
  const server = http.createServer((incoming, reply) => {
    incoming.on('error', () => undefined);
    reply.on('error', () => undefined);
    open += 1;
    handle(incoming, reply, passOn)
      .catch(() => incoming.socket.destroy())
      .finally(() => (open -= 1));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    untilQuiet: async () => {
      while (open > 0) await sleep(2);
    },
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
      agent.destroy();
    },
  };
}

function wholeAnswer({ statusCode = 502, headers }: http.IncomingMessage, body: Buffer): WholeAnswer {
  const ofConnection = ['connection', 'keep-alive', 'transfer-encoding'];
  const ofBody = Object.fromEntries(Object.entries(headers).filter(([name]) => !ofConnection.includes(name)));
  const isChunked = headers['transfer-encoding'] !== undefined;
  return {
    status: statusCode,
    headers: isChunked ? { ...ofBody, 'content-length': body.byteLength } : ofBody,
    body,
  };
}
