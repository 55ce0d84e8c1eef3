import { formatProblem, UserError } from '../core/errors';
import type { Tensor } from './tensor';

/** What both clients, HTTP and gRPC, offer. Every call ends by its deadline and fails with a TritonError. */
export interface InferenceClient {
  /** Whether the server runs. */
  live(options?: CallOptions): Promise<boolean>;
  /** Whether the server takes inference requests. */
  ready(options?: CallOptions): Promise<boolean>;
  /** Whether the model, or one version of it, takes inference requests; false also for a model that is not there. */
  modelReady(model: string, version?: number, options?: CallOptions): Promise<boolean>;
  serverMetadata(options?: CallOptions): Promise<ServerMetadata>;
  modelMetadata(model: string, version?: number, options?: CallOptions): Promise<ModelMetadata>;
  /** The configuration as the server completed it, with Triton's field names. */
  modelConfig(model: string, version?: number, options?: CallOptions): Promise<Record<string, unknown>>;
  /** Every model of the repository, one entry for each version that was ever loaded. */
  repositoryIndex(options?: CallOptions): Promise<ModelIndexEntry[]>;
  /** Loads or reloads a model; comes back when that is done. Needs EXPLICIT model control mode. */
  loadModel(model: string, options?: CallOptions): Promise<void>;
  /** Asks for a model to be unloaded; comes back before that is done. */
  unloadModel(model: string, options?: UnloadOptions): Promise<void>;
  infer(model: string, inputs: readonly Tensor[], options?: InferOptions): Promise<InferResult>;
  /** Closes the connections that are kept open between calls. */
  close(): void;
}

/** Of a client, for all of its calls. */
export interface ClientOptions {
  /** Sent with every request, as metadata over gRPC: what a proxy or a guarded API asks for. */
  headers?: Readonly<Record<string, string>>;
  /** For `https`: authorities to trust instead of the system's, a certificate of the client's own. */
  tls?: TlsOptions;
  /**
   * Further tries of a call that cannot have had an effect: its connection was refused, or it only reads and the server
   * was unavailable or went away. Within the call's deadline. Never of loadModel and unloadModel, nor of live and ready,
   * which ask about this moment. Default 2.
   */
  retries?: number;
  /** Further tries of infer too after it may have reached the model: for models that keep no state between requests. */
  retryInfer?: boolean;
}

/** In PEM. */
export interface TlsOptions {
  ca?: string | Buffer;
  cert?: string | Buffer;
  key?: string | Buffer;
  /** The name that the server's certificate has to have; default: the host of the address. */
  servername?: string;
  /** Default true. */
  rejectUnauthorized?: boolean;
}

export type Compression = 'gzip' | 'deflate';

export interface CallOptions {
  /** From the start of the call to its whole answer. */
  timeoutMs?: number;
}

export interface UnloadOptions extends CallOptions {
  /** For an ensemble: its composing models too. */
  unloadDependents?: boolean;
}

export interface InferOptions extends CallOptions {
  /** Default: the version that the model's policy prefers. */
  version?: number;
  /** Default: every output. */
  outputs?: readonly RequestedOutput[];
  /** Comes back in the result and stands in the server's log. */
  requestId?: string;
  /** Of Triton or of the model: `priority`, `timeout`, `sequence_id`, `sequence_start`, `sequence_end`, your own. */
  parameters?: Readonly<Record<string, string | number | boolean>>;
  /** For tensors that shrink, and a network slower than the compression. */
  requestCompression?: Compression;
  /** Asks for a compressed answer; over gRPC the server alone decides. */
  responseCompression?: Compression;
}

export interface RequestedOutput {
  name: string;
  /** Instead of the values: the largest so many as BYTES `value:index` or `value:index:label`. */
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
  /** With the batch axis, if there is one; -1 is any length. */
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

/** For calls that do no heavy work. */
const DEFAULT_TIMEOUT_MS = 30_000;
/** For loading a model, which may have to be downloaded first. */
export const LOAD_TIMEOUT_MS = 600_000;

/** A call to a Triton server that failed. The message is the server's own where it sent one. */
export class TritonError extends UserError {
  override readonly name = 'TritonError';
  /**
   * `HTTP 404` or `gRPC NOT_FOUND` as answered; `timeout` for a deadline that passed, `unreachable` for a connection
   * that failed, `bad response` for an answer that cannot be read.
   */
  readonly status: string;
  readonly model: string | undefined;
  /** Whether the server itself answered, and not a proxy on the way to it. */
  readonly answered: boolean;
  /** Whether the connection failed before a byte of the request was sent. */
  readonly nothingSent: boolean;

  constructor(message: string, details: TritonErrorDetails) {
    const { hint, cause } = details;
    super(message, { cause, ...(hint === undefined ? {} : { hint }) });
    this.status = details.status;
    this.model = details.model;
    this.answered = details.answered ?? false;
    this.nothingSent = details.nothingSent ?? false;
  }
}

/** What is wrong with one input of a request. */
export interface InputProblem {
  input: string;
  message: string;
  /** What is allowed instead. */
  allowed: string;
  hint?: string;
}

/** A request that does not fit its model, which was refused before anything was sent. The message names each problem. */
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

/** Of a call without one of its own. */
export function timeoutOf(options: CallOptions): number {
  return options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
}

/** What `read` makes of an answer; where it throws, the answer is what is wrong. */
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
  model?: string | undefined;
  answered?: boolean;
  nothingSent?: boolean;
  hint?: string;
  cause?: unknown;
}
