import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface TappedRequest {
  /** Counts from 1. */
  number: number;
  method: string;
  path: string;
  headers: http.IncomingHttpHeaders;
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

export interface Tap {
  endpoint: string;
  /** Of every request so far. */
  requests: TappedRequest[];
  /** Changes what is done from now on. */
  set(options: TapOptions): void;
  /** Waits until the server has answered all that was passed on. */
  untilQuiet(): Promise<void>;
  stop(): Promise<void>;
}

/** Stands between a client and a server and passes everything on as it is, so that a test knows how far the client is. */
export async function startTap(target: string, initial: TapOptions = {}): Promise<Tap> {
  let options = initial;
  let open = 0;
  const requests: TappedRequest[] = [];
  const { hostname, port } = new URL(target);
  const agent = new http.Agent({ keepAlive: true });

  const passOn = (
    incoming: http.IncomingMessage,
    request: TappedRequest,
  ): Promise<{ answer: http.IncomingMessage; body: Buffer }> =>
    new Promise((resolve, reject) => {
      const { method, url, headers } = incoming;
      if (method === 'POST') incoming.on('data', (chunk: Buffer) => (request.body += chunk.toString('latin1')));
      const outgoing = http.request({ hostname, port, agent, method, path: url, headers }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () => resolve({ answer, body: Buffer.concat(chunks) }));
      });
      outgoing.on('error', reject);
      // A client that was killed in the middle of its request has sent no whole one.
      incoming.on('close', () => {
        if (!incoming.complete) outgoing.destroy(new Error('the client is gone'));
      });
      incoming.pipe(outgoing);
    });

  const handle = async (incoming: http.IncomingMessage, reply: http.ServerResponse): Promise<void> => {
    const { method = '', url: path = '', headers: sent } = incoming;
    const request: TappedRequest = {
      number: requests.length + 1,
      method,
      path,
      headers: sent,
      body: '',
      status: undefined,
    };
    requests.push(request);
    if ((await options.onRequest?.(request)) === false) return void incoming.socket.destroy();
    const { answer, body } = await passOn(incoming, request);
    request.status = answer.statusCode;
    await options.onAnswer?.(request);
    const headers = { ...answer.headers };
    delete headers.connection;
    delete headers['keep-alive'];
    const { clockOffsetMs } = options;
    if (clockOffsetMs !== undefined && headers.date !== undefined) {
      headers.date = new Date(Date.parse(headers.date) + clockOffsetMs).toUTCString();
    }
    reply.writeHead(answer.statusCode ?? 502, headers);
    reply.end(body);
  };

  const server = http.createServer((incoming, reply) => {
    open += 1;
    handle(incoming, reply)
      .catch(() => incoming.socket.destroy())
      .finally(() => (open -= 1));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    set: (changed) => (options = changed),
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
