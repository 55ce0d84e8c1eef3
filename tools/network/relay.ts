import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** Properties of the network between a client and a server. */
export interface Distance {
  /** Round-trip time, in ms; default 0. A new connection needs one round trip before its first byte, as in TCP. */
  roundTripMs?: number;
  /** Limit for each direction of each connection; default: none. */
  bytesPerSecond?: number;
}

export interface Relay {
  port: number;
  /** Changes the distance of new connections. */
  setDistance(distance: Distance): void;
  /** Connections so far. */
  connections(): number;
  stop(): Promise<void>;
}

/**
 * Starts a relay on 127.0.0.1 that forwards TCP connections, also those with TLS, to a port on 127.0.0.1 as if the
 * server were far away. Bytes from the client arrive a whole round trip later and bytes to the client without delay,
 * which a client cannot distinguish from half a round trip each way, and needs fewer timers.
 * @param onChunk called with all bytes that arrive
 */
export async function startRelay(
  targetPort: number,
  initial: Distance = {},
  onChunk: (chunk: Buffer, from: 'client' | 'server') => void = () => undefined,
): Promise<Relay> {
  let distance = initial;
  let connections = 0;
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    connections += 1;
    const behind = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    const { roundTripMs = 0, bytesPerSecond = Infinity } = distance;
    new Lane(client, behind, { delayMs: roundTripMs, firstDelayMs: 2 * roundTripMs, bytesPerSecond });
    new Lane(behind, client, { delayMs: 0, firstDelayMs: 0, bytesPerSecond });
    client.on('data', (chunk: Buffer) => onChunk(chunk, 'client'));
    behind.on('data', (chunk: Buffer) => onChunk(chunk, 'server'));
    for (const [socket, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      open.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => open.delete(socket));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    setDistance: (changed) => (distance = changed),
    connections: () => connections,
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

interface LaneOptions {
  delayMs: number;
  /** Time from the connection to the arrival of its first byte. */
  firstDelayMs: number;
  bytesPerSecond: number;
}

/** The source sends no more bytes, or neither sends nor receives any. The sink learns of it after the bytes in the queue. */
type End = 'end' | 'close';

/** Bytes that may be between client and server in addition to those that the delay and the rate need. */
const WINDOW_BYTES = 4 * 1024 * 1024;

/** One direction of a connection. */
class Lane {
  private readonly queue: { chunk: Buffer | End; dueAt: number }[] = [];
  private queuedBytes = 0;
  /** The time at which the sink has received all bytes of the queue. */
  private freeAt: number;
  private readonly windowBytes: number;
  private timer: NodeJS.Timeout | undefined;
  private blocked = false;

  constructor(
    private readonly source: Socket,
    private readonly sink: Socket,
    private readonly options: LaneOptions,
  ) {
    const { firstDelayMs, delayMs, bytesPerSecond } = options;
    this.freeAt = performance.now() + firstDelayMs;
    this.windowBytes = WINDOW_BYTES + (Number.isFinite(bytesPerSecond) ? (bytesPerSecond * delayMs) / 1000 : 0);
    source.on('data', (chunk: Buffer) => this.add(chunk, chunk.byteLength));
    source.on('end', () => this.add('end', 0));
    source.on('close', () => this.add('close', 0));
    sink.on('drain', () => {
      this.blocked = false;
      this.flush();
    });
    sink.on('close', () => clearTimeout(this.timer));
  }

  private add(chunk: Buffer | End, bytes: number): void {
    const { delayMs, bytesPerSecond } = this.options;
    this.freeAt = Math.max(performance.now() + delayMs, this.freeAt) + (1000 * bytes) / bytesPerSecond;
    this.queue.push({ chunk, dueAt: this.freeAt });
    this.queuedBytes += bytes;
    if (this.queuedBytes > this.windowBytes) this.source.pause();
    if (this.queue.length === 1) this.flush();
  }

  private flush(): void {
    clearTimeout(this.timer);
    for (let first = this.queue[0]; first !== undefined && !this.blocked; first = this.queue[0]) {
      const waitMs = first.dueAt - performance.now();
      if (waitMs > 0) {
        this.timer = setTimeout(() => this.flush(), Math.ceil(waitMs));
        return;
      }
      this.queue.shift();
      if (first.chunk === 'end') this.sink.end();
      if (first.chunk === 'close') this.sink.destroySoon();
      if (typeof first.chunk === 'string') continue;
      this.queuedBytes -= first.chunk.byteLength;
      this.blocked = !this.sink.write(first.chunk);
      if (this.queuedBytes <= this.windowBytes && this.source.isPaused()) this.source.resume();
    }
  }
}
