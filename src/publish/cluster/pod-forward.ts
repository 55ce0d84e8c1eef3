import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Writable, type Readable } from 'node:stream';

/** One connection to a port of a pod: the methods of a WebSocket that are used. */
export interface PodStream {
  terminate(): void;
  ping(): void;
  on(event: 'close', listener: () => void): unknown;
}

/**
 * Opens a stream. `output` receives what the pod sends, `errors` receives the pod's errors, `input` is sent to the pod.
 */
export type OpenStream = (output: Writable, errors: Writable, input: Readable) => Promise<PodStream>;

/** Load balancers in front of an API server close silent connections, for example while a model computes an answer. */
const PING_MS = 30_000;

/**
 * A listener on loopback that connects to one pod. Each connection has its own stream. An error ends only its
 * connection; an HTTP request without any answer so far gets status 502 with the reason.
 */
export class PodForward {
  private readonly connections = new Set<Socket>();

  /** `http://127.0.0.1:PORT` */
  readonly url: string;

  private constructor(
    private readonly server: Server,
    private readonly name: string,
    private readonly open: OpenStream,
  ) {
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('connection', (socket) => void this.forward(socket));
  }

  static async listen(name: string, open: OpenStream): Promise<PodForward> {
    const server = createServer({ noDelay: true });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', resolve);
    });
    return new PodForward(server, name, open);
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.connections) socket.destroy();
    await closed;
  }

  private async forward(socket: Socket): Promise<void> {
    this.connections.add(socket);
    let hasAnswer = false;
    /** Ends the connection. A client that waits for an answer receives the reason. */
    const fail = (reason: string): void => {
      if (!socket.writable) return;
      if (!hasAnswer) socket.write(badGateway(`port-forward to ${this.name}: ${reason}\n`));
      socket.end();
      // With unread data the system would reset the connection, and the reason would be lost.
      socket.resume();
    };
    const output = toWritable((chunk) => {
      hasAnswer = true;
      if (socket.writable) socket.write(chunk);
    });
    const errors = toWritable((chunk) => fail(chunk.toString('utf8').trim()));
    // Errors need no handling, because 'close' follows.
    socket.on('error', () => undefined).once('close', () => this.connections.delete(socket));
    try {
      const stream = await this.open(output, errors, socket);
      if (socket.destroyed) {
        stream.terminate();
        return;
      }
      const pings = setInterval(() => stream.ping(), PING_MS).unref();
      socket.once('close', () => stream.terminate());
      stream.on('close', () => {
        clearInterval(pings);
        fail('the connection was closed');
      });
    } catch (error) {
      fail((error as Error).message);
    }
  }
}

const toWritable = (take: (chunk: Buffer) => void): Writable =>
  new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      if (chunk.length > 0) take(chunk);
      done();
    },
  });

function badGateway(text: string): string {
  const head = ['HTTP/1.1 502 Bad Gateway', 'content-type: text/plain; charset=utf-8', 'connection: close'];
  return `${[...head, `content-length: ${Buffer.byteLength(text)}`].join('\r\n')}\r\n\r\n${text}`;
}
