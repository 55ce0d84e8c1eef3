import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Agent, IncomingHttpHeaders } from 'node:http';
import { openAgent, ProxyError } from './agent';
import { sha256 } from './checksum';
import { ConnectionStock } from './connection-stock';
import { CredentialSource } from './credentials';
import { encodeKey, encodeQuery, resolveEndpoint, type Endpoint } from './endpoint';
import { codeOfStatus, isExpired, isOtherRegion, S3Error, type FailureDetails } from './errors';
import { ConnectionError, sendRequest, type Sink, type WireResponse } from './send-request';
import { isOutage, isOverload, isTransient, waitBefore } from './retry';
import { Signer } from './sign';
import { ConcurrencyLimiter, INITIAL_LIMIT } from './concurrency-limiter';
import { readSettings, regionOfHost, type Settings } from './settings';
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
  /** Names in lower case. Read for each try. */
  readonly headers?: Readonly<Record<string, string>>;
  body?: Uint8Array;
  /** SHA-256 of the body, if already known. */
  bodySha256?: Buffer;
  /** Expected size of the answer, which extends the deadline. */
  answerBytes?: number;
  /** Gets the body of a successful answer. It keeps the bytes of failed tries. */
  sink?: Sink;
  /** Bytes that the server copies or joins before it answers, which extend the deadline. */
  copiedBytes?: number;
  /** Error code after which the same request cannot succeed, though others with this error can. */
  finalCode?: string;
  /** Sent at once, even if other requests wait. */
  urgent?: boolean | undefined;
  /** Each try requires this lease, and is aborted if the lease ends. */
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

/** The same for bytes that the server copies itself. */
const SLOWEST_COPY_BYTES_PER_MS = 10_000;

/** Most requests in flight. The limit begins lower, and rises while that helps. */
export const DEFAULT_CONCURRENCY = 256;

/** Further connections for urgent requests. */
const URGENT_CONNECTIONS = 2;

/** Most tries if the server answers with errors, because it would probably repeat them. */
const MOST_REFUSALS = 10;

/** Time for retries while the server has never answered, because the address or the network is probably wrong. */
const UNANSWERED_MS = 10_000;

const NOTHING = sha256(new Uint8Array());

/** The bucket in one region: where requests are sent, and what signs them. */
interface Site {
  settings: Settings;
  endpoint: Endpoint;
  signer: Signer;
}

interface Connections {
  site: Site;
  agent: Agent;
  stock: ConnectionStock;
}

/** What sends the requests of a bucket. */
export type Sender = Pick<Requester, 'url' | 'concurrency' | 'connect' | 'send' | 'close'>;

/** The same requester; `prepare` is called for each request before it is sent. */
export const preparing = (
  requester: Sender,
  prepare: (request: Pick<S3Request<unknown>, 'method' | 'lease' | 'urgent'>) => void,
): Sender => ({
  get url() {
    return requester.url;
  },
  concurrency: requester.concurrency,
  connect: (count) => requester.connect(count),
  close: () => requester.close(),
  send: (request) => {
    prepare(request);
    return requester.send(request);
  },
});

/** Signs requests, limits how many run at a time, and retries transient failures. */
export class Requester {
  /** Most requests in flight. */
  readonly concurrency: number;
  private readonly credentials: CredentialSource;
  private readonly slots: ConcurrencyLimiter;
  private readonly attempts: number | undefined;
  private readonly deadlineMs: number;
  private readonly opening: Promise<Connections>;
  private readonly closing = new AbortController();
  private agent: Agent | undefined;
  private stock: ConnectionStock | undefined;
  private site: Site | undefined;
  private clockOffsetMs = 0;
  private answered = false;
  private moved = false;

  constructor(private readonly options: StoreOptions) {
    // Every request that waits for a retry adds a listener.
    setMaxListeners(0, this.closing.signal);
    this.concurrency = options.concurrency ?? DEFAULT_CONCURRENCY;
    this.opening = this.open(process.env);
    this.opening.catch(() => undefined); // Each request reports the error.
    this.credentials = new CredentialSource(options.credentials, async () => {
      const { site, agent } = await this.opening;
      const https = site.endpoint.secure ? agent : await this.openAgent(true, site.settings, process.env);
      return { region: site.settings.region, agent: https, ofAws: site.endpoint.ofAws };
    });
    this.slots = new ConcurrencyLimiter(this.concurrency);
    this.attempts = options.attempts;
    this.deadlineMs = options.deadlineMs ?? 120_000;
  }

  /** Where requests are sent, for messages; empty before the first request. */
  get url(): string {
    return this.site?.endpoint.url ?? '';
  }

  private async open(env: NodeJS.ProcessEnv): Promise<Connections> {
    const settings = await readSettings(this.options, env);
    const endpoint = await resolveEndpoint(this.options.bucket, settings);
    const agent = await this.openAgent(endpoint.secure, settings, env);
    const site = { settings, endpoint, signer: new Signer(settings.region) };
    return { site, agent, stock: new ConnectionStock(agent) };
  }

  private openAgent(secure: boolean, { caFile }: Settings, env: NodeJS.ProcessEnv): Promise<Agent> {
    const { idleTimeoutMs = 30_000 } = this.options;
    const connections = this.concurrency + URGENT_CONNECTIONS;
    return openAgent({ secure, connections, idleTimeoutMs, caFile, env });
  }

  /** Opens up to `count` connections that the next requests will need. */
  connect(count: number): void {
    const open = ({ site, stock }: Connections): void => {
      if (this.closing.signal.aborted) return;
      stock.open((this.site ?? site).endpoint, Math.min(count, this.concurrency, INITIAL_LIMIT));
    };
    this.opening.then(open).catch(() => undefined);
  }

  /** Closes all connections; requests in flight fail. */
  close(): void {
    this.closing.abort();
    const destroy = ({ agent, stock }: Connections): void => {
      stock.clear();
      agent.destroy();
    };
    this.opening.then(destroy).catch(() => undefined);
  }

  /**
   * Sends a request and retries transient failures.
   * @throws SinkError; S3Error if the failure is not transient, or the tries or the time are used up
   */
  async send<T>(request: S3Request<T>): Promise<T> {
    const { answerBytes = 0, copiedBytes = 0 } = request;
    const sentBytes = (request.body?.byteLength ?? 0) + answerBytes;
    const transferMs = sentBytes / SLOWEST_BYTES_PER_MS + copiedBytes / SLOWEST_COPY_BYTES_PER_MS;
    let started = 0;
    let end = Infinity;
    let clockWasSet = false;
    let renewed = false;
    let before: S3Error | undefined;
    // Tries since a try brought bytes to the sink.
    let fruitless = 0;
    let leftBytes = request.sink?.leftBytes;
    if (this.agent === undefined) ({ site: this.site, agent: this.agent, stock: this.stock } = await this.opening);
    for (let tries = 1; ; tries += 1) {
      const turn = request.urgent === true ? undefined : this.slots.acquire();
      if (turn !== undefined) await turn;
      // The deadline starts after the wait for the first slot, because the server did not cause that wait.
      if (tries === 1) {
        started = performance.now();
        end = started + this.deadlineMs + transferMs;
      }
      const site = this.site as Site;
      const outcome = await this.attempt(request, site, tries, end).finally(() => {
        if (request.urgent !== true) this.slots.release();
      });
      if (!(outcome instanceof S3Error)) return outcome.value;
      fruitless = request.sink?.leftBytes === leftBytes ? fruitless + 1 : 1;
      leftBytes = request.sink?.leftBytes;
      if (leftBytes === 0) throw outcome; // The sink has all bytes.
      if (outcome.code === 'RequestTimeTooSkewed' && !clockWasSet && outcome.clockOffsetMs !== undefined) {
        this.clockOffsetMs = outcome.clockOffsetMs;
        clockWasSet = true;
        continue;
      }
      if (isExpired(outcome) && !renewed && (await this.credentials.renew())) {
        renewed = true;
        continue;
      }
      if (isOtherRegion(outcome) && (await this.follow(outcome, site))) continue;
      const wait = waitBefore(outcome, fruitless, Math.random);
      const most = this.attempts ?? (isOutage(outcome) ? Infinity : MOST_REFUSALS);
      const until = this.answered ? end : Math.min(end, started + UNANSWERED_MS);
      const over = fruitless >= most || performance.now() + wait >= until || this.closing.signal.aborted;
      // If the deadline ended this try, the error of the previous try says more.
      if (over || outcome.code === request.finalCode || !isTransient(outcome, this.answered))
        throw performance.now() >= end ? (before ?? outcome) : outcome;
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

  /**
   * Sends the following requests to the region that S3 named, once for all requests.
   * @returns whether a request that was sent to `site` may succeed now
   */
  private async follow({ region }: S3Error, site: Site): Promise<boolean> {
    const { endpointUrl } = site.settings;
    // The address of an endpoint of AWS cannot be that of another region.
    const fixed = endpointUrl === undefined ? undefined : regionOfHost(endpointUrl);
    if (region === undefined || (fixed !== undefined && fixed !== region)) return false;
    if (this.site === site && region !== site.settings.region && !this.moved) {
      this.moved = true;
      const settings = { ...site.settings, region };
      const endpoint = await resolveEndpoint(this.options.bucket, settings);
      this.site = { settings, endpoint, signer: new Signer(region) };
    }
    return this.site !== site;
  }

  /** One try. Failures are returned instead of thrown, because send may retry. */
  private async attempt<T>(
    request: S3Request<T>,
    site: Site,
    tries: number,
    end: number,
  ): Promise<{ value: T } | S3Error> {
    try {
      const getLeftMs = (): number => Math.min(end - performance.now(), request.lease?.getLeftMs() ?? Infinity);
      const answer = await this.sendRequest(request, site, getLeftMs);
      this.answered = true;
      if (answer.status >= 300) throw new S3RequestError(getFailure(answer));
      if (isWebPage(answer)) throw new S3RequestError({ code: 'NotS3', text: 'the answer is a web page' });
      const value = request.read(answer, tries);
      this.slots.succeeded((request.body?.byteLength ?? 0) + answer.bytes);
      return { value };
    } catch (error) {
      const failure = new S3Error(request.what, site.endpoint.url, getDetails(error));
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
    this.stock?.clear();
    for (const sockets of Object.values(this.agent?.freeSockets ?? {})) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }

  private async sendRequest(
    request: S3Request<unknown>,
    { endpoint, signer }: Site,
    getLeftMs: () => number,
  ): Promise<WireResponse> {
    const credentials = this.credentials.get();
    const bodySha256 = request.bodySha256 ?? (request.body === undefined ? NOTHING : sha256(request.body));
    const path =
      request.key === undefined ? `${endpoint.bucketPath}/` : `${endpoint.bucketPath}/${encodeKey(request.key)}`;
    const query = request.query === undefined ? '' : encodeQuery(request.query);
    const headers = signer.sign(
      {
        method: request.method,
        path,
        query,
        headers: { ...request.headers, host: endpoint.host },
        bodySha256: bodySha256.toString('hex'),
      },
      credentials instanceof Promise ? await credentials : credentials,
      new Date(Date.now() + this.clockOffsetMs),
    );
    if (request.body !== undefined || request.method === 'PUT' || request.method === 'POST') {
      headers['content-length'] = String(request.body?.byteLength ?? 0);
    }
    // After the wait for credentials, which may outlast the lease.
    request.lease?.requireHeld();
    return sendRequest(endpoint, this.agent as Agent, {
      method: request.method,
      path: query === '' ? path : `${path}?${query}`,
      headers,
      body: request.body,
      sink: request.sink,
      getLeftMs,
    });
  }
}

/** Whether a server answers that is not S3. S3 sends an ETag with each object, also with web pages. */
function isWebPage({ headers }: WireResponse): boolean {
  return headers.etag === undefined && (headers['content-type'] ?? '').startsWith('text/html');
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
  const region = header(headers, 'x-amz-bucket-region') ?? field('Region') ?? regionOfHost(field('Endpoint') ?? '');
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
  if (error instanceof ConnectionError) {
    const hint = error.cause instanceof ProxyError ? error.cause.hint : undefined;
    return { code: error.code, text: error.message, hint, cause: error };
  }
  const known = error as NodeJS.ErrnoException;
  if (known.code !== undefined) return { code: known.code, text: known.message, cause: error };
  throw error;
}
