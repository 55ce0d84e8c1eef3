import { UserError } from '../core/errors';
import type { Tensor } from './tensor';

/** Options for all calls of a client. */
export interface ClientOptions {
  /** Headers sent with every request, as metadata over gRPC, for example for a proxy or a guarded API. */
  headers?: Readonly<Record<string, string>>;
  /** Most bytes of an answer over HTTP; a larger one is not read to its end, and the call fails. Default: no limit. */
  mostAnswerBytes?: number;
}

export interface CallOptions {
  /** Time from the start of the call to the end of its answer, in ms. */
  timeoutMs?: number;
}

export interface InferOptions extends CallOptions {
  /** Default: the version that the model's policy prefers. */
  version?: number | undefined;
  /** Default: every output. */
  outputs?: readonly RequestedOutput[];
  /** Parameters of Triton (`priority`, `timeout`, `sequence_id`, `sequence_start`, `sequence_end`) or of the model. */
  parameters?: Readonly<Record<string, string | number | boolean>> | undefined;
}

export interface RequestedOutput {
  name: string;
  /** Return this many of the largest values instead of all values, as BYTES `value:index` or `value:index:label`. */
  classification?: number;
}

export interface InferResult {
  model: string;
  version: string;
  outputs: Tensor[];
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

/** What one version of a model has answered since it was loaded. */
export interface ModelStatistics {
  name: string;
  version: string;
  inference_stats: Record<'success' | 'fail', { count: number; ns: number }>;
}

/** Default timeout of all calls except loadModel. */
export const DEFAULT_TIMEOUT_MS = 30_000;
/** Default timeout of loadModel. The server may have to download the model first. */
export const LOAD_TIMEOUT_MS = 600_000;
/** Longest delay that timers support: 24 days. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** Calls `onLate` when the time of a call has passed. */
export const startTimer = (timeoutMs: number, onLate: () => void): NodeJS.Timeout =>
  setTimeout(onLate, Math.min(timeoutMs, LONGEST_TIMEOUT_MS));

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

  constructor(message: string, details: TritonErrorDetails) {
    super(message, { cause: details.cause, hint: details.hint });
    this.status = details.status;
    this.model = details.model;
    this.answered = details.answered ?? false;
  }
}

/** Returns the result of `read`. If `read` throws, the answer is reported as unreadable. */
export function readable<T>(model: string | undefined, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    const message = `the answer cannot be read: ${(cause as Error).message}`;
    throw new TritonError(message, { status: 'bad response', model, cause });
  }
}

interface TritonErrorDetails {
  status: string;
  model?: string | undefined;
  answered?: boolean;
  hint?: string;
  cause?: unknown;
}

/**
 * The URL of a server, without a trailing slash. `address` is `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`,
 * which other Triton clients use.
 * @throws UserError if `address` has another form
 */
export function serverUrl(address: string): string {
  const url = (address.includes('://') ? address : `http://${address}`).replace(/\/+$/, '');
  if (/^https?:\/\/[^/]/i.test(url) && URL.canParse(url)) return url;
  throw new UserError(`${JSON.stringify(address)} is not the address of a server`, {
    hint: 'write http://HOST:PORT, https://HOST:PORT or HOST:PORT',
  });
}
