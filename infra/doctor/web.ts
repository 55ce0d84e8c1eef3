import http from 'node:http';
import https from 'node:https';
import { UserError } from '../../src/core/errors';
import { openAgent, ProxyError } from '../../src/s3/agent';
import { readSettings } from '../../src/s3/endpoint';

/** Time for one request, in ms. Shorter than the time for one check, which may need several. */
const TIMEOUT_MS = 5000;
const REDIRECTS = 3;
const CONNECTIONS = 4;
const IDLE_TIMEOUT_MS = 5000;
/** More than a token of a registry has. */
const MOST_BYTES = 1024 * 1024;

export interface WebAnswer {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
}

/** Servers on the internet that are no API of AWS. */
export interface Web {
  /**
   * Sends a request without credentials of AWS, and follows redirects.
   * @throws WebError
   */
  ask(url: string, options?: { method?: 'GET' | 'HEAD'; headers?: Record<string, string> }): Promise<WebAnswer>;
  /** Ends all connections. */
  close(): void;
}

/** A server could not be reached. */
export class WebError extends UserError {
  override readonly name = 'WebError';
}

/** Whether a host is this machine, to which a request needs no TLS. */
export const isLoopback = (hostname: string): boolean => /^(127(\.\d{1,3}){3}|localhost|\[::1\])$/.test(hostname);

/**
 * Opens connections with the proxy (HTTPS_PROXY) and the certificates (AWS_CA_BUNDLE) of the requests to AWS.
 * @throws UserError if one of these variables is wrong
 */
export async function openWeb(region: string): Promise<Web> {
  const { caFile } = await readSettings({ region }, process.env);
  const options = { connections: CONNECTIONS, idleTimeoutMs: IDLE_TIMEOUT_MS, caFile, env: process.env };
  const secure = openAgent({ ...options, secure: true });
  const plain = openAgent({ ...options, secure: false });
  return {
    ask: async (url, { method = 'GET', headers = {} } = {}) => {
      let target = parseUrl(url);
      let sent = headers;
      for (let redirects = 0; ; redirects += 1) {
        const answer = await send(target, target.protocol === 'https:' ? secure : plain, method, sent);
        const { location } = answer.headers;
        if (answer.status < 300 || answer.status >= 400 || location === undefined || redirects === REDIRECTS) {
          return answer;
        }
        const next = parseUrl(location, target);
        // A token is only for the server that asked for it.
        if (next.origin !== target.origin) sent = omit(sent, 'authorization');
        target = next;
      }
    },
    close: () => {
      secure.destroy();
      plain.destroy();
    },
  };
}

const omit = (headers: Record<string, string>, name: string): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([key]) => key !== name));

/** @param base of a relative address @throws WebError */
function parseUrl(text: string, base?: URL): URL {
  const url = URL.canParse(text, base?.href) ? new URL(text, base) : undefined;
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))) return url;
  throw new WebError(`${text} is not the address of a server with TLS`, {
    hint: 'use an address that begins https://',
  });
}

async function send(url: URL, agent: http.Agent, method: string, headers: Record<string, string>): Promise<WebAnswer> {
  const { request } = url.protocol === 'https:' ? https : http;
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await new Promise<WebAnswer>((resolve, reject) => {
      const sent = request(url, { method, headers, agent, signal: limit }, (response) => {
        const { statusCode: status = 0, headers: answered } = response;
        const chunks: Buffer[] = [];
        let bytes = 0;
        response.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes > MOST_BYTES) response.destroy(new Error(`the answer has more than ${MOST_BYTES} bytes`));
        });
        response.on('error', reject);
        response.on('end', () => resolve({ status, headers: answered, text: Buffer.concat(chunks).toString() }));
      });
      sent.on('error', reject);
      sent.end();
    });
  } catch (cause) {
    const { message, code } = cause as NodeJS.ErrnoException;
    const reason = limit.aborted ? `no answer within ${TIMEOUT_MS / 1000} s` : `${code ?? 'error'}: ${message}`;
    throw new WebError(`${method} ${url.origin}${url.pathname}: ${reason}`, {
      hint: cause instanceof ProxyError ? cause.hint : 'check the network and HTTPS_PROXY, and run the doctor again',
      cause,
    });
  }
}
