import * as http from 'node:http';
import * as https from 'node:https';
import { serverUrl } from './address';
import { TritonError, type ClientOptions } from './client';
import { roomFor } from './tensor';

/** How long the JSON in front of the binary tensor data is (binary tensor data extension). */
export const JSON_LENGTH_HEADER = 'Inference-Header-Content-Length';

export interface HttpCall {
  method: 'GET' | 'POST';
  /** Behind the server's URL. */
  path: string;
  headers?: http.OutgoingHttpHeaders;
  /** Parts of the body, which are not joined where they are large. */
  body?: readonly Buffer[];
  /** Of the whole call, for the error; `deadline` of send is what counts. */
  timeoutMs: number;
  /** For the error. */
  model?: string;
  /** What must not be sent twice gets a connection of its own, which cannot be one that the server just gave up. */
  ownConnection?: boolean;
}

export interface HttpAnswer {
  status: number;
  headers: http.IncomingHttpHeaders;
  /** As it came. Binary data behind JSON begins at a multiple of 8 in its ArrayBuffer where that costs no copy. */
  body: Buffer;
}

/** Smaller bodies are joined: one packet costs less than the calls for two parts. */
const JOINED_BYTES = 32 * 1024;

/** Requests to one server over connections that are kept open between them. */
export class HttpTransport {
  readonly url: string;
  private readonly request: typeof http.request;
  private readonly target: http.RequestOptions;
  private readonly basePath: string;
  private readonly headers: Readonly<Record<string, string>>;
  private readonly agent: http.Agent;
  private readonly ownAgent: http.Agent;
  private closed = false;

  constructor(url: string, { headers = {}, tls = {} }: Pick<ClientOptions, 'headers' | 'tls'>) {
    this.url = serverUrl(url);
    const { protocol, hostname, port, pathname, username, password } = new URL(this.url);
    const isTls = protocol === 'https:';
    this.request = isTls ? https.request : http.request;
    const Agent = isTls ? https.Agent : http.Agent;
    // Last in, first out: few connections stay warm, and the others can be given up by the server.
    const secure: https.AgentOptions = isTls ? tls : {};
    this.agent = new Agent({ keepAlive: true, scheduling: 'lifo', ...secure });
    this.ownAgent = new Agent(secure);
    // The URL is taken apart once, not for each request.
    this.target = {
      protocol,
      hostname: hostname.replace(/^\[(.*)\]$/, '$1'),
      ...(port === '' ? {} : { port }),
      ...(username === '' ? {} : { auth: `${decodeURIComponent(username)}:${decodeURIComponent(password)}` }),
    };
    this.basePath = pathname.replace(/\/+$/, '');
    this.headers = headers;
  }

  /**
   * Sends a request and reads its whole answer, whatever its status.
   * @param deadline as performance.now() counts
   * @throws TritonError `timeout` or `unreachable`
   */
  send(call: HttpCall, deadline: number): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      let current: http.ClientRequest | undefined;
      const timer = setTimeout(() => {
        settle();
        current?.destroy();
        const message = `${this.url}/${call.path} did not answer within ${call.timeoutMs / 1000} s`;
        reject(new TritonError(message, { status: 'timeout', model: call.model }));
      }, deadline - performance.now());
      let settled = false;
      const settle = (): void => {
        settled = true;
        clearTimeout(timer);
      };
      const fail = (cause: NodeJS.ErrnoException): void => {
        if (settled) return;
        settle();
        reject(this.unreachable(call, cause));
      };
      const start = (): void => {
        const request = this.start(call, (response) => {
          readBody(response, (body) => {
            if (settled) return;
            settle();
            resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
          });
          response.on('error', fail);
        });
        request.on('error', (error: NodeJS.ErrnoException) => {
          // The server closed an idle connection just as it was used again, so it has seen nothing of this call.
          const stale = request.reusedSocket && error.code === 'ECONNRESET';
          if (stale && !settled && !this.closed) start();
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

  private unreachable(call: HttpCall, cause: NodeJS.ErrnoException): TritonError {
    // Several addresses of a host that all failed come as one error without a message.
    const [first] = ((cause as Partial<AggregateError>).errors ?? []) as NodeJS.ErrnoException[];
    const { message, code } = cause.message === '' && first !== undefined ? first : cause;
    return new TritonError(`${this.url} cannot be reached: ${message}`, {
      status: 'unreachable',
      model: call.model,
      nothingSent: code === 'ECONNREFUSED',
      hint: 'check the URL, and that the server runs and is not starting or ending',
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
  // Each byte is moved once: to where the elements of the first output lie as typed arrays want them.
  const body = roomFor(length, jsonLength);
  let offset = 0;
  response.on('data', (chunk: Buffer) => {
    offset += chunk.copy(body, offset);
  });
  response.on('end', () => onEnd(body));
}
