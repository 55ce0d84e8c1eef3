import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { AgentState, TrialRenewal, TrialRequest } from '../release/agent-api';
import { count, object, optional, text, type Read } from '../release/format';
import { RELEASE_ID, SHA256_HEX } from '../release/head';
import type { Agent } from './agent';
import { formatMetrics, METRICS_TYPE } from './metrics';
import { RequestRefusedError } from './trial-desk';

const LARGEST_BODY = 64 * 1024;

/** An open server. */
export interface Listener {
  port: number;
  close(): Promise<void>;
}

/**
 * The API for publishers, on loopback of the pod: they reach it through a port-forward.
 * A request that a web page could send is refused: one with an Origin, another Host, or without a JSON body.
 */
export async function startControlApi(agent: Agent, port: number): Promise<Listener> {
  const server = createServer((request, response) => {
    answer(agent, request).then(
      ([status, body]) => send(response, status, body),
      (error: unknown) => {
        const { status, details } = error instanceof RequestRefusedError ? error : { status: 500, details: {} };
        send(response, status, { error: (error as Error).message, ...details });
      },
    );
  });
  return listen(server, port, '127.0.0.1');
}

/** State and metrics for everyone who reaches the pod. Nothing can be changed here. */
export async function startReadOnlyApi(agent: Agent, port: number, host: string): Promise<Listener> {
  const server = createServer(({ method, url }, response) => {
    if (method !== 'GET') return send(response, 405, { error: 'only GET' });
    if (url === '/state') return send(response, 200, agent.getState());
    if (url === '/metrics') {
      const metrics = formatMetrics(agent.getState(), agent.getCounts());
      return void response.writeHead(200, { 'content-type': METRICS_TYPE }).end(metrics);
    }
    return send(response, 404, { error: 'not found; there are /state and /metrics' });
  });
  return listen(server, port, host);
}

/** @returns the status and the body of the answer */
async function answer(agent: Agent, request: IncomingMessage): Promise<[number, AgentState]> {
  requireNoBrowser(request);
  const { method = '', url = '' } = request;
  if (method === 'GET' && url === '/v1/state') return [200, agent.getState()];
  if (method === 'GET' && url === '/v1/statistics') return [200, await agent.getStatistics()];
  if (method === 'POST' && url === '/v1/trials') {
    await agent.beginTrial(await readJson(request, readTrialRequest));
    return [202, agent.getState()];
  }
  const [, id] = /^\/v1\/trials\/([\w-]+)$/.exec(url) ?? [];
  if (id === undefined || (method !== 'PUT' && method !== 'DELETE')) {
    throw new RequestRefusedError(404, `${method} ${url} does not exist`);
  }
  if (method === 'PUT') agent.renewTrial(id, await readJson(request, readRenewal));
  else agent.endTrial(id, (await readJson(request, object(secret))).secret);
  return [200, agent.getState()];
}

function requireNoBrowser({ headers }: IncomingMessage): void {
  if (headers.origin !== undefined) throw new RequestRefusedError(403, 'requests of web pages are refused');
  const name = (headers.host ?? '').replace(/:\d+$/, '');
  if (!['127.0.0.1', 'localhost', '[::1]'].includes(name)) {
    throw new RequestRefusedError(403, `Host is ${headers.host ?? 'missing'}; allowed: 127.0.0.1, localhost`);
  }
}

async function readJson<T>(request: IncomingMessage, read: Read<T>): Promise<T> {
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? '')) {
    throw new RequestRefusedError(415, 'Content-Type must be application/json');
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > LARGEST_BODY) throw new RequestRefusedError(413, `the body is larger than ${LARGEST_BODY} bytes`);
    chunks.push(chunk);
  }
  try {
    return read(JSON.parse(Buffer.concat(chunks).toString('utf8')), '');
  } catch (error) {
    throw new RequestRefusedError(400, (error as Error).message);
  }
}

const secret = { secret: text(/./) };
const isTrue = (value: unknown): boolean => value === true;
const readRenewal = object<TrialRenewal>({
  ...secret,
  ttlSeconds: count(1),
  committed: isTrue,
  note: optional(text()),
});
const readTrialRequest = object<TrialRequest>({
  ...secret,
  id: text(/^[\w-]{8,64}$/),
  release: text(RELEASE_ID),
  manifestSha256: text(SHA256_HEX),
  base: count(),
  ttlSeconds: count(1),
  by: text(/./),
  stateTag: text(/./),
  ask: (value) => value !== false,
  outside: isTrue,
  alone: isTrue,
});

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
}

async function listen(server: Server, port: number, host: string): Promise<Listener> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
