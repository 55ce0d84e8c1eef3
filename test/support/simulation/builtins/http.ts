import type { IncomingMessage, RequestListener } from 'node:http';
import { servers, type Handler } from '../servers';

/** `node:http` with servers that only the simulated network reaches. */
export * from 'http';

export function createServer(listener: RequestListener): object {
  const handle: Handler = ({ method, url, body }) =>
    new Promise((resolve) => {
      const request = {
        method,
        url,
        headers: { host: '127.0.0.1', 'content-type': 'application/json' },
        async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
          yield Buffer.from(body);
        },
      };
      let status = 200;
      const response = {
        writeHead(code: number): unknown {
          status = code;
          return response;
        },
        end: (text: string) => resolve({ status, body: text }),
      };
      listener(request as unknown as IncomingMessage, response as unknown as Parameters<RequestListener>[1]);
    });
  return {
    once: () => undefined,
    listen: (_port: number, _host: string, done: () => void) => {
      servers.add(handle);
      queueMicrotask(done);
    },
    address: () => ({ port: 1 }),
    close: (done: () => void) => queueMicrotask(done),
    closeAllConnections: () => undefined,
  };
}
