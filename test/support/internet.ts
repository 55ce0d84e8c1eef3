import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenOnLoopback } from './loopback';
import type { Scratch } from './temp-dir';

/** What the doctor asks on the internet, on 127.0.0.1. */
export interface Internet {
  /** `127.0.0.1:PORT`, also the host of a registry. */
  host: string;
  url: string;
}

/** The address that the server reports for every client. */
const OWN_ADDRESS = '203.0.113.7';

/** Digest of every image of the registry. */
export const IMAGE_DIGEST = `sha256:${'a'.repeat(64)}`;

/**
 * Starts a server that reports the address of its client, and is a registry with tokens: it has every tag of public/image,
 * no tag of public/empty, gives no token for private/image, denies its token for denied/image, and fails for broken/image.
 * open/image needs no token.
 * Stops when the scratch folder is cleaned.
 */
export async function startInternet(scratch: Scratch): Promise<Internet> {
  const server = await listenOnLoopback(createServer(answer));
  scratch.defer(() => server.stop());
  const host = `127.0.0.1:${server.port}`;
  return { host, url: `http://${host}` };
}

function answer({ url = '', method, headers }: IncomingMessage, response: ServerResponse): void {
  const { host = '' } = headers;
  const { pathname, searchParams } = new URL(url, `http://${host}`);
  if (pathname === '/address') return void response.end(`${OWN_ADDRESS}\n`);
  if (pathname === '/token') {
    const scope = searchParams.get('scope') ?? '';
    if (searchParams.get('service') !== 'images' || scope.startsWith('repository:private/')) {
      return void response.writeHead(401).end('{"details": "no account"}');
    }
    return void response.end(JSON.stringify({ token: scope }));
  }
  const [, name = ''] = /^\/v2\/(\w+\/\w+)\/manifests\/[\w.:-]+$/.exec(pathname) ?? [];
  if (name === '' || method !== 'HEAD') return void response.writeHead(404).end();
  const scope = `repository:${name}:pull`;
  if (name !== 'open/image' && headers.authorization !== `Bearer ${scope}`) {
    const challenge = `Bearer realm="http://${host}/token",service="images",scope="${scope}"`;
    return void response.writeHead(401, { 'www-authenticate': challenge }).end();
  }
  const status = { 'public/image': 200, 'open/image': 200, 'denied/image': 403, 'broken/image': 500 }[name] ?? 404;
  const isIndex = headers.accept?.includes('application/vnd.oci.image.index.v1+json') === true;
  response.writeHead(isIndex ? status : 404, status === 200 ? { 'docker-content-digest': IMAGE_DIGEST } : {}).end();
}
