import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { SeededRandom } from './soak';

export const FAULTS = [
  /** 500 before the body was read, and the end of the connection. */
  'error500',
  /** 503 SlowDown, as S3 says it. */
  'slowDown',
  /** The connection is reset, and the server never hears of the request. */
  'resetBefore',
  /** The server carries the request out, and the connection is reset instead of the reply. */
  'lostReply',
  /** The reply comes late: by `delayMs`. */
  'delay',
  /** The connection ends in the middle of the reply's body; before a reply that has none. */
  'cutShort',
  /** One byte of the request's body is another one when it arrives. */
  'flip',
] as const;
export type Fault = (typeof FAULTS)[number];

export interface FaultOptions {
  seed: number;
  /** Share of the requests that have a fault: 0 to 1. */
  rate: number;
  kinds: readonly Fault[];
  /** For `delay`; default 1,000. */
  delayMs?: number;
  /** Requests that may have a fault; default: all. */
  only?: (request: ProxiedRequest) => boolean;
}

export interface ProxiedRequest {
  method: string;
  /** Path and query. */
  url: string;
  fault: Fault | undefined;
  /** The server has carried it out, well or not. */
  answered: boolean;
}

export interface FaultProxy {
  /** For the client, instead of the server's. */
  endpoint: string;
  /** How often each fault was made. */
  counts: Record<Fault, number>;
  /** Every request, in the order of arrival. */
  requests: ProxiedRequest[];
  setRate(rate: number): void;
  stop(): Promise<void>;
}

const SLOW_DOWN =
  '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>';

/**
 * Stands between a client and an S3 server and does to requests what networks and overloaded servers do. Everything
 * else passes as it is, the Host header among it, which is signed.
 */
export async function startFaultProxy(target: string, options: FaultOptions): Promise<FaultProxy> {
  const random = new SeededRandom(options.seed);
  const counts = Object.fromEntries(FAULTS.map((kind) => [kind, 0])) as Record<Fault, number>;
  const requests: ProxiedRequest[] = [];
  const agent = new http.Agent({ keepAlive: true });
  let { rate } = options;

  const draw = (request: ProxiedRequest, bodyBytes: number): Fault | undefined => {
    // Both are drawn for each request, so that the sequence does not depend on what the requests are.
    const chosen = random.chance(rate);
    const kind = random.pick(options.kinds);
    const possible = (kind !== 'flip' || bodyBytes > 0) && (options.only?.(request) ?? true);
    if (!chosen || !possible) return undefined;
    counts[kind] += 1;
    return kind;
  };

  const server = http.createServer((incoming, reply) => {
    const bodyBytes = Number(incoming.headers['content-length'] ?? 0);
    const request: ProxiedRequest = {
      method: incoming.method ?? '',
      url: incoming.url ?? '',
      fault: undefined,
      answered: false,
    };
    request.fault = draw(request, bodyBytes);
    requests.push(request);
    incoming.on('error', () => undefined);
    reply.on('error', () => undefined);
    if (request.fault === 'error500') {
      reply.writeHead(500, { connection: 'close', 'content-length': 0 }).end();
    } else if (request.fault === 'slowDown') {
      incoming.resume().on('end', () => reply.writeHead(503, { 'content-type': 'application/xml' }).end(SLOW_DOWN));
    } else if (request.fault === 'resetBefore') {
      incoming.socket.resetAndDestroy();
    } else {
      const flipAt = request.fault === 'flip' ? random.integer(0, bodyBytes - 1) : undefined;
      forward(target, agent, incoming, flipAt)
        .then((answer) => {
          request.answered = true;
          return answerWith(request.fault, answer, incoming, reply, options.delayMs ?? 1000);
        })
        .catch(() => incoming.socket.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    requests,
    setRate: (changed) => (rate = changed),
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
      agent.destroy();
    },
  };
}

interface WholeAnswer {
  answer: http.IncomingMessage;
  body: Buffer;
}

function forward(
  target: string,
  agent: http.Agent,
  incoming: http.IncomingMessage,
  flipAt: number | undefined,
): Promise<WholeAnswer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(target);
    const { method, url, headers } = incoming;
    const outgoing = http.request({ agent, hostname, port, method, path: url, headers }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('error', reject);
      answer.on('end', () => resolve({ answer, body: Buffer.concat(chunks) }));
    });
    outgoing.on('error', reject);
    incoming.on('close', () => {
      if (!incoming.complete) outgoing.destroy(new Error('the client is gone'));
    });
    let at = 0;
    incoming.on('data', (chunk: Buffer) => {
      const position = flipAt === undefined ? -1 : flipAt - at;
      if (position >= 0 && position < chunk.byteLength) chunk[position] = (chunk[position] as number) ^ 1;
      at += chunk.byteLength;
      if (!outgoing.write(chunk)) {
        incoming.pause();
        outgoing.once('drain', () => incoming.resume());
      }
    });
    incoming.on('end', () => outgoing.end());
  });
}

async function answerWith(
  fault: Fault | undefined,
  { answer, body }: WholeAnswer,
  incoming: http.IncomingMessage,
  reply: http.ServerResponse,
  delayMs: number,
): Promise<void> {
  const cut = fault === 'cutShort' && body.byteLength > 0;
  if (fault === 'lostReply' || (fault === 'cutShort' && !cut)) {
    incoming.socket.resetAndDestroy();
    return;
  }
  if (fault === 'delay') await sleep(delayMs, undefined, { ref: false });
  const headers = new Map(Object.entries(answer.headers));
  for (const name of ['connection', 'keep-alive']) headers.delete(name);
  if (headers.delete('transfer-encoding')) headers.set('content-length', String(body.byteLength));
  reply.writeHead(answer.statusCode ?? 502, Object.fromEntries(headers));
  if (!cut) {
    reply.end(body);
    return;
  }
  reply.write(body.subarray(0, Math.floor(body.byteLength / 2)), () => incoming.socket.destroy());
}
