import * as http2 from 'node:http2';
import protobuf from 'protobufjs/light';
import {
  DEFAULT_TIMEOUT_MS,
  LOAD_TIMEOUT_MS,
  readable,
  serverUrl,
  startTimer,
  TritonError,
  type CallOptions,
  type ClientOptions,
} from './client';

/** The messages of Triton's gRPC API that are used. */
const messages = protobuf.Root.fromJSON({
  nested: {
    ServerLiveResponse: { fields: { live: { type: 'bool', id: 1 } } },
    RepositoryModelLoadRequest: { fields: { model_name: { type: 'string', id: 2 } } },
  },
});

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

interface GrpcCall {
  method: 'ServerLive' | 'RepositoryModelLoad';
  message: Uint8Array;
  timeoutMs: number;
  /** For the error message. */
  model?: string | undefined;
}

/**
 * The calls of Triton's gRPC API with which agents load models, each on a connection of its own. Uses Node's HTTP/2, because
 * @grpc/grpc-js would make the agent's program too large for its ConfigMap (docs/decisions.md).
 */
export class TritonGrpcClient {
  private readonly url: string;
  private readonly headers: Readonly<Record<string, string>>;
  private readonly sessions = new Set<http2.ClientHttp2Session>();

  /**
   * @param address `HOST:PORT`, `https://HOST:PORT` for TLS
   * @throws UserError if `address` has another form
   */
  constructor(
    private readonly address: string,
    { headers = {} }: ClientOptions = {},
  ) {
    this.url = serverUrl(address);
    this.headers = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  }

  /** Whether the server runs. */
  async live({ timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {}): Promise<boolean> {
    const type = messages.lookupType('ServerLiveResponse');
    const answer = await this.call({ method: 'ServerLive', message: new Uint8Array(), timeoutMs });
    return readable(undefined, () => (type.decode(answer) as { live?: boolean }).live === true);
  }

  async loadModel(model: string, { timeoutMs = LOAD_TIMEOUT_MS }: CallOptions = {}): Promise<void> {
    const message = messages.lookupType('RepositoryModelLoadRequest').encode({ model_name: model }).finish();
    await this.call({ method: 'RepositoryModelLoad', message, timeoutMs, model });
  }

  /** Ends the calls in flight. */
  close(): void {
    for (const session of this.sessions) session.destroy();
  }

  /**
   * Sends one message and receives one.
   * @throws TritonError
   */
  private async call(call: GrpcCall): Promise<Buffer> {
    const session = http2.connect(this.url);
    this.sessions.add(session);
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<Buffer>((resolve, reject) => {
        const late = (): void => reject(this.late(call));
        timer = startTimer(call.timeoutMs, late);
        const chunks: Buffer[] = [];
        let status: http2.IncomingHttpHeaders | undefined;
        const stream = session.request({
          ...this.headers,
          ':method': 'POST',
          ':path': `/inference.GRPCInferenceService/${call.method}`,
          'content-type': 'application/grpc',
          te: 'trailers',
          // At most eight digits are allowed.
          'grpc-timeout': `${Math.min(Math.ceil(call.timeoutMs), 99_999_999)}m`,
          'grpc-accept-encoding': 'identity',
        });
        const fail = (cause: Error): void => reject(this.unreachable(call, cause));
        session.on('error', fail);
        stream
          .on('response', (headers) => {
            // A call that fails at once has its status in the headers; other calls have theirs in the trailers.
            if (headers['grpc-status'] !== undefined || headers[':status'] !== 200) status = headers;
          })
          .on('trailers', (trailers: http2.IncomingHttpHeaders) => (status = trailers))
          .on('data', (chunk: Buffer) => chunks.push(chunk))
          .on('error', fail)
          .on('close', () => {
            if (status === undefined) return fail(new Error('the connection was closed'));
            if (status['grpc-status'] !== '0') return reject(this.refused(call, status));
            // A throw in a listener would end the process.
            resolve(Promise.resolve().then(() => readable(call.model, () => readFrame(Buffer.concat(chunks)))));
          });
        stream.end(writeFrame(call.message));
      });
    } finally {
      clearTimeout(timer);
      this.sessions.delete(session);
      session.destroy();
    }
  }

  private unreachable({ model }: GrpcCall, cause: Error): TritonError {
    // A call that waited for a connection fails with its own error, whose cause is the connection's error.
    const { message } = (cause.cause ?? cause) as Error;
    return new TritonError(`${this.address} cannot be reached: ${message}`, {
      status: 'unreachable',
      model,
      hint: 'check the address, and whether the server is running',
      cause,
    });
  }

  private late({ method, model, timeoutMs }: GrpcCall): TritonError {
    const seconds = Math.round(timeoutMs) / 1000;
    const message = `${this.address} did not answer ${method} within ${seconds} s`;
    return new TritonError(message, { status: 'timeout', model });
  }

  private refused(call: GrpcCall, status: http2.IncomingHttpHeaders): TritonError {
    const { method, model } = call;
    const code = status['grpc-status'];
    if (code === undefined) {
      const http = `HTTP ${String(status[':status'])}`;
      return new TritonError(`${this.address} answered ${http} instead of gRPC`, { status: http, model });
    }
    const name = STATUS_NAMES[Number(code)] ?? String(code);
    // The server enforces the same deadline, and may be the first to detect that it has passed.
    if (name === 'DEADLINE_EXCEEDED') return this.late(call);
    const details = decodeMessage(String(status['grpc-message'] ?? ''));
    // Triton 2.51 refuses a wrong shape without a message.
    const message = details === '' ? `${this.address} rejected ${method} without a reason` : details;
    return new TritonError(message, { status: `gRPC ${name}`, model, answered: true });
  }
}

/** One byte that states whether the message is compressed, which it is not, and four bytes for its length. */
const PREFIX_BYTES = 5;

/** A message as gRPC sends it. */
function writeFrame(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

function readFrame(bytes: Buffer): Buffer {
  const message = bytes.subarray(PREFIX_BYTES);
  if (bytes.length < PREFIX_BYTES || bytes.readUInt32BE(1) !== message.length) throw new Error('it is incomplete');
  return message;
}

/** Decodes a grpc-message, in which bytes beyond ASCII are written as %XX. */
function decodeMessage(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
