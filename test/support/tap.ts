import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { startProxy, type PassOn, type Proxy } from './proxy';

export interface TappedRequest {
  /** Counts from 1. */
  number: number;
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** Of a request that deletes objects or completes an upload; others may be large, and are not kept. */
  body: string;
  /** Undefined until the server has answered. */
  status: number | undefined;
}

export interface TapOptions {
  /** Called, and waited for, before a request is passed on. False: it never is, and its connection ends. */
  onRequest?: (request: TappedRequest) => unknown;
  /** Called, and waited for, when the server has answered and the client has not heard of it. */
  onAnswer?: (request: TappedRequest) => unknown;
  /** Added to the Date of every answer: the server's clock as the client sees it, in ms. */
  clockOffsetMs?: number;
}

export interface Tap extends Proxy {
  /** Of every request so far. */
  requests: TappedRequest[];
  /** Does this from now on, and what it was started with. */
  set(options: TapOptions): void;
}

/** Stands between a client and a server and passes everything on as it is, so that a test knows how far the client is. */
export async function startTap(target: string, always: TapOptions = {}): Promise<Tap> {
  let options = always;
  const requests: TappedRequest[] = [];

  const handle = async (incoming: IncomingMessage, reply: ServerResponse, passOn: PassOn): Promise<void> => {
    const { method = '', url: path = '', headers: sent } = incoming;
    const number = requests.length + 1;
    const request: TappedRequest = { number, method, path, headers: sent, body: '', status: undefined };
    requests.push(request);
    if ((await options.onRequest?.(request)) === false) return void incoming.socket.destroy();
    const keep = (chunk: Buffer): unknown => (request.body += chunk.toString('latin1'));
    const { status, headers, body } = await passOn(incoming, method === 'POST' ? keep : undefined);
    request.status = status;
    await options.onAnswer?.(request);
    const { clockOffsetMs } = options;
    if (clockOffsetMs !== undefined && typeof headers['date'] === 'string') {
      headers['date'] = new Date(Date.parse(headers['date']) + clockOffsetMs).toUTCString();
    }
    reply.writeHead(status, headers).end(body);
  };

  const proxy = await startProxy(target, handle);
  return { ...proxy, requests, set: (changed) => (options = { ...always, ...changed }) };
}
