import http, { type IncomingHttpHeaders } from 'node:http';
import type { Endpoint } from './endpoint';
import type { TakeBytes } from './types';

/** A complete answer. */
export interface WireResponse {
  status: number;
  headers: IncomingHttpHeaders;
  /** Empty if a sink got it. */
  body: Buffer;
  /** Bytes of the body. */
  bytes: number;
}

/** One request as it is sent. */
export interface WireRequest {
  method: string;
  /** Path and query, percent-encoded. */
  path: string;
  headers: Record<string, string>;
  body: Uint8Array | undefined;
  /** Gets the body of a successful answer, which is otherwise part of the answer. */
  sink?: Sink | undefined;
  /** Time that is left for the exchange, in ms. It may grow meanwhile. */
  getLeftMs: () => number;
}

/** Gets the bytes of an answer as they arrive. */
export interface Sink {
  /** Offset in the object of the byte that it takes next. An answer with the whole object is a failure unless it is 0. */
  readonly at: number;
  /** How many more bytes it takes. A longer answer is a failure. */
  readonly leftBytes: number;
  readonly take: TakeBytes;
}

/** A sink could not take the bytes. The cause is its error. */
export class SinkError extends Error {
  override readonly name = 'SinkError';
  constructor(cause: unknown) {
    super('the bytes of an answer could not be processed', { cause });
  }
}

/** The connection failed or timed out. `code` is the error code of the operating system. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  constructor(
    readonly code: string,
    message: string,
    /** Whether a reused connection was reset. Servers close idle connections, so a retry need not wait. */
    readonly stale: boolean,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/**
 * Sends one request and reads the whole answer. An answer that ends before its Content-Length is a failure, and so is a
 * successful answer that ends before the whole request was sent. A refusal (status 400 or above) may arrive before the
 * whole request was sent. If the connection then fails, the refusal counts, with as much of its body as arrived, unless
 * its status is one of UNCLEAR.
 * @throws ConnectionError, SinkError
 */
export function sendRequest(endpoint: Endpoint, agent: http.Agent, wire: WireRequest): Promise<WireResponse> {
  return new Promise((resolve, reject) => {
    // The agent provides TLS if needed: an https agent works with http.request if the protocol is given.
    const request = http.request({
      agent,
      protocol: endpoint.secure ? 'https:' : 'http:',
      host: endpoint.hostname,
      port: endpoint.port,
      method: wire.method,
      path: wire.path,
      headers: wire.headers,
      setHost: false,
    });
    let refusal: (() => WireResponse) | undefined;
    // Node destroys a request whose connection ended, although a part of its answer waits to be read.
    let isOver = false;
    let isWaiting = false;
    const fail = (code: string, message: string, cause?: unknown): void => {
      clearTimeout(timer);
      isOver = true;
      const refused = refusal?.();
      if (refused !== undefined && !UNCLEAR.includes(refused.status)) resolve(refused);
      else reject(new ConnectionError(code, message, request.reusedSocket && code === 'ECONNRESET', cause));
      // Without a reset, the kernel would still send what it has buffered. Node cannot reset connections with TLS.
      if (code === 'ETIMEDOUT' && !endpoint.secure) request.socket?.resetAndDestroy();
      request.destroy();
    };
    const limit = (): void => {
      const leftMs = wire.getLeftMs();
      if (leftMs <= 0) fail('ETIMEDOUT', 'the request took too long');
      else timer = setTimeout(limit, leftMs);
    };
    let timer = setTimeout(limit, Math.max(1, wire.getLeftMs()));
    // A reused connection would keep the idle timeout that the server announced (Keep-Alive: timeout=5), so set ours.
    const { timeout = 0 } = (agent as http.Agent & { options: http.AgentOptions }).options;
    request.on('socket', (socket) => socket.setTimeout(timeout));
    request.on('timeout', () => {
      // The sink is slow, not the server.
      if (isWaiting) request.socket?.setTimeout(timeout);
      else fail('ETIMEDOUT', 'no data was transferred for too long');
    });
    request.on('error', (error: NodeJS.ErrnoException) => {
      // A server that refused may stop reading. The rest of its answer, and its end, still arrive.
      if (refusal === undefined) fail(getCode(error), firstLine(error.message), error);
    });
    request.on('response', (response) => {
      const status = response.statusCode ?? 0;
      const sink = status < 300 ? wire.sink : undefined;
      if (sink !== undefined && status !== 206 && sink.at > 0)
        return fail('RangeIgnored', 'the server sent the whole object instead of a range');
      const chunks: Buffer[] = [];
      let bytes = 0;
      let taking: Promise<void> | undefined;
      const take = (chunk: Buffer): void => {
        // After a failure the sink may belong to another request.
        if (isOver) return;
        bytes += chunk.byteLength;
        if (sink === undefined) return void chunks.push(chunk);
        // A whole object instead of a range could be very large.
        if (chunk.byteLength > sink.leftBytes)
          return fail('RangeIgnored', 'the server sent more bytes than the range has');
        taking = sink.take(chunk)?.catch((cause: unknown) => {
          clearTimeout(timer);
          isOver = true;
          reject(new SinkError(cause));
          request.destroy();
        });
        if (taking === undefined) return;
        response.pause();
        isWaiting = true;
        void taking.then(() => {
          isWaiting = false;
          response.resume();
        });
      };
      const answer = (): WireResponse => ({ status, headers: response.headers, body: joined(chunks), bytes });
      if (status >= 400 && !request.writableFinished) refusal = answer;
      response.on('data', take);
      response.on('error', (error: NodeJS.ErrnoException) => fail(getCode(error), 'the answer was cut short', error));
      response.on('end', () => {
        if (!response.complete) return fail('ECONNRESET', 'the answer was cut short');
        if (!request.writableFinished) {
          if (status < 300) return fail('ECONNRESET', 'the answer arrived before the request was sent');
          request.destroy();
        }
        clearTimeout(timer);
        // The end may come while the sink still works on the last bytes. If it fails, the promise is rejected by then.
        if (taking === undefined) resolve(answer());
        else void taking.then(() => resolve(answer()));
      });
    });
    if (wire.body === undefined) request.end();
    else writeBody(request, wire.body);
  });
}

/** Bytes of a request that are handed to the connection at a time. TLS encrypts all of them in memory. */
const PIECE_BYTES = 256 * 1024;

function writeBody(request: http.ClientRequest, body: Uint8Array, at = 0): void {
  const end = at + PIECE_BYTES;
  if (request.destroyed) return;
  if (end >= body.byteLength) {
    request.end(at === 0 ? body : body.subarray(at));
    return;
  }
  const next = (): void => writeBody(request, body, end);
  if (request.write(body.subarray(at, end))) next();
  else request.once('drain', next);
}

/** Statuses whose body decides whether to retry, for example a request that took too long or a wrong clock. */
const UNCLEAR = [400, 403, 409];

function joined(chunks: Buffer[]): Buffer {
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}

/** TLS errors have several lines, and locations in OpenSSL's source. */
function firstLine(text: string): string {
  const line = text.split('\n', 1)[0] as string;
  return line.replace(/:\.\.\/deps\/.*$/, '').replace(/[0-9A-F]+:error:[0-9A-F]+:[^:]*:[^:]*:/, '');
}

/** Connecting to a host with several addresses fails with one error for each of them. */
function getCode(error: NodeJS.ErrnoException): string {
  if (error.code !== undefined) return error.code;
  const inner = error instanceof AggregateError ? (error.errors[0] as NodeJS.ErrnoException | undefined) : undefined;
  return inner?.code ?? error.name;
}
