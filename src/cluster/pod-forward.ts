import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Writable, type Readable } from 'node:stream';

/** One connection to a port of a pod: the methods of a WebSocket that are used. */
export interface PodStream {
  close(): void;
  terminate(): void;
  ping(): void;
  pause(): void;
  resume(): void;
  on(event: 'close', listener: () => void): unknown;
}

/**
 * Opens a stream. `output` receives what the pod sends, `errors` receives the pod's errors, `input` is sent to the pod.
 */
export type OpenStream = (output: Writable, errors: Writable, input: Readable) => Promise<PodStream>;

/**
 * Load balancers in front of an API server close connections that are silent for minutes, for example while a large
 * model loads.
 */
const PING_MS = 30_000;

/** How long to wait for the other side to close the stream before the stream is terminated. */
const CLOSE_MS = 1000;

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

  /** @param name of the pod in messages */
  static async listen(name: string, open: OpenStream): Promise<PodForward> {
    const server = createServer({ noDelay: true });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', resolve);
    });
    return new PodForward(server, name, open);
  }

  /** Closes the listener and every connection. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.connections) socket.destroy();
    await closed;
  }

  private async forward(socket: Socket): Promise<void> {
    this.connections.add(socket);
    socket.once('close', () => this.connections.delete(socket));
    // Errors need no handling, because 'close' follows.
    socket.on('error', () => undefined);
    const link = new Link(socket, this.name);
    try {
      link.connect(await this.open(link.output, link.errors, socket));
    } catch (error) {
      link.fail((error as Error).message);
    }
  }
}

/** A local connection and its stream to the pod. */
class Link {
  private stream: PodStream | undefined;
  private answered = false;
  private paused = false;

  constructor(
    private readonly socket: Socket,
    private readonly name: string,
  ) {}

  readonly output = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      if (chunk.length > 0) this.pass(chunk);
      done();
    },
  });

  readonly errors = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      if (chunk.length > 0) this.fail(chunk.toString('utf8').trim());
      done();
    },
  });

  connect(stream: PodStream): void {
    this.stream = stream;
    if (this.socket.destroyed) return stream.terminate();
    const pings = setInterval(() => stream.ping(), PING_MS).unref();
    this.socket.once('close', () => this.closeStream());
    stream.on('close', () => {
      clearInterval(pings);
      this.fail('the connection was closed');
    });
  }

  /** Ends the connection. A client that waits for an answer receives the reason. */
  fail(reason: string): void {
    if (this.socket.writable) {
      if (!this.answered) this.socket.write(badGateway(`port-forward to ${this.name}: ${reason}\n`));
      this.socket.end();
      // With unread data the system would reset the connection, and the reason would be lost.
      this.socket.resume();
    }
    this.closeStream();
  }

  /** Passes data to the client. A slow client pauses the stream, so that data does not accumulate here. */
  private pass(chunk: Buffer): void {
    if (!this.socket.writable) return;
    this.answered = true;
    if (this.socket.write(chunk) || this.paused) return;
    this.paused = true;
    this.stream?.pause();
    this.socket.once('drain', () => {
      this.paused = false;
      this.stream?.resume();
    });
  }

  private closeStream(): void {
    const stream = this.stream;
    if (stream === undefined) return;
    stream.close();
    setTimeout(() => stream.terminate(), CLOSE_MS).unref();
  }
}

function badGateway(text: string): string {
  const head = ['HTTP/1.1 502 Bad Gateway', 'content-type: text/plain; charset=utf-8', 'connection: close'];
  return `${[...head, `content-length: ${Buffer.byteLength(text)}`].join('\r\n')}\r\n\r\n${text}`;
}
