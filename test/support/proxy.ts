import * as http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { listenOnLoopback } from './loopback';

/** A complete answer of the server. */
export interface WholeAnswer {
  status: number;
  /** Headers for the client, without those of the connection. */
  headers: http.OutgoingHttpHeaders;
  body: Buffer;
}

/** Forwards a request unchanged, with its Host header, which is signed. `onChunk` may change chunks of the body. */
export type PassOn = (incoming: http.IncomingMessage, onChunk?: (chunk: Buffer) => void) => Promise<WholeAnswer>;

export interface Proxy {
  /** Endpoint for the client, which replaces the server's. */
  endpoint: string;
  /** Resolves when no request is in progress. */
  untilQuiet: () => Promise<void>;
  stop: () => Promise<void>;
}

/** Starts a proxy between a client and a server. If `handle` fails, the client's connection is closed. */
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
      // Abort an incomplete request of a client that was killed.
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
  const listening = await listenOnLoopback(server);
  return {
    endpoint: `http://127.0.0.1:${listening.port}`,
    untilQuiet: async () => {
      while (open > 0) await sleep(2);
    },
    stop: async () => {
      await listening.stop();
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
