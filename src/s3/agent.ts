import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { Duplex } from 'node:stream';
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls';
import { HttpsProxyAgent } from 'hpagent';
import { UserError } from '../core/errors';
import { nonEmpty } from './endpoint';

export interface AgentOptions {
  secure: boolean;
  connections: number;
  idleTimeoutMs: number;
  /** File of certificate authorities, in addition to those that Node trusts. */
  caFile: string | undefined;
  env: NodeJS.ProcessEnv;
}

/** Time for a connection to open, including its TLS handshake, in ms. A slow uplink is shared with uploads. */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Time for one address of a host before the next one is tried, in ms. Node's 250 ms are less than the round-trip time to
 * a far region, which has several addresses.
 */
const ADDRESS_TIMEOUT_MS = 1000;

/** A failure of the proxy, not of the server behind it. `code` is that of the operating system, or begins with Proxy. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  constructor(
    readonly code: string,
    message: string,
    /** Next step for the user. */
    readonly hint: string,
  ) {
    super(message);
  }
}

type Callback = (error: Error | null, socket?: Duplex) => void;
type Connect = (target: Target, callback: Callback) => Duplex | undefined;

interface Target {
  host: string;
  port: number;
  timeout?: number;
}

/**
 * Opens an agent that keeps connections open between requests, and uses the proxy in HTTPS_PROXY for https. Node's own
 * support of proxies needs Node 24.
 * @throws UserError if a variable or file that the agent needs is wrong
 */
export function openAgent({ secure, connections, idleTimeoutMs, caFile, env }: AgentOptions): http.Agent {
  const trust: https.AgentOptions = caFile === undefined || !secure ? {} : { secureContext: trustAlso(caFile, env) };
  const options = {
    ...{ keepAlive: true, maxSockets: connections, maxFreeSockets: connections, timeout: idleTimeoutMs },
    autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
    ...trust,
  };
  const agent = new (secure ? https : http).Agent(options);
  const open = agent.createConnection.bind(agent) as Connect;
  const connect: Connect = (target, callback) => {
    const socket = open(target, callback) as Duplex;
    // A firewall may drop the packets.
    const late = Object.assign(new Error(`${target.host}:${target.port} does not answer`), { code: 'ETIMEDOUT' });
    const timer = setTimeout(() => socket.destroy(late), CONNECT_TIMEOUT_MS);
    for (const event of ['close', secure ? 'secureConnect' : 'connect']) socket.once(event, () => clearTimeout(timer));
    return socket;
  };
  const proxy = secure ? readProxy(env) : undefined;
  if (proxy === undefined) return Object.assign(agent, { createConnection: connect });
  const tunnels = new HttpsProxyAgent({ ...options, proxy: proxy.url, proxyRequestOptions: trust as object });
  const openTunnel = tunnels.createConnection.bind(tunnels) as Connect;
  const createConnection: Connect = (target, callback) =>
    isExcluded(target, env)
      ? connect(target, callback)
      : openTunnel({ ...target, timeout: CONNECT_TIMEOUT_MS }, (error, socket) =>
          callback(error && explain(error, proxy, target), socket),
        );
  return Object.assign(agent, { createConnection });
}

/** Node's certificate authorities, and those of `caFile`. */
function trustAlso(caFile: string, env: NodeJS.ProcessEnv): SecureContext {
  // A given list replaces Node's, including the additions of NODE_EXTRA_CA_CERTS.
  const extra = nonEmpty(env['NODE_EXTRA_CA_CERTS']);
  try {
    const given = readFileSync(caFile, 'utf8');
    if (!given.includes('-----BEGIN CERTIFICATE-----')) throw new Error('it has no certificate');
    return createSecureContext({
      ca: [...rootCertificates, ...(extra === undefined ? [] : [readFileSync(extra, 'utf8')]), given],
    });
  } catch (cause) {
    throw new UserError(`cannot read the certificates in ${caFile}: ${(cause as Error).message}`, {
      hint: 'set AWS_CA_BUNDLE (or ca_bundle of the profile) to a file of certificates in PEM format',
      cause,
    });
  }
}

interface ProxySetting {
  url: URL;
  /** The variable that set it. */
  variable: string;
}

/** @throws UserError that names the variable. The value is not shown, because it may contain a password. */
export function readProxy(env: NodeJS.ProcessEnv): ProxySetting | undefined {
  const variable = ['https_proxy', 'HTTPS_PROXY'].find((name) => nonEmpty(env[name]) !== undefined);
  if (variable === undefined) return undefined;
  const text = env[variable] as string;
  try {
    const url = new URL(text.includes('://') ? text : `http://${text}`);
    decodeURIComponent(url.username + url.password);
    if (/^https?:$/.test(url.protocol) && url.pathname.length <= 1 && url.search + url.hash === '')
      return { url, variable };
  } catch {
    // It is wrong in the same way.
  }
  throw new UserError(
    `${variable} (not shown, because it may contain a password) is not the address of an HTTP proxy`,
    {
      hint: `write ${variable}=http://USER:PASSWORD@HOST:PORT with special characters percent-encoded: # as %23, % as %25, @ as %40`,
    },
  );
}

/** Whether NO_PROXY excludes the host from the use of the proxy. */
export function isExcluded({ host, port }: Target, env: NodeJS.ProcessEnv): boolean {
  const exceptions = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').split(/[\s,]+/).filter((entry) => entry !== '');
  return exceptions.some((entry) => {
    const [, name = '', only = port] = /^(?:\*?\.)?(.*?)(?::(\d+))?$/.exec(entry) ?? [];
    return Number(only) === port && (entry === '*' || host === name || host.endsWith(`.${name}`));
  });
}

/** What the failure of a tunnel means. */
function explain(
  { code = 'ETIMEDOUT', message }: NodeJS.ErrnoException,
  { url, variable }: ProxySetting,
  { host, port }: Target,
): ProxyError {
  const [, status] = /^Bad response: (\d+)/.exec(message) ?? [];
  const proxy = `the proxy ${url.host} (${variable})`;
  if (status === undefined) {
    const hint = `check ${variable} and the network, or add the host to NO_PROXY if it can be reached directly`;
    return new ProxyError(code, `${proxy} cannot open a connection to ${host}:${port}: ${message}`, hint);
  }
  const [reason, hint] =
    status === '407'
      ? ['ProxyAuthenticationRequired', `correct ${variable}: http://USER:PASSWORD@HOST:PORT, percent-encoded`]
      : Number(status) >= 500
        ? ['ProxyUnavailable', 'the proxy failed or cannot reach the host: try again later']
        : ['ProxyRefused', `ask the administrator of the proxy to allow ${host}, or add it to NO_PROXY`];
  return new ProxyError(reason, `${proxy} answered ${status} to CONNECT ${host}:${port}`, hint);
}
