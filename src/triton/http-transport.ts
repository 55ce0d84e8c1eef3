import * as http from 'node:http';
import * as https from 'node:https';
import { serverUrl } from './address';
import { formatBytes } from '../core/format';
import { TOO_LARGE, TritonError, type ClientOptions } from './client';
import { roomFor } from './tensor';

/** Header with the length of the JSON that precedes the binary tensor data (binary tensor data extension). */
export const JSON_LENGTH_HEADER = 'Inference-Header-Content-Length';

export interface HttpCall {
  method: 'GET' | 'POST';
  /** Path after the server's URL. */
  path: string;
  headers?: http.OutgoingHttpHeaders;
  /** Parts of the body. Large bodies are sent without joining their parts. */
  body?: readonly Buffer[];
  /** Timeout of the whole call, for the error message. `deadline` of send is enforced. */
  timeoutMs: number;
  /** For the error message. */
  model?: string;
  signal?: AbortSignal | undefined;
  /**
   * Uses a new connection. For a call that must not be sent twice, because the server may just have closed a reused
   * connection, and the call would fail.
   */
  ownConnection?: boolean;
}

export interface HttpAnswer {
  status: number;
  headers: http.IncomingHttpHeaders;
  /**
   * The body as received. Binary data after JSON begins at a multiple of 8 in its ArrayBuffer if that costs no copy.
   */
  body: Buffer;
}

/** Bodies up to this size are joined, because one packet costs less than writing two parts. */
const JOINED_BYTES = 32 * 1024;

/** Requests to one server over connections that are kept open between them, unless `keepAlive` is false. */
export class HttpTransport {
  readonly url: string;
  private readonly request: typeof http.request;
  private readonly target: http.RequestOptions;
  private readonly basePath: string;
  private readonly headers: Readonly<Record<string, string>>;
  private readonly agent: http.Agent;
  private readonly ownAgent: http.Agent;
  private readonly mostAnswerBytes: number;
  private closed = false;

  constructor(
    url: string,
    {
      headers = {},
      tls = {},
      keepAlive = true,
      mostAnswerBytes = Infinity,
    }: Pick<ClientOptions, 'headers' | 'tls' | 'keepAlive' | 'mostAnswerBytes'>,
  ) {
    this.mostAnswerBytes = mostAnswerBytes;
    this.url = serverUrl(url);
    const { protocol, hostname, port, pathname, username, password } = new URL(this.url);
    const isTls = protocol === 'https:';
    this.request = isTls ? https.request : http.request;
    const Agent = isTls ? https.Agent : http.Agent;
    // Last in, first out, so that a few connections stay in use and the server can close the others.
    const secure: https.AgentOptions = isTls ? tls : {};
    this.agent = new Agent({ keepAlive, scheduling: 'lifo', ...secure });
    this.ownAgent = new Agent(secure);
    // The URL is parsed once, not for each request.
    this.target = {
      protocol,
      hostname: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: port === '' ? undefined : port,
      auth: username === '' ? undefined : `${decodeURIComponent(username)}:${decodeURIComponent(password)}`,
    };
    this.basePath = pathname.replace(/\/+$/, '');
    this.headers = headers;
  }

  /**
   * Sends a request and reads its whole answer, for any status.
   * @param deadline on the clock of performance.now()
   * @throws TritonError `timeout` or `unreachable`; the reason of `call.signal` if it aborts
   */
  send(call: HttpCall, deadline: number): Promise<HttpAnswer> {
    const { signal } = call;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      let current: http.ClientRequest | undefined;
      const stop = (reason: Error): void => {
        settle();
        current?.destroy();
        reject(reason);
      };
      const timer = setTimeout(() => {
        const message = `${this.url}/${call.path} did not answer within ${call.timeoutMs / 1000} s`;
        stop(new TritonError(message, { status: 'timeout', model: call.model }));
      }, deadline - performance.now());
      const onAbort = (): void => stop(signal?.reason as Error);
      signal?.addEventListener('abort', onAbort);
      let settled = false;
      const settle = (): void => {
        settled = true;
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      };
      const fail = (cause: NodeJS.ErrnoException): void => {
        if (settled) return;
        settle();
        reject(this.unreachable(call, cause));
      };
      const start = (): void => {
        const request = this.start(call, (response) => {
          response.on('error', fail);
          let left = this.mostAnswerBytes;
          const count = (bytes: number): void => {
            left -= bytes;
            if (left < 0 && !settled) stop(this.tooLarge(call));
          };
          const announced = Number(response.headers['content-length'] ?? 0);
          if (announced > left) return count(announced);
          response.on('data', ({ length }: Buffer) => count(length));
          readBody(response, (body) => {
            if (settled) return;
            settle();
            resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
          });
        });
        let writtenBefore: number | undefined;
        request.on('socket', (socket) => (writtenBefore = socket.bytesWritten));
        request.on('error', (error: NodeJS.ErrnoException) => {
          // RFC 9110, section 9.2.2: a client must not repeat a request by itself unless the request is idempotent, or
          // the client can detect that the server never applied it. A reset of a reused connection usually means that
          // the server closed it while it was idle, but the server may also have run the request before. So only a safe
          // request is repeated, or one of which nothing was written.
          const isStale = request.reusedSocket && error.code === 'ECONNRESET';
          const isUnsent = request.socket?.bytesWritten === writtenBefore;
          if (isStale && (call.method === 'GET' || isUnsent) && !settled && !this.closed) start();
          else fail(error);
        });
        current = request;
      };
      start();
    });
  }

  close(): void {
    this.closed = true;
    this.agent.destroy();
    this.ownAgent.destroy();
  }

  private start(call: HttpCall, onResponse: (response: http.IncomingMessage) => void): http.ClientRequest {
    const body = call.body ?? [];
    const length = body.reduce((sum, part) => sum + part.length, 0);
    const request = this.request({
      ...this.target,
      method: call.method,
      path: `${this.basePath}/${call.path}`,
      agent: call.ownConnection === true ? this.ownAgent : this.agent,
      headers: { ...this.headers, ...call.headers, 'Content-Length': length },
    });
    request.on('response', onResponse);
    if (length <= JOINED_BYTES) {
      request.end(body.length === 1 ? body[0] : Buffer.concat(body));
    } else {
      for (const part of body) request.write(part);
      request.end();
    }
    return request;
  }

  private tooLarge({ model }: HttpCall): TritonError {
    const limit = formatBytes(this.mostAnswerBytes);
    return new TritonError(`the answer is larger than ${limit}, the limit of this client`, {
      status: TOO_LARGE,
      model,
      hint: 'use golden requests with smaller answers, or publish with --no-ask, which does not verify answers',
    });
  }

  private unreachable(call: HttpCall, cause: NodeJS.ErrnoException): TritonError {
    // If all addresses of a host fail, Node reports one error without a message.
    const [first] = ((cause as Partial<AggregateError>).errors ?? []) as NodeJS.ErrnoException[];
    const { message, code } = cause.message === '' && first !== undefined ? first : cause;
    return new TritonError(`${this.url} cannot be reached: ${message}`, {
      status: 'unreachable',
      model: call.model,
      nothingSent: code === 'ECONNREFUSED',
      hint: 'check the URL, and whether the server is running',
      cause,
    });
  }
}

function readBody(response: http.IncomingMessage, onEnd: (body: Buffer) => void): void {
  const length = Number(response.headers['content-length'] ?? NaN);
  const jsonLength = Number(response.headers[JSON_LENGTH_HEADER.toLowerCase()] ?? 0);
  if (!Number.isSafeInteger(length) || !Number.isSafeInteger(jsonLength)) {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('end', () => onEnd(Buffer.concat(chunks)));
    return;
  }
  // Each byte is copied once, into a buffer in which the elements of the first output are aligned for typed arrays.
  const body = roomFor(length, jsonLength);
  let offset = 0;
  response.on('data', (chunk: Buffer) => {
    offset += chunk.copy(body, offset);
  });
  response.on('end', () => onEnd(body));
}
