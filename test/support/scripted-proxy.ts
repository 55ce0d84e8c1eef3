import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { SeededRandom } from './soak';
import * as http from 'node:http';
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
  stop: () => Promise<void>;
}

/** Starts a proxy between a client and a server. If `handle` fails, the client's connection is closed. */
async function startProxy(
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

  const server = http.createServer((incoming, reply) => {
    incoming.on('error', () => undefined);
    reply.on('error', () => undefined);
    handle(incoming, reply, passOn).catch(() => incoming.socket.destroy());
  });
  const listening = await listenOnLoopback(server);
  return {
    endpoint: `http://127.0.0.1:${listening.port}`,
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

export interface ProxiedRequest {
  /** Counts from 1. */
  number: number;
  method: string;
  /** Path and query. */
  path: string;
  headers: IncomingHttpHeaders;
  /** Body of a POST, which deletes objects or completes an upload. Other bodies may be large and are not stored. */
  body: string;
  /** Status of the answer; undefined before the answer. */
  status: number | undefined;
}

export interface Script {
  /** Called before a request is forwarded. Returns the fault that happens to the request. */
  onRequest?: (request: ProxiedRequest) => Fault | undefined;
  /** Awaited after the server has answered and before the client gets the answer. */
  onAnswer?: (request: ProxiedRequest) => unknown;
  /** For `delay`; default 1,000. */
  delayMs?: number;
}

export interface ScriptedProxy extends Proxy {
  /** All requests so far. */
  requests: ProxiedRequest[];
  /** Replaces parts of the script; parts of startScriptedProxy that are not given here still apply. */
  set(script: Script): void;
}

const SLOW_DOWN =
  '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>';

/** Starts a proxy that records the requests to an HTTP server and forwards them unchanged, but for the faults of a script. */
export async function startScriptedProxy(target: string, always: Script = {}): Promise<ScriptedProxy> {
  let script = always;
  const requests: ProxiedRequest[] = [];

  const handle = async (incoming: IncomingMessage, reply: ServerResponse, passOn: PassOn): Promise<void> => {
    const { method = '', url: path = '', headers: sent } = incoming;
    const number = requests.length + 1;
    const request: ProxiedRequest = { number, method, path, headers: sent, body: '', status: undefined };
    requests.push(request);
    const fault = script.onRequest?.(request);
    if (fault === 'error500') {
      reply.writeHead(500, { connection: 'close', 'content-length': 0 }).end();
    } else if (fault === 'slowDown') {
      incoming.resume().on('end', () => reply.writeHead(503, { 'content-type': 'application/xml' }).end(SLOW_DOWN));
    } else if (fault === 'resetBefore') {
      incoming.socket.resetAndDestroy();
    } else {
      const keep = (chunk: Buffer): unknown => (request.body += chunk.toString('latin1'));
      const flip = flipByteAt(Math.floor(Number(sent['content-length']) / 2));
      const onChunk = fault === 'flip' ? flip : method === 'POST' ? keep : undefined;
      const answer = await passOn(incoming, onChunk);
      request.status = answer.status;
      await script.onAnswer?.(request);
      if (fault === 'delay') await sleep(script.delayMs ?? 1000, undefined, { ref: false });
      answerWith(fault, answer, incoming, reply);
    }
  };

  const proxy = await startProxy(target, handle);
  return { ...proxy, requests, set: (changed) => (script = { ...always, ...changed }) };
}

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

export interface FaultProxy extends ScriptedProxy {
  /** How often each fault was injected. */
  counts: Record<Fault, number>;
}

/** A scripted proxy with random faults, as networks and overloaded servers have them. */
export async function startFaultProxy(target: string, options: FaultOptions): Promise<FaultProxy> {
  const random = new SeededRandom(options.seed);
  const counts = Object.fromEntries(FAULTS.map((kind) => [kind, 0])) as Record<Fault, number>;
  const onRequest = (request: ProxiedRequest): Fault | undefined => {
    // Both are drawn for each request, so that the random sequence does not depend on the content of the requests.
    const chosen = random.chance(options.rate);
    const kind = random.pick(options.kinds);
    const possible = kind !== 'flip' || Number(request.headers['content-length'] ?? 0) > 0;
    if (!chosen || !possible || options.only?.(request) === false) return undefined;
    counts[kind] += 1;
    return kind;
  };
  return { ...(await startScriptedProxy(target, { onRequest, delayMs: options.delayMs })), counts };
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

function answerWith(
  fault: Fault | undefined,
  { status, headers, body }: WholeAnswer,
  incoming: IncomingMessage,
  reply: ServerResponse,
): void {
  const cut = fault === 'cutShort' && body.byteLength > 0;
  if (fault === 'lostReply' || (fault === 'cutShort' && !cut)) {
    incoming.socket.resetAndDestroy();
    return;
  }
  reply.writeHead(status, headers);
  if (cut) reply.write(body.subarray(0, Math.floor(body.byteLength / 2)), () => incoming.socket.destroy());
  else reply.end(body);
}
