import { frame, MessageReader } from '../../../src/triton/grpc-frames';

const MESSAGES = ['first', '', 'the third one'].map((text) => Buffer.from(text));
const WIRE = Buffer.concat(MESSAGES.flatMap((message) => frame([message])));

function read(chunks: readonly Buffer[]): { messages: Buffer[]; reader: MessageReader } {
  const messages: Buffer[] = [];
  const reader = new MessageReader((message) => messages.push(message));
  for (const chunk of chunks) reader.push(chunk);
  return { messages, reader };
}

it('frame writes the length, then the parts', () => {
  expect(Buffer.concat(frame([Buffer.from('ab'), Buffer.from('c')])).toString('hex')).toBe('0000000003616263');
});

it.each(Array.from({ length: WIRE.length + 1 }, (_, at) => at))(
  'MessageReader reads messages that are split at byte %d',
  (at) => {
    const { messages, reader } = read([WIRE.subarray(0, at), WIRE.subarray(at)]);
    expect(messages.map(String)).toEqual(MESSAGES.map(String));
    expect(reader.isInside).toBe(false);
  },
);

it('MessageReader reads messages byte by byte', () => {
  const { messages } = read(Array.from(WIRE, (byte) => Buffer.of(byte)));
  expect(messages.map(String)).toEqual(MESSAGES.map(String));
});

it.each([1, 5, 7])('MessageReader.isInside is true after %d bytes of a message', (count) => {
  expect(read([WIRE.subarray(0, count)]).reader.isInside).toBe(true);
});

it('MessageReader aligns the end of a message, so that the elements of its last tensor need no copy', () => {
  const { messages } = read(frame([Buffer.alloc(13)]));
  const [bytes] = messages as [Buffer];
  expect((bytes.byteOffset + bytes.length) % 8).toBe(0);
});
