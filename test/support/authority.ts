import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext, createServer, type SecureContext } from 'node:tls';
import { createCertificate } from '../../src/local/certificate';
import { joinPort, listenOnLoopback } from './loopback';
import type { SeededRandom } from './soak';
import type { Scratch } from './temp-dir';

const NAME = 'Test Authority';

/** A certificate authority, as companies have their own. */
export class Authority {
  /** Certificate of the authority, for NODE_EXTRA_CA_CERTS or AWS_CA_BUNDLE. */
  readonly caFile: string;
  /** Key and certificate for 127.0.0.1. */
  readonly loopback: { key: string; cert: string };
  private readonly key: string;
  private readonly contexts = new Map<string, SecureContext>();

  constructor(scratch: Scratch) {
    const { key, certificate } = createCertificate({ name: NAME, isAuthority: true });
    this.key = key;
    this.caFile = join(scratch.directory, 'authority.pem');
    writeFileSync(this.caFile, certificate);
    this.loopback = this.issue(['localhost']);
  }

  /** Key and certificate for a host name, as servers select them by the name in the handshake. */
  contextFor(host: string): SecureContext {
    const context = this.contexts.get(host) ?? createSecureContext(this.issue([host]));
    this.contexts.set(host, context);
    return context;
  }

  /**
   * Writes a certificate for 127.0.0.1 and these hosts, its key and the authority's certificate into a folder, under the
   * names of files in a Secret of Kubernetes.
   * @returns the folder
   */
  write(directory: string, hosts: string[] = []): string {
    mkdirSync(directory, { recursive: true });
    const { key, cert } = this.issue(hosts);
    writeFileSync(join(directory, 'tls.crt'), cert);
    writeFileSync(join(directory, 'tls.key'), key, { mode: 0o600 });
    copyFileSync(this.caFile, join(directory, 'ca.crt'));
    return directory;
  }

  private issue(hosts: string[]): { key: string; cert: string } {
    const issuer = { name: NAME, key: this.key };
    const addresses = [[127, 0, 0, 1]];
    const { key, certificate } = createCertificate({ name: 'server', hosts, addresses, issuer });
    return { key, cert: certificate };
  }
}

export interface Front {
  endpoint: string;
  stop(): Promise<void>;
}

/** The target itself, or, as with AWS, a server that adds TLS to it; each half of the time. */
export async function startFront(random: SeededRandom, target: string, authority: Authority): Promise<Front> {
  if (random.chance(0.5)) return startTlsFront(target, authority);
  return { endpoint: target, stop: () => Promise.resolve() };
}

/** Starts a server on 127.0.0.1 that adds TLS to an HTTP server there. If that resets a connection, so does this one. */
export async function startTlsFront(target: string, { loopback }: Pick<Authority, 'loopback'>): Promise<Front> {
  const port = Number(new URL(target).port);
  const server = createServer(loopback, (client) => joinPort(client, port));
  server.on('tlsClientError', () => undefined);
  const { port: ownPort, stop } = await listenOnLoopback(server);
  return { endpoint: `https://127.0.0.1:${ownPort}`, stop };
}
