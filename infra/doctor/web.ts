import { text } from 'node:stream/consumers';
import type { Readable } from 'node:stream';
import { HttpRequest } from '@smithy/core/protocols';
import type { NodeHttpHandler } from '@smithy/node-http-handler';
import { UserError } from '../../src/core/errors';
import { ProxyError } from '../../src/s3/agent';

export interface WebRequest {
  method?: 'GET' | 'HEAD';
  headers?: Record<string, string>;
}

export interface WebAnswer {
  status: number;
  /** With names in lower case. */
  headers: Record<string, string>;
  text: string;
}

/** Whether a host is this machine, to which a request needs no TLS. */
export const isLoopback = (hostname: string): boolean => /^(127(\.\d{1,3}){3}|localhost|\[::1\])$/.test(hostname);

/**
 * Sends a request without credentials of AWS. Follows no redirects.
 * @throws UserError if the server cannot be reached
 */
export async function askServer(
  handler: NodeHttpHandler,
  given: string,
  { method = 'GET', headers = {} }: WebRequest = {},
): Promise<WebAnswer> {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && isLoopback(url.hostname))) {
    throw new UserError(`${given} is not the address of a server with TLS`, {
      hint: 'use an address that begins https://',
    });
  }
  const { protocol, hostname, host, port, pathname, searchParams, origin } = url;
  const request = new HttpRequest({
    ...{ protocol, hostname, method, path: pathname, query: Object.fromEntries(searchParams) },
    ...(port === '' ? {} : { port: Number(port) }),
    headers: { host, ...headers },
  });
  try {
    const { response } = await handler.handle(request);
    return { status: response.statusCode, headers: response.headers, text: await text(response.body as Readable) };
  } catch (cause) {
    const { name, message, code = name } = cause as NodeJS.ErrnoException;
    throw new UserError(`${method} ${origin}${pathname}: ${code}: ${message}`, {
      hint: cause instanceof ProxyError ? cause.hint : 'check the network and HTTPS_PROXY, and run the doctor again',
      cause,
    });
  }
}
