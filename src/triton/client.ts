import { formatProblem, UserError } from '../core/errors';
import type { Tensor } from './tensor';

/** Interface of the HTTP and gRPC clients. Every call ends by its deadline; a call that fails throws a TritonError. */
export interface InferenceClient {
  /** Whether the server runs. */
  live(options?: CallOptions): Promise<boolean>;
  /** Whether the server accepts inference requests. */
  ready(options?: CallOptions): Promise<boolean>;
  /** Whether the model, or one version of it, accepts inference requests; false for a missing model. */
  modelReady(model: string, version?: number, options?: CallOptions): Promise<boolean>;
  serverMetadata(options?: CallOptions): Promise<ServerMetadata>;
  modelMetadata(model: string, version?: number, options?: CallOptions): Promise<ModelMetadata>;
  /** The configuration as the server completed it, with Triton's field names. */
  modelConfig(model: string, version?: number, options?: CallOptions): Promise<Record<string, unknown>>;
  /** Every model of the repository, one entry for each version that was ever loaded. */
  repositoryIndex(options?: CallOptions): Promise<ModelIndexEntry[]>;
  /**
   * Loads or reloads a model, and resolves when that is done. Needs EXPLICIT model control mode. Use gRPC for a server with
   * traffic: over HTTP, requests on other connections wait until the load ends, because they share a thread of the server.
   */
  loadModel(model: string, options?: CallOptions): Promise<void>;
  /** Requests that a model is unloaded, and resolves before that is done. */
  unloadModel(model: string, options?: UnloadOptions): Promise<void>;
  infer(model: string, inputs: readonly Tensor[], options?: InferOptions): Promise<InferResult>;
  /** Closes the connections that are kept open between calls. */
  close(): void;
}

/** Options for all calls of a client. */
export interface ClientOptions {
  /** Headers sent with every request, as metadata over gRPC, for example for a proxy or a guarded API. */
  headers?: Readonly<Record<string, string>>;
  /** For `https`: certificate authorities to trust instead of the system's, and a client certificate. */
  tls?: TlsOptions;
  /**
   * Whether an HTTP connection stays open for the next call. A server that ends waits for open connections, also idle
   * ones. Default true.
   */
  keepAlive?: boolean;
  /** Most bytes of an answer over HTTP; a larger one is not read to its end, and the call fails. Default: no limit. */
  mostAnswerBytes?: number;
  /**
   * Number of retries of a call that cannot have had an effect: its connection was refused, or it only reads and the
   * server was unavailable or disconnected. Retries stay within the call's deadline. The option never applies to
   * loadModel and unloadModel, nor to live, ready and modelReady, which report the current state. Default 2.
   */
  retries?: number;
}

/** Certificates and keys in PEM format. */
export interface TlsOptions {
  ca?: string | Buffer;
  cert?: string | Buffer;
  key?: string | Buffer;
  /** The name that the server's certificate must have; default: the host of the address. */
  servername?: string;
  /** Default true. */
  rejectUnauthorized?: boolean;
}

export interface CallOptions {
  /** Time from the start of the call to the end of its answer, in ms. */
  timeoutMs?: number;
}

export interface UnloadOptions extends CallOptions {
  /** For an ensemble: also unload its composing models. */
  unloadDependents?: boolean;
}

export interface InferOptions extends CallOptions {
  /** Default: the version that the model's policy prefers. */
  version?: number;
  /** Default: every output. */
  outputs?: readonly RequestedOutput[];
  /** Returned in the result, and written to the server's log. */
  requestId?: string;
  /** Parameters of Triton (`priority`, `timeout`, `sequence_id`, `sequence_start`, `sequence_end`) or of the model. */
  parameters?: Readonly<Record<string, string | number | boolean>>;
  /** Headers (gRPC: metadata) of this request, beside those of the client. */
  headers?: Readonly<Record<string, string>>;
  /**
   * Aborts the call, which then rejects with the reason of the signal. Over gRPC, Triton cancels the request if its model has
   * not begun to compute it; over HTTP only the call ends.
   */
  signal?: AbortSignal;
}

export interface RequestedOutput {
  name: string;
  /** Return this many of the largest values instead of all values, as BYTES `value:index` or `value:index:label`. */
  classification?: number;
}

export interface InferResult {
  model: string;
  version: string;
  requestId: string;
  outputs: Tensor[];
}

export interface ServerMetadata {
  name: string;
  version: string;
  extensions: string[];
}

export interface ModelMetadata {
  name: string;
  versions: string[];
  platform: string;
  inputs: TensorMetadata[];
  outputs: TensorMetadata[];
}

export interface TensorMetadata {
  name: string;
  datatype: string;
  /** Includes the batch axis, if the model has one; -1 is any length. */
  shape: number[];
}

/** Version, state and reason are empty for a model that was never loaded. */
export interface ModelIndexEntry {
  name: string;
  version: string;
  /** READY, LOADING, UNLOADING or UNAVAILABLE. */
  state: string;
  /** Why it is UNAVAILABLE. */
  reason: string;
}

/** Default timeout of all calls except loadModel. */
const DEFAULT_TIMEOUT_MS = 30_000;
/** Default timeout of loadModel. The server may have to download the model first. */
export const LOAD_TIMEOUT_MS = 600_000;

/** Status of a call whose answer is larger than `mostAnswerBytes`. */
export const TOO_LARGE = 'too large';

/** A failed call to a Triton server. The message is the server's, if the server sent one. */
export class TritonError extends UserError {
  override readonly name = 'TritonError';
  /**
   * `HTTP 404` or `gRPC NOT_FOUND` as answered; `timeout` if the deadline passed; `unreachable` if the connection
   * failed; `bad response` if the answer cannot be read; TOO_LARGE.
   */
  readonly status: string;
  readonly model: string | undefined;
  /** Whether Triton itself answered, and not a proxy in front of it. */
  readonly answered: boolean;
  /** Whether the connection failed before a byte of the request was sent. */
  readonly nothingSent: boolean;

  constructor(message: string, details: TritonErrorDetails) {
    super(message, { cause: details.cause, hint: details.hint });
    this.status = details.status;
    this.model = details.model;
    this.answered = details.answered ?? false;
    this.nothingSent = details.nothingSent ?? false;
  }
}

/** A problem of one input of a request. */
export interface InputProblem {
  input: string;
  message: string;
  /** Allowed values. */
  allowed: string;
  hint?: string;
}

/** A request that does not fit its model. It is refused before anything is sent. The message lists all problems. */
export class RequestError extends UserError {
  override readonly name = 'RequestError';

  constructor(
    readonly model: string,
    readonly inputs: readonly InputProblem[],
  ) {
    const lines = inputs.map(({ input, ...problem }) => `\n  ${formatProblem({ file: input, ...problem })}`);
    super(`the request does not fit ${model}${lines.join('')}`);
  }
}

export function getTimeoutMs(options: CallOptions): number {
  return options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
}

/** Returns the result of `read`. If `read` throws, the answer is reported as unreadable. */
export function readable<T>(model: string | undefined, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw unreadable(model, cause);
  }
}

export function unreadable(model: string | undefined, cause: unknown): TritonError {
  const message = `the answer cannot be read: ${(cause as Error).message}`;
  return new TritonError(message, { status: 'bad response', model, cause });
}

interface TritonErrorDetails {
  status: string;
  model?: string;
  answered?: boolean;
  nothingSent?: boolean;
  hint?: string;
  cause?: unknown;
}
