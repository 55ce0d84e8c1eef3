import http from 'node:http';
import type https from 'node:https';
import type { Duplex } from 'node:stream';
import type { Endpoint } from './endpoint';

export interface AgentOptions {
  connections: number;
  idleTimeoutMs: number;
}

interface AgentSettings {
  keepAlive: boolean;
  maxSockets: number;
  maxFreeSockets: number;
  timeout: number;
}

/**
 * Opens an agent that keeps connections open between requests. Uses node:http instead of undici: in a measurement with
 * 10,000 small PUTs, node:http took the same time, 40 MB less memory and 70 ms less to load. Loads TLS only for https.
 */
export async function openAgent(endpoint: Endpoint, { connections, idleTimeoutMs }: AgentOptions): Promise<http.Agent> {
  const options = { keepAlive: true, maxSockets: connections, maxFreeSockets: connections, timeout: idleTimeoutMs };
  if (!endpoint.secure) return new http.Agent(options);
  const proxy = proxyFor(endpoint.hostname, endpoint.port, process.env);
  const { Agent } = await import('node:https');
  return proxy === undefined ? new Agent(options) : tunnelAgent(Agent, options, proxy);
}

/** The proxy in HTTPS_PROXY, unless NO_PROXY excludes this host. */
export function proxyFor(hostname: string, port: number, env: NodeJS.ProcessEnv): URL | undefined {
  const proxy = env['https_proxy'] ?? env['HTTPS_PROXY'] ?? '';
  if (proxy === '') return undefined;
  const exceptions = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').split(/[\s,]+/).filter((entry) => entry !== '');
  const left = exceptions.some((entry) => {
    const [, name = '', only] = /^(?:\*?\.)?(.*?)(?::(\d+))?$/.exec(entry) ?? [];
    if (only !== undefined && Number(only) !== port) return false;
    return entry === '*' || hostname === name || hostname.endsWith(`.${name}`);
  });
  return left ? undefined : new URL(proxy.includes('://') ? proxy : `http://${proxy}`);
}

type Callback = (error: Error | null, socket?: unknown) => void;

/** An agent whose connections are tunnelled through a proxy with CONNECT. */
function tunnelAgent(Agent: typeof https.Agent, options: AgentSettings, proxy: URL): http.Agent {
  const agent = new Agent(options);
  const connect = agent.createConnection.bind(agent) as (target: object) => Duplex;
  // If nothing is returned, Node's agents take the connection from the callback.
  const createConnection = (target: { host: string; port: number }, callback: Callback): undefined => {
    openTunnel(proxy, `${target.host}:${target.port}`, options.timeout, (error, socket) => {
      if (error === null) callback(null, connect({ ...target, socket }));
      else callback(error);
    });
  };
  return Object.assign(agent, { createConnection });
}

function openTunnel(proxy: URL, address: string, timeout: number, callback: Callback): void {
  const login = decodeURIComponent(`${proxy.username}:${proxy.password}`);
  const authorization = { 'proxy-authorization': `Basic ${Buffer.from(login).toString('base64')}` };
  const request = http.request({
    host: proxy.hostname,
    port: proxy.port === '' ? 80 : Number(proxy.port),
    method: 'CONNECT',
    path: address,
    agent: false,
    timeout,
    headers: { host: address, ...(login === ':' ? {} : authorization) },
  });
  request.on('timeout', () => request.destroy(new Error(`the proxy ${proxy.host} does not answer`)));
  request.on('error', (error) => callback(error));
  request.on('connect', (answer, socket) => {
    if (answer.statusCode === 200) return callback(null, socket);
    socket.destroy();
    callback(new Error(`the proxy ${proxy.host} answered ${answer.statusCode} to CONNECT ${address}`));
  });
  request.end();
}
