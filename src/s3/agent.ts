import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls';
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

interface Target {
  host: string;
  port: number;
}

/**
 * Opens an agent that keeps connections open between requests, and uses the proxy in HTTPS_PROXY for https. Node's own
 * support of proxies needs Node 24.
 * @throws UserError if a variable or file that the agent needs is wrong
 */
export function openAgent({ secure, connections, idleTimeoutMs, caFile, env }: AgentOptions): http.Agent {
  const secureContext = caFile === undefined || !secure ? undefined : trustAlso(caFile, env);
  const agent = new (secure ? https : http).Agent({
    ...{ keepAlive: true, maxSockets: connections, maxFreeSockets: connections, timeout: idleTimeoutMs },
    autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
    ...(secureContext && { secureContext }),
  });
  if (secure) readProxy(env);
  const open = agent.createConnection.bind(agent) as (target: object, callback?: Callback) => Duplex;
  const connect = (target: Target & { socket?: Duplex }, callback?: Callback): Duplex => {
    const socket = open(target, callback);
    // A firewall may drop the packets.
    const late = Object.assign(new Error(`${target.host}:${target.port} does not answer`), { code: 'ETIMEDOUT' });
    const timer = setTimeout(() => socket.destroy(late), CONNECT_TIMEOUT_MS);
    for (const event of ['close', secure ? 'secureConnect' : 'connect']) socket.once(event, () => clearTimeout(timer));
    return socket;
  };
  // If nothing is returned, Node's agents take the connection from the callback.
  const createConnection = (target: Target, callback: Callback): Duplex | undefined => {
    const proxy = secure ? proxyFor(target.host, target.port, env) : undefined;
    if (proxy === undefined) return connect(target, callback);
    openTunnel(proxy, target, secureContext, (error, socket) =>
      callback(error, socket && connect({ ...target, socket })),
    );
    return undefined;
  };
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
  /** User and password, decoded. */
  login: string;
}

/** @throws UserError that names the variable. The value is not shown, because it may contain a password. */
function readProxy(env: NodeJS.ProcessEnv): ProxySetting | undefined {
  const variable = ['https_proxy', 'HTTPS_PROXY'].find((name) => nonEmpty(env[name]) !== undefined);
  if (variable === undefined) return undefined;
  const text = env[variable] as string;
  try {
    const url = new URL(text.includes('://') ? text : `http://${text}`);
    if (!['http:', 'https:'].includes(url.protocol)) {
      throw new UserError(`${variable} has the scheme ${url.protocol.slice(0, -1)}; allowed: http, https`, {
        hint: 'use the HTTP address of the proxy',
      });
    }
    const login = decodeURIComponent(`${url.username}:${url.password}`);
    if (url.pathname.length > 1 || url.search + url.hash !== '') throw new Error();
    return { url, variable, login };
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`${variable} (not shown, because it may contain a password) is not the address of a proxy`, {
      hint: `write ${variable}=http://USER:PASSWORD@HOST:PORT with special characters percent-encoded: # as %23, % as %25, @ as %40`,
    });
  }
}

/**
 * The proxy in HTTPS_PROXY, unless NO_PROXY excludes this host.
 * @throws UserError
 */
export function proxyFor(hostname: string, port: number, env: NodeJS.ProcessEnv): ProxySetting | undefined {
  const exceptions = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').split(/[\s,]+/).filter((entry) => entry !== '');
  const isExcluded = exceptions.some((entry) => {
    const [, name = '', only] = /^(?:\*?\.)?(.*?)(?::(\d+))?$/.exec(entry) ?? [];
    if (only !== undefined && Number(only) !== port) return false;
    return entry === '*' || hostname === name || hostname.endsWith(`.${name}`);
  });
  return isExcluded ? undefined : readProxy(env);
}

/** Opens a connection to `target` through a proxy. */
function openTunnel(
  { url, variable, login }: ProxySetting,
  target: Target,
  secureContext: SecureContext | undefined,
  callback: Callback,
): void {
  const address = `${isIP(target.host) === 6 ? `[${target.host}]` : target.host}:${target.port}`;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const authorization = { 'proxy-authorization': `Basic ${Buffer.from(login).toString('base64')}` };
  const secure = url.protocol === 'https:';
  const request = (secure ? https : http).request({
    ...{ host, port: url.port || (secure ? 443 : 80), method: 'CONNECT', path: address, agent: false },
    // Otherwise Node verifies the certificate of the proxy for the name in the Host header.
    servername: isIP(host) === 0 ? host : '',
    headers: { host: address, ...(login === ':' ? {} : authorization) },
    ...(secureContext && { secureContext }),
  });
  const fail = (code: string, message: string, hint: string): void => {
    clearTimeout(timer);
    callback(new ProxyError(code, `the proxy ${url.host} (${variable}) ${message}`, hint));
    request.destroy();
  };
  const check = `check ${variable} and the network, or add the host to NO_PROXY if it can be reached directly`;
  const timer = setTimeout(() => fail('ETIMEDOUT', `does not answer to CONNECT ${address}`, check), CONNECT_TIMEOUT_MS);
  request.once('error', ({ code = 'ECONNRESET', message }: NodeJS.ErrnoException) =>
    fail(code, `cannot be used: ${message}`, check),
  );
  request.once('connect', ({ statusCode: status = 0 }, socket) => {
    clearTimeout(timer);
    if (status === 200) return callback(null, socket);
    const [code, hint] =
      status === 407
        ? ['ProxyAuthenticationRequired', `correct ${variable}: http://USER:PASSWORD@HOST:PORT, percent-encoded`]
        : status >= 500
          ? ['ProxyUnavailable', 'the proxy failed or cannot reach the host: try again later']
          : ['ProxyRefused', `ask the administrator of the proxy to allow ${target.host}, or add it to NO_PROXY`];
    return fail(code, `answered ${status} to CONNECT ${address}`, hint);
  });
  request.end();
}
