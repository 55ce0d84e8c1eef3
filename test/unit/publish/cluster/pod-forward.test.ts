import { EventEmitter, once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { PodForward, type OpenStream, type PodStream } from '../../../../src/publish/cluster/pod-forward';

/** The other end of a forward, played by the test. */
class FakeStream extends EventEmitter implements PodStream {
  closed = false;
  constructor(
    readonly output: Writable,
    readonly errors: Writable,
    readonly input: Readable,
  ) {
    super();
  }
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.emit('close');
  }
  terminate(): void {
    this.close();
  }
  ping(): void {
    // No test counts pings.
  }
}

let forward: PodForward;
let streams: FakeStream[];
afterEach(() => forward.close());

const listen = async (open?: OpenStream): Promise<void> => {
  streams = [];
  forward = await PodForward.listen(
    'pod triton-0',
    open ??
      ((output, errors, input) => {
        const stream = new FakeStream(output, errors, input);
        streams.push(stream);
        return Promise.resolve(stream);
      }),
  );
};

const dial = async (): Promise<Socket> => {
  const socket = connect(Number(new URL(forward.url).port), '127.0.0.1');
  await once(socket, 'connect');
  return socket;
};

/** The stream of the connection that was made last. */
const accepted = async (count = 1): Promise<FakeStream> => {
  while (streams.length < count) await new Promise((resolve) => setImmediate(resolve));
  return streams[count - 1] as FakeStream;
};

const getText = async (socket: Socket): Promise<string> => {
  let text = '';
  for await (const chunk of socket.setEncoding('utf8')) text += String(chunk);
  return text;
};

test('PodForward answers 502 if the stream ends before an answer', async () => {
  await listen();
  const socket = await dial();
  socket.write('GET / HTTP/1.1\r\n\r\n');
  (await accepted()).close();
  expect(await getText(socket)).toBe(
    'HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: 56\r\n\r\n' +
      'port-forward to pod triton-0: the connection was closed\n',
  );
});

test('PodForward adds nothing to an answer that is cut off', async () => {
  await listen();
  const socket = await dial();
  const stream = await accepted();
  stream.output.write(Buffer.from('HTTP/1.1 200 OK\r\n'));
  stream.errors.write(Buffer.from('broken pipe'));
  expect(await getText(socket)).toBe('HTTP/1.1 200 OK\r\n');
});

test('PodForward answers 502 if a stream cannot be opened, and tries again for the next connection', async () => {
  let tries = 0;
  await listen(() => Promise.reject(new Error(`no way ${(tries += 1)}`)));
  expect(await getText(await dial())).toMatch(/no way 1\n$/);
  expect(await getText(await dial())).toMatch(/no way 2\n$/);
});

test('PodForward closes a stream that opens after its connection ended', async () => {
  let give: (stream: FakeStream) => void = () => undefined;
  let asked: () => void;
  const wasAsked = new Promise<void>((resolve) => (asked = resolve));
  let stream: FakeStream | undefined;
  await listen((output, errors, input) => {
    stream = new FakeStream(output, errors, input);
    asked();
    return new Promise((resolve) => (give = resolve));
  });
  const socket = await dial();
  await wasAsked;
  const late = stream as unknown as FakeStream;
  const gone = new Promise((resolve) => late.input.once('close', resolve));
  // Without a reader on the other side, only a reset shows there.
  socket.on('error', () => undefined).resetAndDestroy();
  await gone;
  give(late);
  await once(late, 'close');
  expect(late.closed).toBe(true);
});
