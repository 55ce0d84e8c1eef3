import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { startProxy, type PassOn, type Proxy, type WholeAnswer } from './proxy';
import { SeededRandom } from './soak';

export const FAULTS = [
  /** Answer 500 before the body was read, and close the connection. */
  'error500',
  /** Answer 503 SlowDown, like S3. */
  'slowDown',
  /** Reset the connection; the server does not get the request. */
  'resetBefore',
  /** The server executes the request, and the connection is reset instead of the reply. */
  'lostReply',
  /** Delay the reply by `delayMs`. */
  'delay',
  /** Close the connection in the middle of the reply's body, or before a reply without a body. */
  'cutShort',
  /** Change one byte of the request's body. */
  'flip',
] as const;
export type Fault = (typeof FAULTS)[number];

export interface FaultOptions {
  seed: number;
  /** Fraction of the requests with a fault: 0 to 1. */
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
  /** Whether the server answered the request, successfully or not. */
  answered: boolean;
}

export interface FaultProxy extends Proxy {
  /** How often each fault was injected. */
  counts: Record<Fault, number>;
  /** Every request, in the order of arrival. */
  requests: ProxiedRequest[];
  setRate(rate: number): void;
}

const SLOW_DOWN =
  '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>';

/**
 * A proxy between a client and an S3 server that injects the faults of networks and overloaded servers. All other
 * requests pass unchanged.
 */
export async function startFaultProxy(target: string, options: FaultOptions): Promise<FaultProxy> {
  const random = new SeededRandom(options.seed);
  const counts = Object.fromEntries(FAULTS.map((kind) => [kind, 0])) as Record<Fault, number>;
  const requests: ProxiedRequest[] = [];
  let { rate } = options;

  const draw = (request: ProxiedRequest, bodyBytes: number): Fault | undefined => {
    // Both are drawn for each request, so that the random sequence does not depend on the content of the requests.
    const chosen = random.chance(rate);
    const kind = random.pick(options.kinds);
    const possible = (kind !== 'flip' || bodyBytes > 0) && (options.only?.(request) ?? true);
    if (!chosen || !possible) return undefined;
    counts[kind] += 1;
    return kind;
  };

  const handle = async (incoming: IncomingMessage, reply: ServerResponse, passOn: PassOn): Promise<void> => {
    const bodyBytes = Number(incoming.headers['content-length'] ?? 0);
    const request: ProxiedRequest = {
      method: incoming.method ?? '',
      url: incoming.url ?? '',
      fault: undefined,
      answered: false,
    };
    request.fault = draw(request, bodyBytes);
    requests.push(request);
    if (request.fault === 'error500') {
      reply.writeHead(500, { connection: 'close', 'content-length': 0 }).end();
    } else if (request.fault === 'slowDown') {
      incoming.resume().on('end', () => reply.writeHead(503, { 'content-type': 'application/xml' }).end(SLOW_DOWN));
    } else if (request.fault === 'resetBefore') {
      incoming.socket.resetAndDestroy();
    } else {
      const flip = request.fault === 'flip' ? flipByteAt(random.integer(0, bodyBytes - 1)) : undefined;
      const answer = await passOn(incoming, flip);
      request.answered = true;
      await answerWith(request.fault, answer, incoming, reply, options.delayMs ?? 1000);
    }
  };

  const proxy = await startProxy(target, handle);
  return { ...proxy, counts, requests, setRate: (changed) => (rate = changed) };
}

/** Returns a function that changes the byte at `flipAt` of a body that comes in chunks. */
function flipByteAt(flipAt: number): (chunk: Buffer) => void {
  let at = 0;
  return (chunk) => {
    const position = flipAt - at;
    if (position >= 0 && position < chunk.byteLength) chunk[position] = (chunk[position] as number) ^ 1;
    at += chunk.byteLength;
  };
}

async function answerWith(
  fault: Fault | undefined,
  { status, headers, body }: WholeAnswer,
  incoming: IncomingMessage,
  reply: ServerResponse,
  delayMs: number,
): Promise<void> {
  const cut = fault === 'cutShort' && body.byteLength > 0;
  if (fault === 'lostReply' || (fault === 'cutShort' && !cut)) {
    incoming.socket.resetAndDestroy();
    return;
  }
  if (fault === 'delay') await sleep(delayMs, undefined, { ref: false });
  reply.writeHead(status, headers);
  if (!cut) {
    reply.end(body);
    return;
  }
  reply.write(body.subarray(0, Math.floor(body.byteLength / 2)), () => incoming.socket.destroy());
}
