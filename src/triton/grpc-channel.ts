import * as http2 from 'node:http2';
import { serverUrl } from './address';
import { TritonError, unreadable, type ClientOptions } from './client';
import { MessageReader } from './grpc-frames';

/** Names of gRPC's status codes. The code is the index in this list. */
const STATUS_NAMES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const;

/** Bytes that a server may send before we acknowledge them. One stream may send a picture of 16 megapixels. */
const STREAM_WINDOW_BYTES = 48 * 2 ** 20;
const CONNECTION_WINDOW_BYTES = 256 * 2 ** 20;

export interface GrpcCall {
  /** `ModelInfer` */
  method: string;
  timeoutMs: number;
  /** For the error message. */
  model?: string;
  headers?: Readonly<Record<string, string>>;
  signal?: AbortSignal;
}

/** Callbacks of an open call. After onEnd or onError, no callback is called. */
interface Listener {
  onMessage: (message: Buffer) => void;
  onEnd: () => void;
  onError: (error: TritonError) => void;
}

/**
 * gRPC to one server over one HTTP/2 connection, which is opened on demand. Uses Node's HTTP/2, because
 * @grpc/grpc-js would make the agent's program too large for its ConfigMap (docs/decisions.md).
 */
export class GrpcChannel {
  private readonly url: string;
  private readonly headers: Readonly<Record<string, string>>;
  private readonly tls: http2.SecureClientSessionOptions;
  private session: http2.ClientHttp2Session | undefined;
  /**
   * Calls in flight on each connection. A connection that the server closes finishes its calls beside the next
   * connection.
   */
  private readonly calls = new WeakMap<http2.ClientHttp2Session, number>();

  /**
   * @param address `HOST:PORT`, `https://HOST:PORT` for TLS
   * @param service `inference.GRPCInferenceService`
   * @throws UserError if `address` has another form
   */
  constructor(
    readonly address: string,
    private readonly service: string,
    { headers = {}, tls = {} }: Pick<ClientOptions, 'headers' | 'tls'>,
  ) {
    this.url = serverUrl(address);
    this.headers = lowerCase(headers);
    this.tls = tls;
  }

  /**
   * Sends one message and receives one.
   * @param deadline on the clock of performance.now()
   * @throws TritonError; the reason of `call.signal` if it aborts
   */
  unary(call: GrpcCall, frame: readonly Buffer[], deadline: number): Promise<Buffer> {
    const { signal } = call;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      let answer: Buffer | undefined;
      const stream = this.open(call, deadline, {
        onMessage: (message) => (answer = message),
        onError: (error) => reject(signal?.aborted === true ? (signal.reason as Error) : error),
        onEnd: () => {
          if (answer === undefined) reject(unreadable(call.model, new Error('it has no message')));
          else resolve(answer);
        },
      });
      const onAbort = (): void => stream.close(http2.constants.NGHTTP2_CANCEL);
      signal?.addEventListener('abort', onAbort);
      stream.on('close', () => signal?.removeEventListener('abort', onAbort));
      const [only] = frame;
      if (frame.length === 1) stream.end(only);
      else {
        stream.cork();
        for (const part of frame) stream.write(part);
        stream.end();
      }
    });
  }

  /** Opens a call. The caller writes messages to the stream, each as a frame. */
  open(call: GrpcCall, deadline: number, listener: Listener): http2.ClientHttp2Stream {
    const session = this.connected();
    const stream = session.request(this.requestHeaders(call, deadline));
    this.begin(session);
    let error: TritonError | undefined;
    let ended = false;
    let status: http2.IncomingHttpHeaders | undefined;
    const reader = new MessageReader((message) => listener.onMessage(message));
    const timer = setTimeout(() => {
      error = this.late(call);
      stream.close(http2.constants.NGHTTP2_CANCEL);
    }, deadline - performance.now());
    const end = (cause?: NodeJS.ErrnoException): void => {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      this.end(session);
      error ??=
        this.failure(call, status, cause) ??
        (reader.isInside ? unreadable(call.model, new Error('it is incomplete')) : undefined);
      if (error === undefined) listener.onEnd();
      else listener.onError(error);
    };
    stream.on('response', (headers) => {
      // A call that fails at once has its status in the headers; other calls have theirs in the trailers.
      if (headers['grpc-status'] !== undefined || headers[':status'] !== 200) status = headers;
    });
    stream.on('trailers', (trailers: http2.IncomingHttpHeaders) => {
      if (trailers['grpc-status'] !== undefined) status = trailers;
    });
    stream.on('data', (chunk: Buffer) => reader.push(chunk));
    stream.on('error', end);
    stream.on('close', () => end());
    return stream;
  }

  /** Closes the connection; calls in flight fail. */
  close(): void {
    this.session?.destroy();
    this.session = undefined;
  }

  private connected(): http2.ClientHttp2Session {
    if (this.session !== undefined && !this.session.closed && !this.session.destroyed) return this.session;
    const session = http2.connect(this.url, {
      ...this.tls,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW_BYTES },
      // In megabytes. Unlimited, because tensors can have any size.
      maxSessionMemory: Number.MAX_SAFE_INTEGER,
    });
    session.once('connect', () => {
      if (!session.destroyed) session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    });
    // The session's calls fail too, and report the error. The next call opens another session.
    session.on('error', () => this.forget(session));
    session.on('goaway', () => this.forget(session));
    session.on('close', () => this.forget(session));
    this.session = session;
    return session;
  }

  private forget(session: http2.ClientHttp2Session): void {
    if (this.session === session) this.session = undefined;
  }

  /** A connection keeps the process running only while it has calls in flight. */
  private begin(session: http2.ClientHttp2Session): void {
    const calls = (this.calls.get(session) ?? 0) + 1;
    this.calls.set(session, calls);
    if (calls === 1) session.ref();
  }

  private end(session: http2.ClientHttp2Session): void {
    const calls = (this.calls.get(session) ?? 0) - 1;
    this.calls.set(session, calls);
    if (calls === 0 && !session.destroyed) session.unref();
  }

  private requestHeaders({ method, headers = {} }: GrpcCall, deadline: number): http2.OutgoingHttpHeaders {
    return {
      ...this.headers,
      ...lowerCase(headers),
      ':method': 'POST',
      ':path': `/${this.service}/${method}`,
      'content-type': 'application/grpc',
      te: 'trailers',
      'grpc-timeout': grpcTimeout(deadline - performance.now()),
      'grpc-accept-encoding': 'identity',
    };
  }

  /** The error of a call; undefined if the call succeeded. */
  private failure(
    call: GrpcCall,
    status: http2.IncomingHttpHeaders | undefined,
    cause: NodeJS.ErrnoException | undefined,
  ): TritonError | undefined {
    const { model } = call;
    const code = status?.['grpc-status'];
    if (code !== undefined) return code === '0' ? undefined : this.refused(call, Number(code), status);
    if (status !== undefined) {
      const http = `HTTP ${String(status[':status'])}`;
      return new TritonError(`${this.address} answered ${http} instead of gRPC`, { status: http, model });
    }
    // A call that waited for a connection fails with its own error, whose cause is the connection's error.
    const root = (cause?.cause ?? cause) as NodeJS.ErrnoException | undefined;
    const why = root?.message ?? 'the connection was closed';
    return new TritonError(`${this.address} cannot be reached: ${why}`, {
      status: 'unreachable',
      model,
      nothingSent: root?.code === 'ECONNREFUSED' || root?.code === 'ERR_HTTP2_GOAWAY_SESSION',
      hint: 'check the address, and whether the server is running',
      cause,
    });
  }

  private late({ method, model, timeoutMs }: GrpcCall): TritonError {
    const message = `${this.address} did not answer ${method} within ${timeoutMs / 1000} s`;
    return new TritonError(message, { status: 'timeout', model });
  }

  private refused(call: GrpcCall, code: number, status: http2.IncomingHttpHeaders | undefined): TritonError {
    const name = STATUS_NAMES[code] ?? String(code);
    // The server enforces the same deadline, and may be the first to detect that it has passed.
    if (name === 'DEADLINE_EXCEEDED') return this.late(call);
    const { method, model } = call;
    const details = decodeMessage(String(status?.['grpc-message'] ?? ''));
    // Triton 2.51 refuses a wrong shape without a message.
    const message = details === '' ? `${this.address} rejected ${method} without a reason` : details;
    return new TritonError(message, { status: `gRPC ${name}`, model, answered: true });
  }
}

const lowerCase = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/**
 * Value of the grpc-timeout header: milliseconds, or seconds if milliseconds need more than the eight digits allowed.
 */
export function grpcTimeout(milliseconds: number): string {
  const whole = Math.max(1, Math.ceil(milliseconds));
  return whole < 1e8 ? `${whole}m` : `${Math.ceil(whole / 1000)}S`;
}

/** Decodes a grpc-message, in which bytes beyond ASCII are written as %XX. */
function decodeMessage(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
