import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenOnLoopback } from './loopback';
import type { Scratch } from './temp-dir';

/** What the doctor asks on the internet, on 127.0.0.1. */
export interface Internet {
  /** `127.0.0.1:PORT` */
  host: string;
  url: string;
}

/** The address that the server reports for every client. */
export const OWN_ADDRESS = '203.0.113.7';

/** Starts a server that reports the address of a client. Stops when the scratch folder is cleaned. */
export async function startInternet(scratch: Scratch): Promise<Internet> {
  const server = await listenOnLoopback(createServer(answer));
  scratch.defer(() => server.stop());
  const host = `127.0.0.1:${server.port}`;
  return { host, url: `http://${host}` };
}

function answer({ url }: IncomingMessage, response: ServerResponse): void {
  if (url === '/address') response.end(`${OWN_ADDRESS}\n`);
  else response.writeHead(404).end();
}
