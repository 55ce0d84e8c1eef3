import { randomBytes } from 'node:crypto';
import { connect, createServer, type Socket } from 'node:net';
import { UserError } from '../../src/core/errors';
import type { S3Store } from '../../src/s3/store';
import { Authority, startTlsFront } from '../support/authority';
import { listenOnLoopback } from '../support/loopback';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const authority = new Authority(scratch);
process.env['AWS_CA_BUNDLE'] = authority.caFile;

const BUCKET = 'damaged';
const CONTENT = randomBytes(1_000_000);
/** Bytes of a connection, in one direction, before the damage. The handshake has fewer, CONTENT has more. */
const INTACT_BYTES = 200_000;

let store: S3Store;
let plain: string;

beforeAll(async () => {
  plain = (await testS3(scratch)).endpoint;
  store = await openBucket(scratch, plain, BUCKET);
});

/** A store behind TLS, and a network that flips a byte of a TLS record on the first connections that carry so many. */
async function storeBehind(
  direction: 'up' | 'down',
  connections: number,
): Promise<{ store: S3Store; flips: () => number }> {
  const front = await startTlsFront(plain, authority);
  scratch.defer(() => front.stop());
  let flips = 0;
  const forward = (from: Socket, to: Socket, isDamaged: boolean): void => {
    let bytes = 0;
    from.on('data', (chunk: Buffer) => {
      const before = bytes;
      bytes += chunk.byteLength;
      if (isDamaged && flips < connections && before < INTACT_BYTES && bytes >= INTACT_BYTES) {
        flips += 1;
        const middle = chunk.byteLength >> 1;
        chunk[middle] = (chunk[middle] as number) ^ 1;
      }
      to.write(chunk);
    });
    from.on('error', () => undefined);
    from.on('close', () => to.destroy());
    from.on('end', () => to.end());
  };
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const behind = connect({ port: Number(new URL(front.endpoint).port), host: '127.0.0.1', allowHalfOpen: true });
    forward(client, behind, direction === 'up');
    forward(behind, client, direction === 'down');
  });
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  const endpoint = `https://127.0.0.1:${port}`;
  const through = await openBucket(scratch, endpoint, BUCKET, { create: false, attempts: 3 });
  return { store: through, flips: () => flips };
}

describe('a byte that changes in a TLS record', () => {
  test.each(['up', 'down'] as const)('makes the client send the request again: %s', async (direction) => {
    const { store: shaky, flips } = await storeBehind(direction, 1);
    const [writer, reader] = direction === 'up' ? [shaky, store] : [store, shaky];
    await writer.putBytes(direction, CONTENT, { ifAbsent: true });
    expect((await reader.get(direction))?.body.equals(CONTENT)).toBe(true);
    expect(flips()).toBe(1);
  });

  test.each(['up', 'down'] as const)('in each try (%s) ends with one error', async (direction) => {
    await store.putBytes('each-down', CONTENT);
    const { store: shaky, flips } = await storeBehind(direction, Infinity);
    const work = direction === 'up' ? shaky.putBytes('each-up', CONTENT) : shaky.get('each-down');
    const error: unknown = await work.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(UserError);
    expect((error as UserError).message).toMatch(/^cannot (read|write) s3:\/\/damaged\/each-\w+ at https:[^\n]*$/);
    expect((error as UserError).hint).toContain('check');
    expect(flips()).toBe(3);
    expect(await store.get('each-up')).toBeUndefined();
  });
});
