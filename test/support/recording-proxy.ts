import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { startProxy, type PassOn, type Proxy } from './proxy';

export interface RecordedRequest {
  /** Counts from 1. */
  number: number;
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** Body of a POST, which deletes objects or completes an upload. Other bodies may be large and are not stored. */
  body: string;
  /** Status of the answer; undefined before the answer. */
  status: number | undefined;
}

export interface RecordingProxyOptions {
  /** Awaited before a request is forwarded. False closes the connection instead. */
  onRequest?: (request: RecordedRequest) => unknown;
  /** Awaited after the server has answered and before the client gets the answer. */
  onAnswer?: (request: RecordedRequest) => unknown;
}

export interface RecordingProxy extends Proxy {
  /** All requests so far. */
  requests: RecordedRequest[];
  /** Replaces the options; those of startRecordingProxy that are not given here still apply. */
  set(options: RecordingProxyOptions): void;
}

/** Starts a proxy that records requests and forwards them unchanged, so that a test can follow the client. */
export async function startRecordingProxy(target: string, always: RecordingProxyOptions = {}): Promise<RecordingProxy> {
  let options = always;
  const requests: RecordedRequest[] = [];

  const handle = async (incoming: IncomingMessage, reply: ServerResponse, passOn: PassOn): Promise<void> => {
    const { method = '', url: path = '', headers: sent } = incoming;
    const number = requests.length + 1;
    const request: RecordedRequest = { number, method, path, headers: sent, body: '', status: undefined };
    requests.push(request);
    if ((await options.onRequest?.(request)) === false) return void incoming.socket.destroy();
    const keep = (chunk: Buffer): unknown => (request.body += chunk.toString('latin1'));
    const { status, headers, body } = await passOn(incoming, method === 'POST' ? keep : undefined);
    request.status = status;
    await options.onAnswer?.(request);
    reply.writeHead(status, headers).end(body);
  };

  const proxy = await startProxy(target, handle);
  return { ...proxy, requests, set: (changed) => (options = { ...always, ...changed }) };
}
