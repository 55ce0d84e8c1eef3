import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Agent, IncomingHttpHeaders } from 'node:http';
import { openAgent } from './agent';
import { sha256 } from './checksum';
import { CredentialSource } from './credentials';
import { encodeKey, encodeQuery, resolveEndpoint, type Endpoint } from './endpoint';
import { codeOfStatus, S3Error, type FailureDetails } from './errors';
import { ConnectionError, sendRequest, type WireResponse } from './send-request';
import { isOutage, isOverload, isTransient, waitBefore } from './retry';
import { Signer } from './sign';
import { ConcurrencyLimiter } from './concurrency-limiter';
import type { Lease, StoreOptions } from './types';
import { childText, MalformedXmlError, parseXml, type XmlElement } from './xml';

export type { WireResponse } from './send-request';

/** A request to the bucket, or to an object in it. */
export interface S3Request<T> {
  /** The operation as messages name it: "list s3://bucket/prefix". */
  what: string;
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Absent for requests to the bucket itself. */
  key?: string;
  query?: Readonly<Record<string, string>>;
  /** Names in lower case. */
  headers?: Readonly<Record<string, string>>;
  body?: Uint8Array;
  /** SHA-256 of the body, if already known. */
  bodySha256?: Buffer;
  /** Expected size of the answer, which extends the deadline. */
  answerBytes?: number;
  /** Each try requires this lease, and is aborted when the lease ends. */
  lease?: Lease | undefined;
  /**
   * Reads a successful answer. If it throws MalformedXmlError or S3RequestError, the request counts as failed and may be retried.
   */
  read: (answer: WireResponse, tries: number) => T;
}

/** An answer that means failure: an error status, or an error inside a successful answer. */
export class S3RequestError extends Error {
  override readonly name = 'S3RequestError';
  constructor(readonly details: FailureDetails) {
    super(details.code);
  }
}

/** The slowest transfer that the deadline allows for, in bytes per millisecond. */
const SLOWEST_BYTES_PER_MS = 16;

/** Most tries if the server answers with errors, because it would probably repeat them. */
const MOST_REFUSALS = 10;

/** Time for retries while the server has never answered, because the address or the network is probably wrong. */
const UNANSWERED_MS = 10_000;

const NOTHING = sha256(new Uint8Array());

/** Signs requests, limits how many run at a time, and retries transient failures. */
export class Requester {
  readonly endpoint: Endpoint;
  private readonly signer: Signer;
  private readonly credentials: CredentialSource;
  private readonly slots: ConcurrencyLimiter;
  private readonly attempts: number | undefined;
  private readonly deadlineMs: number;
  private readonly agent: Promise<Agent>;
  private readonly closing = new AbortController();
  private openedAgent: Agent | undefined;
  private clockOffsetMs = 0;
  private answered = false;

  constructor(options: StoreOptions) {
    // Every request that waits for a retry adds a listener.
    setMaxListeners(0, this.closing.signal);
    const { env } = process;
    const region = options.region ?? env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'] ?? 'us-east-1';
    const endpointUrl = options.endpointUrl ?? env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'];
    const connections = options.concurrency ?? 32;
    this.endpoint = resolveEndpoint(options.bucket, region, endpointUrl);
    this.signer = new Signer(region);
    this.credentials = new CredentialSource(options.credentials);
    this.slots = new ConcurrencyLimiter(connections);
    this.attempts = options.attempts;
    this.deadlineMs = options.deadlineMs ?? 120_000;
    this.agent = openAgent(this.endpoint, { connections, idleTimeoutMs: options.idleTimeoutMs ?? 30_000 });
  }

  /** Closes all connections; requests in flight fail. */
  close(): void {
    this.closing.abort();
    void this.agent.then((agent) => agent.destroy());
  }

  /**
   * Sends a request and retries transient failures.
   * @throws S3Error if the failure is not transient, or the tries or the time are used up
   */
  async send<T>(request: S3Request<T>): Promise<T> {
    const bytes = (request.body?.byteLength ?? 0) + (request.answerBytes ?? 0);
    let started = 0;
    let end = Infinity;
    let clockWasSet = false;
    let before: S3Error | undefined;
    for (let tries = 1; ; tries += 1) {
      const turn = this.slots.acquire();
      if (turn !== undefined) await turn;
      // The deadline starts after the wait for the first slot, because the server did not cause that wait.
      if (tries === 1) {
        started = performance.now();
        end = started + this.deadlineMs + bytes / SLOWEST_BYTES_PER_MS;
      }
      const outcome = await this.attempt(request, tries, end).finally(() => this.slots.release());
      if (!(outcome instanceof S3Error)) return outcome.value;
      if (outcome.code === 'RequestTimeTooSkewed' && !clockWasSet && outcome.clockOffsetMs !== undefined) {
        this.clockOffsetMs = outcome.clockOffsetMs;
        clockWasSet = true;
        continue;
      }
      const wait = waitBefore(outcome, tries, Math.random);
      const most = this.attempts ?? (isOutage(outcome) ? Infinity : MOST_REFUSALS);
      const until = this.answered ? end : Math.min(end, started + UNANSWERED_MS);
      const over = tries >= most || performance.now() + wait >= until || this.closing.signal.aborted;
      // If the deadline ended this try, the error of the previous try says more.
      if (over || !isTransient(outcome, this.answered)) throw performance.now() >= end ? (before ?? outcome) : outcome;
      before = outcome;
      if (wait > 0) await this.pause(wait, outcome);
    }
  }

  private async pause(milliseconds: number, failure: S3Error): Promise<void> {
    try {
      await sleep(milliseconds, undefined, { signal: this.closing.signal });
    } catch {
      throw failure;
    }
  }

  /** One try. Failures are returned instead of thrown, because send may retry. */
  private async attempt<T>(request: S3Request<T>, tries: number, end: number): Promise<{ value: T } | S3Error> {
    request.lease?.requireHeld();
    try {
      const leftMs = Math.min(end - performance.now(), request.lease?.getLeftMs() ?? Infinity);
      const answer = await this.sendRequest(request, leftMs);
      this.answered = true;
      if (answer.status >= 300) throw new S3RequestError(getFailure(answer));
      const value = request.read(answer, tries);
      this.slots.succeeded();
      return { value };
    } catch (error) {
      const failure = new S3Error(request.what, this.endpoint.url, getDetails(error));
      if (isOverload(failure)) this.slots.slowDown();
      if (error instanceof ConnectionError) this.closeIdleConnections();
      return failure;
    }
  }

  /**
   * The retry must use a new connection, and a new address of the host. If one connection failed, idle ones have
   * probably failed too.
   */
  private closeIdleConnections(): void {
    for (const sockets of Object.values(this.openedAgent?.freeSockets ?? {})) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }

  private async sendRequest(request: S3Request<unknown>, timeoutMs: number): Promise<WireResponse> {
    this.openedAgent ??= await this.agent;
    const credentials = this.credentials.get();
    const bodySha256 = request.bodySha256 ?? (request.body === undefined ? NOTHING : sha256(request.body));
    const path =
      request.key === undefined
        ? `${this.endpoint.bucketPath}/`
        : `${this.endpoint.bucketPath}/${encodeKey(request.key)}`;
    const query = request.query === undefined ? '' : encodeQuery(request.query);
    const headers = this.signer.sign(
      {
        method: request.method,
        path,
        query,
        headers: { ...request.headers, host: this.endpoint.host },
        bodySha256: bodySha256.toString('hex'),
      },
      credentials instanceof Promise ? await credentials : credentials,
      new Date(Date.now() + this.clockOffsetMs),
    );
    if (request.body !== undefined || request.method === 'PUT' || request.method === 'POST') {
      headers['content-length'] = String(request.body?.byteLength ?? 0);
    }
    return sendRequest(this.endpoint, this.openedAgent, {
      method: request.method,
      path: query === '' ? path : `${path}?${query}`,
      headers,
      body: request.body,
      timeoutMs: Math.max(1, timeoutMs),
    });
  }
}

/** The value of a header; the first one if the header is repeated. */
export function header(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** An ETag in quotes, as S3 writes it. Some servers omit the quotes in some of their answers. */
export function quoted(etag: string | undefined): string {
  if (etag === undefined || etag === '') return '';
  return etag.endsWith('"') ? etag : `"${etag}"`;
}

/**
 * The XML of an answer. S3 may send an error with status 200, because it keeps the connection alive while it copies an
 * object or joins parts.
 * @throws S3RequestError, MalformedXmlError
 */
export function readXml(answer: WireResponse, rootName: string): XmlElement {
  const root = parseXml(answer.body.toString('utf8'));
  if (root.name === 'Error') throw new S3RequestError(getFailure(answer));
  if (root.name !== rootName) throw new MalformedXmlError(`the answer is <${root.name}> instead of <${rootName}>`);
  return root;
}

/** The error in an answer. Answers of proxies and to HEAD have only a status. */
function getFailure({ status, headers, body }: WireResponse): FailureDetails {
  let error: XmlElement | undefined;
  try {
    error = parseXml(body.toString('utf8'));
  } catch {
    error = undefined;
  }
  const field = (name: string): string | undefined => error && childText(error, name);
  const region = header(headers, 'x-amz-bucket-region') ?? field('Region');
  const date = Date.parse(header(headers, 'date') ?? '');
  return {
    code: field('Code') ?? codeOfStatus(status),
    status,
    text: field('Message'),
    region: region === '' ? undefined : region,
    clockOffsetMs: Number.isNaN(date) ? undefined : date - Date.now(),
  };
}

function getDetails(error: unknown): FailureDetails {
  if (error instanceof S3RequestError) return error.details;
  if (error instanceof MalformedXmlError) return { code: 'MalformedAnswer', text: error.message, cause: error };
  if (error instanceof ConnectionError) return { code: error.code, text: error.message, cause: error };
  const known = error as NodeJS.ErrnoException;
  if (known.name === 'CredentialsProviderError') return { code: known.name, text: known.message, cause: error };
  if (known.code !== undefined) return { code: known.code, text: known.message, cause: error };
  throw error;
}
