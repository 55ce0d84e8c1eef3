import { connect, createServer, type Socket } from 'node:net';
import { Authority, startTlsFront } from '../authority';
import { listenOnLoopback } from '../loopback';
import { startProxy } from '../proxy';
import { openBucket, testS3 } from '../s3';
import type { Scratch } from '../temp-dir';

/** What S3 answers if the policy of a KMS key does not let the caller decrypt. */
const KEY_DENIED =
  '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code><Message>User: arn:aws:sts::123456789012:assumed-role/triton is not authorized to perform: kms:Decrypt on the resource associated with this ciphertext</Message></Error>';

/** `away`: connections are closed; `key denied`: files of models cannot be decrypted. */
export type BucketFault = 'away' | 'key denied';

/** A real bucket behind HTTPS, with faults. */
export class FaultyBucket {
  /** Endpoint for publishers and agents, which trust `caFile`. */
  endpoint = '';
  private fault: BucketFault | undefined;
  private readonly connections = new Set<Socket>();

  private constructor(
    readonly name: string,
    readonly caFile: string,
  ) {}

  static async start(scratch: Scratch, name: string): Promise<FaultyBucket> {
    const authority = new Authority(scratch);
    const bucket = new FaultyBucket(name, authority.caFile);
    const { endpoint } = await testS3(scratch);
    await openBucket(scratch, endpoint, name);

    const proxy = await startProxy(endpoint, async (incoming, reply, passOn) => {
      if (bucket.fault === 'key denied' && isModelFile(incoming.method, incoming.url)) {
        reply.writeHead(403, { 'content-type': 'application/xml' }).end(KEY_DENIED);
        return;
      }
      const { status, headers, body } = await passOn(incoming);
      reply.writeHead(status, headers).end(body);
    });
    scratch.defer(proxy.stop);
    const front = await startTlsFront(proxy.endpoint, { loopback: authority.loopback });
    scratch.defer(() => front.stop());
    const https = Number(new URL(front.endpoint).port);
    const { port, stop } = await listenOnLoopback(createServer((client) => bucket.accept(client, https)));
    scratch.defer(stop);
    bucket.endpoint = `https://127.0.0.1:${port}`;
    return bucket;
  }

  /** Begins or ends a fault, also for connections that are open. */
  set(fault: BucketFault | undefined): void {
    this.fault = fault;
    for (const connection of this.connections) connection.destroy();
  }

  private accept(client: Socket, port: number): void {
    client.on('error', () => undefined);
    if (this.fault === 'away') {
      client.destroy();
      return;
    }
    const behind = connect(port, '127.0.0.1');
    this.connections.add(client);
    behind.on('error', () => undefined).on('close', () => client.destroy());
    client.on('close', () => {
      this.connections.delete(client);
      behind.destroy();
    });
    client.pipe(behind).pipe(client);
  }
}

/** Releases are under PREFIX.releases, models under PREFIX. */
const isModelFile = (method = '', url = ''): boolean => method === 'GET' && url.includes('/models/');
