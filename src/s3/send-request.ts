import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { NodeHttpHandler } from '@smithy/node-http-handler';
import type { Endpoint } from './endpoint';
import type { TakeBytes } from './types';

/** A complete answer. */
export interface WireResponse {
  status: number;
  /** Names in lower case. */
  headers: Record<string, string>;
  /** Empty if a sink got it. */
  body: Buffer;
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
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** Bytes of a request that are handed to the connection at a time. TLS encrypts all of them in memory. */
const PIECE_BYTES = 64 * 1024;

/** Statuses whose body decides whether to retry, for example a request that took too long or a wrong clock. */
const UNCLEAR = [400, 403, 409];

/**
 * Sends one request and reads the whole answer. An answer that ends before its Content-Length is a failure, and so is a
 * successful answer that ends before the whole request was sent. A refusal may arrive before that; if the connection
 * then fails, the refusal counts, unless its status is one of UNCLEAR.
 * @throws ConnectionError, SinkError
 */
export async function sendRequest(
  handler: NodeHttpHandler,
  { secure, hostname, port }: Endpoint,
  { sink, getLeftMs, body, ...wire }: WireRequest,
): Promise<WireResponse> {
  const late = new AbortController();
  const limit = (): void => {
    const leftMs = getLeftMs();
    if (leftMs <= 0) late.abort();
    else timer = setTimeout(limit, leftMs);
  };
  let timer = setTimeout(limit, Math.max(1, getLeftMs()));
  let refusal: WireResponse | undefined;
  try {
    const request = {
      ...wire,
      protocol: secure ? 'https:' : 'http:',
      hostname,
      port,
      body: body !== undefined && body.byteLength > PIECE_BYTES ? inPieces(body) : body,
    };
    const { response } = await handler.handle(request as never, { abortSignal: late.signal });
    const incoming = response.body as IncomingMessage;
    const { statusCode: status, headers } = response;
    if (status >= 400) refusal = { status, headers, body: Buffer.alloc(0) };
    const received = await readBody(incoming, status, status < 300 ? sink : undefined);
    const { req } = incoming as IncomingMessage & { req: { writableFinished: boolean; destroy(): void } };
    if (!req.writableFinished) {
      if (refusal === undefined)
        throw new ConnectionError('ECONNRESET', 'the answer arrived before the request was sent');
      req.destroy();
    }
    return { status, headers, body: received };
  } catch (error) {
    if (error instanceof SinkError || error instanceof ConnectionError) throw error;
    if (refusal !== undefined && !UNCLEAR.includes(refusal.status)) return refusal;
    if (late.signal.aborted) throw new ConnectionError('ETIMEDOUT', 'the request took too long', error);
    const { name, message, code } = error as NodeJS.ErrnoException;
    if (name === 'TimeoutError' && code === undefined)
      throw new ConnectionError('ETIMEDOUT', 'no data was transferred for too long', error);
    const text = message === 'aborted' ? 'the answer was cut short' : firstLine(message);
    throw new ConnectionError(getCode(error as Error), text, error);
  } finally {
    clearTimeout(timer);
  }
}

async function readBody(incoming: IncomingMessage, status: number, sink: Sink | undefined): Promise<Buffer> {
  if (sink !== undefined && status !== 206 && sink.at > 0) {
    incoming.destroy();
    throw new ConnectionError('RangeIgnored', 'the server sent the whole object instead of a range');
  }
  const chunks: Buffer[] = [];
  let taking: Promise<void> | undefined;
  // Not `for await`, which takes a tenth of the processor time of a download.
  await new Promise<void>((resolve, reject) => {
    const fail = (error: Error): void => {
      reject(error);
      incoming.destroy();
    };
    incoming.on('data', (chunk: Buffer) => {
      if (sink === undefined) return void chunks.push(chunk);
      // A whole object instead of a range could be very large.
      if (chunk.byteLength > sink.leftBytes)
        return fail(new ConnectionError('RangeIgnored', 'the server sent more bytes than the range has'));
      taking = sink.take(chunk);
      if (taking === undefined) return;
      incoming.pause();
      const resume = (): unknown => incoming.resume();
      taking.then(resume, (error: unknown) => fail(new SinkError(error)));
    });
    incoming.on('end', resolve).on('error', reject);
    incoming.on('close', () => reject(new ConnectionError('ECONNRESET', 'the answer was cut short')));
  }).finally(() => taking?.catch((error: unknown) => Promise.reject(new SinkError(error))));
  if (!incoming.complete) throw new ConnectionError('ECONNRESET', 'the answer was cut short');
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}

function inPieces(body: Uint8Array): Readable {
  let at = 0;
  return new Readable({
    highWaterMark: 1,
    read() {
      this.push(at < body.byteLength ? body.subarray(at, (at += PIECE_BYTES)) : null);
    },
  });
}

/** TLS errors have several lines, and locations in OpenSSL's source. */
function firstLine(text: string): string {
  const line = text.split('\n', 1)[0] as string;
  return line.replace(/:\.\.\/deps\/.*$/, '').replace(/[0-9A-F]+:error:[0-9A-F]+:[^:]*:[^:]*:/, '');
}

/** Connecting to a host with several addresses fails with one error for each of them. */
function getCode(error: NodeJS.ErrnoException): string {
  const inner = error instanceof AggregateError ? (error.errors[0] as NodeJS.ErrnoException | undefined) : undefined;
  return error.code ?? inner?.code ?? error.name;
}
