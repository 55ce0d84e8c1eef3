import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Agent } from 'node:http';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { openAgent, ProxyError } from './agent';
import { sha256 } from './checksum';
import { CredentialSource } from './credentials';
import { encodeKey, encodeQuery, resolveEndpoint, type Endpoint } from './endpoint';
import { codeOfStatus, isExpired, isOtherRegion, S3Error, type FailureDetails } from './errors';
import { Limiter } from './limiter';
import { isOutage, isTransient, waitBefore } from './retry';
import { ConnectionError, sendRequest, SinkError, type Sink, type WireResponse } from './send-request';
import { readSettings, regionOfHost, type Settings } from './settings';
import { Signer } from './sign';
import type { StoreOptions } from './types';

export type { WireResponse } from './send-request';

/** A request to the bucket, or to an object in it. */
export interface S3Request<T> {
  /** The operation as messages name it: "list s3://bucket/prefix". */
  what: string;
  method: string;
  /** Absent for requests to the bucket itself. */
  key?: string;
  query?: Readonly<Record<string, string>> | undefined;
  /** Names in lower case. Read for each try. */
  readonly headers?: Readonly<Record<string, string>>;
  body?: Uint8Array | undefined;
  /** SHA-256 of the body, if already known. */
  bodySha256?: Buffer;
  /** Expected size of the answer, which extends the deadline. */
  answerBytes?: number;
  /** Gets the body of a successful answer. It keeps the bytes of failed tries. */
  sink?: Sink;
  /** Bytes that the server copies or joins before it answers, which extend the deadline. */
  copiedBytes?: number;
  /** Reads a successful answer. If it throws S3RequestError, the request counts as failed and may be retried. */
  read: (answer: WireResponse) => T;
}

/** An answer that means failure: an error status, or an error inside a successful answer. */
export class S3RequestError extends Error {
  override readonly name = 'S3RequestError';
  constructor(readonly details: FailureDetails) {
    super(details.code);
  }
}

/** Most requests in flight. */
export const CONCURRENCY = 64;

/** The slowest transfer that the deadline allows for, in bytes per millisecond. */
const SLOWEST_BYTES_PER_MS = 16;

/** The same for bytes that the server copies itself. */
const SLOWEST_COPY_BYTES_PER_MS = 10_000;

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

/** Signs requests, limits how many run at a time, and retries transient failures. */
export class Requester {
  private readonly credentials: CredentialSource;
  private readonly slots = new Limiter(CONCURRENCY);
  private readonly opening: Promise<{ site: Site; agent: Agent; handler: NodeHttpHandler }>;
  private readonly closing = new AbortController();
  private site: Site | undefined;
  private clockOffsetMs = 0;
  private answered = false;
  private moved = false;

  constructor(private readonly options: StoreOptions) {
    // Every request that waits for a retry adds a listener.
    setMaxListeners(0, this.closing.signal);
    this.opening = this.open(process.env);
    this.opening.catch(() => undefined); // Each request reports the error.
    this.credentials = new CredentialSource(options.credentials, async () => {
      const { site, agent } = await this.opening;
      const https = site.endpoint.secure ? agent : await this.openAgent(true, site.settings, process.env);
      return { region: site.settings.region, agent: https, ofAws: site.endpoint.ofAws };
    });
  }

  /** Where requests are sent, for messages; empty before the first request. */
  get url(): string {
    return this.site?.endpoint.url ?? '';
  }

  private async open(env: NodeJS.ProcessEnv): Promise<{ site: Site; agent: Agent; handler: NodeHttpHandler }> {
    const settings = await readSettings(this.options, env);
    const endpoint = await resolveEndpoint(this.options.bucket, settings);
    const agent = await this.openAgent(endpoint.secure, settings, env);
    const handler = new NodeHttpHandler({
      httpAgent: agent as never,
      httpsAgent: agent as never,
      socketTimeout: this.options.idleTimeoutMs ?? 30_000,
    });
    this.site = { settings, endpoint, signer: new Signer(settings.region) };
    return { site: this.site, agent, handler };
  }

  private openAgent(secure: boolean, { caFile }: Settings, env: NodeJS.ProcessEnv): Promise<Agent> {
    const { idleTimeoutMs = 30_000 } = this.options;
    return openAgent({ secure, connections: CONCURRENCY, idleTimeoutMs, caFile, env });
  }

  /** Closes all connections; requests in flight fail. */
  close(): void {
    this.closing.abort();
    this.opening.then(({ agent }) => agent.destroy()).catch(() => undefined);
  }

  /**
   * Sends a request and retries transient failures.
   * @throws SinkError; S3Error if the failure is not transient, or the tries or the time are used up
   */
  async send<T>(request: S3Request<T>): Promise<T> {
    const { answerBytes = 0, copiedBytes = 0 } = request;
    const sentBytes = (request.body?.byteLength ?? 0) + answerBytes;
    const transferMs = sentBytes / SLOWEST_BYTES_PER_MS + copiedBytes / SLOWEST_COPY_BYTES_PER_MS;
    const once = new Set<string>();
    let started = 0;
    let end = Infinity;
    let before: S3Error | undefined;
    // Tries since a try brought bytes to the sink.
    let fruitless = 0;
    let leftBytes = request.sink?.leftBytes;
    await this.opening;
    for (let tries = 1; ; tries += 1) {
      await this.slots.acquire(1);
      // The deadline starts after the wait for the first slot, because the server did not cause that wait.
      if (tries === 1) {
        started = performance.now();
        end = started + (this.options.deadlineMs ?? 120_000) + transferMs;
      }
      const site = this.site as Site;
      const outcome = await this.attempt(request, site, end).finally(() => this.slots.release(1));
      if (!(outcome instanceof S3Error)) return outcome.value;
      fruitless = request.sink?.leftBytes === leftBytes ? fruitless + 1 : 1;
      leftBytes = request.sink?.leftBytes;
      if (leftBytes === 0) throw outcome; // The sink has all bytes.
      if (await this.isCorrected(outcome, site, once)) continue;
      const wait = waitBefore(fruitless);
      const most = this.options.attempts ?? (isOutage(outcome) ? Infinity : MOST_REFUSALS);
      const until = this.answered ? end : Math.min(end, started + UNANSWERED_MS);
      const over = fruitless >= most || performance.now() + wait >= until || this.closing.signal.aborted;
      // If the deadline ended this try, the error of the previous try says more.
      if (over || !isTransient(outcome, this.answered)) throw performance.now() >= end ? (before ?? outcome) : outcome;
      before = outcome;
      await sleep(wait, undefined, { signal: this.closing.signal }).catch(() => {
        throw outcome;
      });
    }
  }

  /** Whether the cause of a failure was corrected: our clock, expired credentials, or the region of the bucket. */
  private async isCorrected(failure: S3Error, site: Site, once: Set<string>): Promise<boolean> {
    const { code, clockOffsetMs } = failure;
    if (code === 'RequestTimeTooSkewed' && clockOffsetMs !== undefined && !once.has(code)) {
      once.add(code);
      this.clockOffsetMs = clockOffsetMs;
      return true;
    }
    if (isExpired(failure) && !once.has('expired') && (await this.credentials.renew())) {
      once.add('expired');
      return true;
    }
    return isOtherRegion(failure) && this.follow(failure, site);
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
  private async attempt<T>(request: S3Request<T>, site: Site, end: number): Promise<{ value: T } | S3Error> {
    try {
      const answer = await this.sendRequest(request, site, () => end - performance.now());
      this.answered = true;
      if (answer.status >= 300) throw new S3RequestError(getFailure(answer));
      if (isWebPage(answer)) throw new S3RequestError({ code: 'NotS3', text: 'the answer is a web page' });
      return { value: request.read(answer) };
    } catch (error) {
      if (error instanceof ConnectionError) await this.closeIdleConnections();
      return new S3Error(request.what, site.endpoint.url, getDetails(error));
    }
  }

  /**
   * The retry must use a new connection, and a new address of the host. If one connection failed, idle ones have
   * probably failed too.
   */
  private async closeIdleConnections(): Promise<void> {
    const { agent } = await this.opening;
    for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
  }

  private async sendRequest(
    { method, key, body, sink, ...request }: S3Request<unknown>,
    { endpoint, signer }: Site,
    getLeftMs: () => number,
  ): Promise<WireResponse> {
    const { handler } = await this.opening;
    const bodySha256 = request.bodySha256 ?? (body === undefined ? NOTHING : sha256(body));
    const path = `${endpoint.bucketPath}/${key === undefined ? '' : encodeKey(key)}`;
    const query = request.query === undefined ? '' : encodeQuery(request.query);
    const headers = signer.sign(
      {
        method,
        path,
        query,
        headers: { ...request.headers, host: endpoint.host },
        bodySha256: bodySha256.toString('hex'),
      },
      await this.credentials.get(),
      new Date(Date.now() + this.clockOffsetMs),
    );
    if (body !== undefined || method === 'PUT' || method === 'POST') {
      headers['content-length'] = String(body?.byteLength ?? 0);
    }
    return sendRequest(handler, endpoint, {
      method,
      path: query === '' ? path : `${path}?${query}`,
      headers,
      body,
      sink,
      getLeftMs,
    });
  }
}

/** Whether a server answers that is not S3. S3 sends an ETag with each object, also with web pages. */
function isWebPage({ headers }: WireResponse): boolean {
  return headers['etag'] === undefined && (headers['content-type'] ?? '').startsWith('text/html');
}

/** An ETag in quotes, as S3 writes it. Some servers omit the quotes in some of their answers. */
export function quoted(etag: string | undefined): string {
  if (etag === undefined || etag === '') return '';
  return etag.endsWith('"') ? etag : `"${etag}"`;
}

/** Verifies the checksum that the server stored, if the server reports one. */
export function checkStored(stored: string | undefined, ours: string): void {
  if (stored === undefined || stored === '' || stored === ours) return;
  throw new S3RequestError({ code: 'BadDigest', text: `S3 stored the checksum ${stored} instead of ${ours}` });
}

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** The error in an answer. Answers of proxies and to HEAD have only a status. */
export function getFailure({ status, headers, body }: WireResponse): FailureDetails {
  const xml = body.toString('utf8');
  const field = (name: string): string | undefined =>
    new RegExp(`<${name}>([^<]*)</${name}>`)
      .exec(xml)?.[1]
      ?.replace(/&(?:#(\d+)|(\w+));/g, (whole, code: string | undefined, name: string) =>
        code === undefined ? (ENTITIES[name] ?? whole) : String.fromCodePoint(Number(code)),
      );
  const region = headers['x-amz-bucket-region'] ?? field('Region') ?? regionOfHost(field('Endpoint') ?? '');
  const date = Date.parse(headers['date'] ?? '');
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
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === undefined || error instanceof SinkError) throw error;
  const hint = error instanceof ConnectionError && error.cause instanceof ProxyError ? error.cause.hint : undefined;
  return { code, text: message, hint, cause: error };
}
