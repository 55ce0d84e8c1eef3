import { text } from 'node:stream/consumers';
import type { Readable } from 'node:stream';
import { HttpRequest } from '@smithy/core/protocols';
import type { NodeHttpHandler } from '@smithy/node-http-handler';
import { UserError } from '../../src/core/errors';
import { ProxyError } from '../../src/s3/agent';

/**
 * Sends a GET request without credentials of AWS. Follows no redirects.
 * @throws UserError if the server cannot be reached
 */
export async function askServer(handler: NodeHttpHandler, url: string): Promise<{ status: number; text: string }> {
  if (!URL.canParse(url)) throw new UserError(`${url} is not the address of a server`);
  const { protocol, hostname, host, port, pathname } = new URL(url);
  const request = new HttpRequest({
    ...{ protocol, hostname, path: pathname, headers: { host } },
    ...(port === '' ? {} : { port: Number(port) }),
  });
  try {
    const { response } = await handler.handle(request);
    return { status: response.statusCode, text: await text(response.body as Readable) };
  } catch (cause) {
    const { name, message, code = name } = cause as NodeJS.ErrnoException;
    throw new UserError(`GET ${url}: ${code}: ${message}`, {
      hint: cause instanceof ProxyError ? cause.hint : 'check the network and HTTPS_PROXY, and run the doctor again',
      cause,
    });
  }
}
