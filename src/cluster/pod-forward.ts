import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Writable, type Readable } from 'node:stream';

/** One connection to a port of a pod: the part of a WebSocket that is used. */
export interface PodStream {
  close(): void;
  terminate(): void;
  ping(): void;
  pause(): void;
  resume(): void;
  on(event: 'close', listener: () => void): unknown;
}

/** Opens a stream; `output` gets what the pod sends, `errors` what went wrong on its side, `input` is sent to it. */
export type OpenStream = (output: Writable, errors: Writable, input: Readable) => Promise<PodStream>;

/** Load balancers in front of an API server cut what is silent for minutes; loading a large model is. */
const PING_MS = 30_000;

/** How long the other side is given to take leave. */
const CLOSE_MS = 1000;

/**
 * A listener on loopback whose connections lead to one pod, each through a stream of its own. What fails ends that
 * connection; an HTTP request that nothing was answered to yet gets status 502 with the reason.
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

  /** @param name what the pod is called in messages */
  static async listen(name: string, open: OpenStream): Promise<PodForward> {
    const server = createServer({ noDelay: true });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', resolve);
    });
    return new PodForward(server, name, open);
  }

  /** Ends the listener and every connection. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.connections) socket.destroy();
    await closed;
  }

  private async forward(socket: Socket): Promise<void> {
    this.connections.add(socket);
    socket.once('close', () => this.connections.delete(socket));
    // Its end is all that matters, and 'close' follows.
    socket.on('error', () => undefined);
    const link = new Link(socket, this.name);
    try {
      link.connect(await this.open(link.output, link.errors, socket));
    } catch (error) {
      link.fail((error as Error).message);
    }
  }
}

/** A local connection and the stream it is joined with. */
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

  /** Ends the connection; whoever waits for an answer is told why. */
  fail(reason: string): void {
    if (this.socket.writable) {
      if (!this.answered) this.socket.write(badGateway(`port-forward to ${this.name}: ${reason}\n`));
      this.socket.end();
      // What nobody reads any more would make the system reset the connection, and the reason be lost.
      this.socket.resume();
    }
    this.closeStream();
  }

  /** A slow reader stops the stream, so that nothing piles up here. */
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
