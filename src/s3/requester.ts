import { setMaxListeners } from 'node:events';
import type { Agent, IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { escapeUriPath } from '@smithy/core/protocols';
import { Hash } from '@smithy/core/serde';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { SignatureV4 } from '@smithy/signature-v4';
import { openAgent } from './agent';
import { sha256 } from './checksum';
import { CredentialSource } from './credentials';
import { getRegion, readSettings, resolveEndpoint, type Endpoint, type Settings } from './endpoint';
import { codeOfStatus, isOtherRegion, S3Error, type FailureDetails } from './errors';
import type { Credentials, StoreOptions, TakeBytes } from './types';
import { getText } from './xml';

export interface S3Request<T> {
  /** The operation as messages name it: "list s3://bucket/prefix". */
  what: string;
  method: string;
  /** Absent for requests to the bucket itself. */
  key?: string | undefined;
  query?: Readonly<Record<string, string>> | undefined;
  /** Names in lower case. */
  headers?: Readonly<Record<string, string>>;
  body?: Uint8Array | undefined;
  /** SHA-256 of the body, if already known. */
  bodySha256?: Buffer;
  /** Expected size of the answer, or of what the server copies or joins before it answers; extends the deadline. */
  answerBytes?: number | undefined;
  /** For all tries, in ms; default: that of the store. */
  deadlineMs?: number | undefined;
  /** Gets the body of a successful answer. Each try requests only the bytes that it does not have. */
  sink?: Sink;
  /** Reads a successful answer. If it throws RequestError, the request counts as failed and may be retried. */
  read: (answer: Answer) => T;
}

export interface Answer {
  status: number;
  /** Names in lower case. */
  headers: Record<string, string>;
  /** Empty if a sink got it. */
  body: Buffer;
}

/** Gets a range of an object, in order. */
export interface Sink {
  start: number;
  bytes: number;
  /** How many bytes it has got. */
  count: number;
  take: TakeBytes;
}

/** A try failed: an error status, an error inside a successful answer, or (without a status) no whole answer. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  constructor(readonly details: FailureDetails) {
    super(details.code, { cause: details.cause });
  }
}

/** A sink could not take the bytes. The cause is its error. */
export class SinkError extends Error {
  override readonly name = 'SinkError';
}

/** Connections, and most requests that callers should have in flight. */
export const CONCURRENCY = 64;

/** The slowest transfer that the deadline allows for, in bytes per millisecond. */
const SLOWEST_BYTES_PER_MS = 16;

/** Most tries if the server answers with errors, because it would probably repeat them. */
const MOST_REFUSALS = 10;

/** Time for retries while the server has never answered, because the address or the network is probably wrong. */
const UNANSWERED_MS = 10_000;

/** Bytes of a request that are handed to the connection at a time. TLS encrypts all of them in memory. */
const PIECE_BYTES = 64 * 1024;

/** Longest time without data in either direction. */
const IDLE_TIMEOUT_MS = 30_000;

const FIRST_WAIT_MS = 50;
const LONGEST_WAIT_MS = 5000;

const NOTHING = sha256(new Uint8Array());

const SHA256 = Hash.bind(null, 'sha256');

/** The server, or KMS behind it, asks for fewer requests. */
const THROTTLING =
  /Throttl|^SlowDown$|LimitExceeded|ThroughputExceeded|^TooManyRequests|^PriorRequestNotComplete$|^TransactionInProgress/;

/** Answers that a retry may change: the server failed, one of several writes succeeds, or bytes changed in transit. */
const TRANSIENT =
  /^(InternalError|ServiceUnavailable|OperationAborted|RequestTimeout(Exception)?|TimeoutError|ConditionalRequestConflict|(Bad|Invalid)Digest|MalformedXML|XAmzContent\w+Mismatch|IncompleteBody|MalformedAnswer)$/;

/** Failures to connect that no retry changes; those of the second line only while the server has never answered. */
const REJECTED = /^Proxy(?!Unavailable)|CERT|^CRL_|^UNABLE_TO_|^HOSTNAME_MISMATCH$|^INVALID_(CA|PURPOSE)$/;
const WRONG_ADDRESS =
  /^(ECONNREFUSED|ENOTFOUND|EPROTO|EADDRNOTAVAIL|ERR_SSL_(WRONG|PACKET).*|HPE_(?!INVALID_CONST).*)$/;

/** Whether a retry may help. */
export function isTransient({ code, status }: FailureDetails, answeredBefore: boolean): boolean {
  if (status === undefined) return !REJECTED.test(code) && (answeredBefore || !WRONG_ADDRESS.test(code));
  return THROTTLING.test(code) || TRANSIENT.test(code) || [408, 429, 500, 502, 503, 504].includes(status);
}

/** Whether the network or the server is unavailable, which may take a while, so that only the time limits the retries. */
const isOutage = ({ code, status = 503 }: FailureDetails): boolean =>
  [429, 502, 503, 504].includes(status) || THROTTLING.test(code);

/** Wait before the next try, in ms: exponential backoff with full jitter. */
const waitBefore = (tries: number): number =>
  Math.random() * Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));

const isSecure = ({ server }: Endpoint): boolean => server.protocol === 'https:';

/** The bucket in one region. */
interface Site {
  settings: Settings;
  endpoint: Endpoint;
}

/** Signs requests and retries transient failures. */
export class Requester {
  private readonly credentials: CredentialSource;
  private readonly opening: Promise<{ agent: Agent; handler: NodeHttpHandler }>;
  private readonly closing = new AbortController();
  private site: Site | undefined;
  private clockOffsetMs = 0;
  private answered = false;
  private moved = false;

  constructor(private readonly options: StoreOptions) {
    // Every request that waits for a retry adds a listener.
    setMaxListeners(0, this.closing.signal);
    const { env } = process;
    // The warning of AWS's providers about the version of Node is for those who use them in their own code.
    env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
    this.opening = this.open(env);
    this.opening.catch(() => undefined); // Each request reports the error.
    this.credentials = new CredentialSource(options.credentials, async () => {
      const { agent } = await this.opening;
      const { settings, endpoint } = this.site as Site;
      return { region: settings.region, agent: isSecure(endpoint) ? agent : this.openAgent(true, settings, env) };
    });
  }

  /** Where requests are sent, for messages; empty before the first request. */
  get url(): string {
    return this.site?.endpoint.url ?? '';
  }

  private async open(env: NodeJS.ProcessEnv): Promise<{ agent: Agent; handler: NodeHttpHandler }> {
    const { settings, endpoint } = await this.use(await readSettings(this.options, env));
    const agent = this.openAgent(isSecure(endpoint), settings, env);
    const { idleTimeoutMs: socketTimeout = IDLE_TIMEOUT_MS } = this.options;
    // Requests that wait for a connection are no reason for a warning on the user's terminal.
    const logger = { ...console, warn: () => undefined };
    return {
      agent,
      handler: new NodeHttpHandler({ httpAgent: agent, httpsAgent: agent as never, socketTimeout, logger }),
    };
  }

  private async use(settings: Settings): Promise<Site> {
    const endpoint = await resolveEndpoint(this.options.bucket, settings);
    return (this.site = { settings, endpoint });
  }

  private openAgent(secure: boolean, { caFile }: Settings, env: NodeJS.ProcessEnv): Agent {
    const { idleTimeoutMs = IDLE_TIMEOUT_MS } = this.options;
    return openAgent({ secure, connections: CONCURRENCY, idleTimeoutMs, caFile, env });
  }

  close(): void {
    this.closing.abort();
    this.opening.then(({ agent }) => agent.destroy()).catch(() => undefined);
  }

  /**
   * Sends a request and retries transient failures.
   * @throws SinkError; S3Error if the failure is not transient, or the tries or the time are used up
   */
  async send<T>(request: S3Request<T>): Promise<T> {
    const { what, body, sink, answerBytes = 0 } = request;
    const transferMs = ((body?.byteLength ?? 0) + answerBytes) / SLOWEST_BYTES_PER_MS;
    const corrected = new Set<string>();
    await this.opening;
    const started = performance.now();
    const end = started + (request.deadlineMs ?? this.options.deadlineMs ?? 120_000) + transferMs;
    let before: S3Error | undefined;
    // Tries since a try brought bytes to the sink.
    for (let tries = 1; ; tries += 1) {
      const site = this.site as Site;
      const got = sink?.count;
      const credentials = await this.credentials.get();
      try {
        const message = await this.sign(request, site, credentials);
        return await this.attempt(request, message, end - performance.now());
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        const { details } = error;
        if (sink?.count !== got) tries = 1;
        const failure = new S3Error(what, site.endpoint.url, details);
        if (sink !== undefined && sink.count === sink.bytes) throw failure;
        if (await this.correct(failure, site, credentials, corrected)) continue;
        const wait = waitBefore(tries);
        const most = this.options.attempts ?? (isOutage(details) ? Infinity : MOST_REFUSALS);
        const until = this.answered ? end : Math.min(end, started + UNANSWERED_MS);
        const isOver = tries >= most || performance.now() + wait >= until || this.closing.signal.aborted;
        // If the deadline ended this try, the error of the previous try says more.
        if (isOver || !isTransient(details, this.answered))
          throw performance.now() >= end ? (before ?? failure) : failure;
        before = failure;
        await sleep(wait, undefined, { signal: this.closing.signal }).catch(() => Promise.reject(failure));
      }
    }
  }

  /** Corrects the cause of a failure, each once: our clock, expired credentials, the region of the bucket. */
  private async correct(failure: S3Error, site: Site, used: Credentials, corrected: Set<string>): Promise<boolean> {
    const { code, clockOffsetMs, region = '' } = failure;
    const isFirst = (name: string): boolean => corrected.size < corrected.add(name).size;
    if (code === 'RequestTimeTooSkewed' && clockOffsetMs !== undefined && isFirst('clock')) {
      this.clockOffsetMs = clockOffsetMs;
      return true;
    }
    if (/^ExpiredToken|^TokenRefreshRequired$/.test(code) && isFirst('credentials'))
      return this.credentials.renew(used);
    // The address of an endpoint of AWS cannot be that of another region.
    const fixed = getRegion(site.settings.endpointUrl ?? '') ?? region;
    if (!isOtherRegion(failure) || fixed !== region) return false;
    if (this.site === site && region !== site.settings.region && !this.moved) {
      this.moved = true;
      await this.use({ ...site.settings, region });
    }
    return this.site !== site;
  }

  private async sign(request: S3Request<unknown>, { endpoint, settings }: Site, credentials: Credentials) {
    const { method, key = '', query = {}, body, bodySha256, sink } = request;
    const { protocol, hostname, host, port } = endpoint.server;
    const sha256InHex = (bodySha256 ?? (body === undefined ? NOTHING : sha256(body))).toString('hex');
    const range = sink && { range: `bytes=${sink.start + sink.count}-${sink.start + sink.bytes - 1}` };
    const headers = { ...request.headers, ...range, host, 'x-amz-content-sha256': sha256InHex };
    const path = `${endpoint.bucketPath}/${escapeUriPath(key)}`;
    const where = { protocol, hostname, path, ...(port !== '' && { port: Number(port) }) };
    const { region } = settings;
    const signer = new SignatureV4({ service: 's3', region, credentials, sha256: SHA256, uriEscapePath: false });
    const signingDate = new Date(Date.now() + this.clockOffsetMs);
    const message = await signer.sign({ method, ...where, query, headers }, { signingDate });
    if (body !== undefined || method === 'PUT' || method === 'POST')
      message.headers['content-length'] = String(body?.byteLength ?? 0);
    message.body = body !== undefined && body.byteLength > PIECE_BYTES ? Readable.from(getPieces(body)) : body;
    return message;
  }

  /**
   * Sends one request and reads the whole answer. A refusal may arrive before the whole request was sent; if the
   * connection then fails, the refusal counts. Otherwise the rest of the answer is missing, which names the error.
   * @throws RequestError, SinkError
   */
  private async attempt<T>({ sink, read }: S3Request<T>, message: object, leftMs: number): Promise<T> {
    const { agent, handler } = await this.opening;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), Math.max(1, leftMs));
    const answer: Answer = { status: 0, headers: {}, body: Buffer.alloc(0) };
    let isSent = (): boolean => false;
    try {
      const { response } = await handler.handle(message as never, { abortSignal: late.signal });
      const { statusCode: status, headers } = response;
      Object.assign(answer, { status, headers });
      const incoming = response.body as IncomingMessage & { req: { writableFinished: boolean; destroy(): void } };
      isSent = () => incoming.req.writableFinished;
      answer.body = await readBody(incoming, status, status < 300 ? sink : undefined);
      if (!isSent()) incoming.req.destroy();
    } catch (error) {
      if (error instanceof SinkError || error instanceof RequestError) throw error;
      if (answer.status < 400 || isSent()) {
        // The retry must use a new connection, and a new address of the host. Idle connections have probably failed too.
        for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
        throw new RequestError(getConnectionFailure(error as NodeJS.ErrnoException, late.signal));
      }
    } finally {
      clearTimeout(timer);
    }
    this.answered = true;
    // S3 may send an error with status 200, because it keeps the connection alive while it copies or joins parts.
    const isError = /^\s*(<\?[^>]*>\s*)?<Error[\s>]/.test(answer.body.toString('latin1', 0, 500));
    if (answer.status >= 300 || isError) throw new RequestError(getFailure(answer));
    // S3 sends an ETag with each object, also with web pages.
    if (answer.headers['etag'] === undefined && answer.headers['content-type']?.startsWith('text/html') === true)
      throw new RequestError({ code: 'NotS3', status: answer.status, text: 'the answer is a web page' });
    return read(answer);
  }
}

function* getPieces(body: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < body.byteLength; at += PIECE_BYTES) yield body.subarray(at, at + PIECE_BYTES);
}

/** Not with `pipeline` or `for await`, which take a tenth of the processor time of a download, and a third of a small one. */
async function readBody(incoming: IncomingMessage, status: number, sink: Sink | undefined): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let taking: Promise<void> | undefined;
  // The server ignored the range.
  const isWhole = sink !== undefined && status !== 206 && sink.start + sink.count > 0;
  await new Promise<void>((resolve, reject) => {
    const fail = (error: Error): void => {
      reject(error);
      incoming.destroy();
    };
    incoming.on('data', (chunk: Buffer) => {
      if (sink === undefined) return void chunks.push(chunk);
      // A whole object could be very large.
      if (isWhole || sink.count + chunk.byteLength > sink.bytes)
        return fail(new RequestError({ code: 'RangeIgnored', status, text: 'the server sent more than the range' }));
      sink.count += chunk.byteLength;
      taking = sink.take(chunk);
      if (taking === undefined) return;
      incoming.pause();
      taking.then(() => incoming.resume(), fail);
    });
    incoming
      .on('end', resolve)
      .on('error', reject)
      .on('close', () => reject(new Error('aborted')));
  }).finally(() => taking?.catch((cause: unknown) => Promise.reject(new SinkError('', { cause }))));
  if (!incoming.complete) throw new Error('aborted');
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}

/** An ETag in quotes, as S3 writes it. Some servers omit the quotes in some of their answers. */
export const quoted = (etag = ''): string => (etag === '' || etag.endsWith('"') ? etag : `"${etag}"`);

/** The error in an answer. Answers of proxies and to HEAD have only a status. */
function getFailure({ status, headers, body }: Answer): FailureDetails {
  const xml = body.toString('utf8');
  const region = headers['x-amz-bucket-region'] ?? getText(xml, 'Region') ?? getRegion(getText(xml, 'Endpoint') ?? '');
  const date = Date.parse(headers['date'] ?? '');
  const clockOffsetMs = Number.isNaN(date) ? undefined : date - Date.now();
  const code = getText(xml, 'Code') ?? codeOfStatus(status);
  return { code, status, text: getText(xml, 'Message'), region, clockOffsetMs };
}

function getConnectionFailure(error: NodeJS.ErrnoException, { aborted }: AbortSignal): FailureDetails {
  if (aborted) return { code: 'ETIMEDOUT', text: 'the request took too long', cause: error };
  // Connecting to a host with several addresses fails with one error for each of them.
  const [inner] = error instanceof AggregateError ? (error.errors as NodeJS.ErrnoException[]) : [error];
  const { code = error.name, message } = inner ?? error;
  if (code === 'TimeoutError') return { code: 'ETIMEDOUT', text: 'no data was transferred for too long', cause: error };
  // TLS errors have several lines, and locations in OpenSSL's source.
  const [line = ''] = message.split('\n', 1);
  const text = line.replace(/:\.\.\/deps\/.*$/, '').replace(/[0-9A-F]+:error:[0-9A-F]+:[^:]*:[^:]*:/, '');
  const { hint } = error as { hint?: string };
  if (text === 'aborted') return { code: 'ECONNRESET', text: 'the answer was cut short', cause: error };
  return { code, text, hint, cause: error };
}
