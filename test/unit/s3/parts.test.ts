import { createHash } from 'node:crypto';
import { Budget } from '../../../src/s3/budget';
import { checksumOfBytes, PART_BYTES, partBytesFor, partsOf } from '../../../src/s3/checksum';
import { endpointOf, encodeKey, encodeQuery } from '../../../src/s3/endpoint';
import { Slots } from '../../../src/s3/slots';

const MIB = 1024 ** 2;

describe('parts', () => {
  test.each([
    [0, [0]],
    [1, [1]],
    [PART_BYTES, [PART_BYTES]],
    [PART_BYTES + 1, [PART_BYTES, 1]],
    [3 * PART_BYTES, [PART_BYTES, PART_BYTES, PART_BYTES]],
  ])('of %d bytes', (bytes, sizes) => {
    const parts = partsOf(bytes);
    expect(parts.map((part) => part.bytes)).toEqual(sizes);
    expect(parts.map(({ number }) => number)).toEqual(sizes.map((_, i) => i + 1));
    expect(parts.map(({ start }) => start)).toEqual(sizes.map((_, i) => i * PART_BYTES));
  });

  test('grow only where 10,000 would not do', () => {
    expect(partBytesFor(10_000 * PART_BYTES)).toBe(PART_BYTES);
    expect(partBytesFor(10_000 * PART_BYTES + 1)).toBe(PART_BYTES + MIB);
    for (const bytes of [1e11, 1e12, 5 * 1024 ** 4]) {
      const parts = partsOf(bytes);
      expect(parts.length).toBeLessThanOrEqual(10_000);
      expect(parts.reduce((sum, part) => sum + part.bytes, 0)).toBe(bytes);
    }
  });

  test('the checksum is that of S3', () => {
    const digest = (data: Uint8Array): Buffer => createHash('sha256').update(data).digest();
    const body = Buffer.alloc(2 * PART_BYTES + 1, 'abc');
    const each = [0, 1, 2].map((i) => digest(body.subarray(i * PART_BYTES, (i + 1) * PART_BYTES)));
    expect(checksumOfBytes(body)).toBe(`${digest(Buffer.concat(each)).toString('base64')}-3`);
    expect(checksumOfBytes(body.subarray(0, 5))).toBe(digest(body.subarray(0, 5)).toString('base64'));
  });
});

test('the budget lends in the order of asking, and the whole of it to who asks for more', async () => {
  const budget = new Budget(10);
  const order: string[] = [];
  const take = async (name: string, bytes: number): Promise<void> => {
    await budget.acquire(bytes);
    order.push(name);
  };
  await take('a', 6);
  const waiting = [take('huge', 100), take('b', 1)];
  await Promise.resolve();
  expect(order).toEqual(['a']);
  budget.release(6);
  await waiting[0];
  expect(order).toEqual(['a', 'huge']);
  budget.release(100);
  await waiting[1];
  expect(order).toEqual(['a', 'huge', 'b']);
});

test('slots: fewer after an overload, more again with success', () => {
  const slots = new Slots(8);
  let running = 0;
  const ask = (): void => {
    const turn = slots.acquire();
    if (turn === undefined) running += 1;
    else void turn.then(() => (running += 1));
  };
  for (let i = 0; i < 20; i += 1) ask();
  expect(running).toBe(8);
  slots.slowDown();
  slots.slowDown(); // The same overload: it counts once.
  for (let i = 0; i < 8; i += 1) slots.release();
  return Promise.resolve().then(async () => {
    expect(running).toBe(12);
    for (let i = 0; i < 4 + 5 + 6 + 7; i += 1) slots.succeeded();
    await Promise.resolve();
    expect(running).toBe(16);
  });
});

describe('addresses', () => {
  test.each([
    ['bucket', 'eu-west-1', undefined, 'https://bucket.s3.eu-west-1.amazonaws.com', ''],
    ['with.dots', 'eu-west-1', undefined, 'https://s3.eu-west-1.amazonaws.com', '/with.dots'],
    ['bucket', 'cn-north-1', undefined, 'https://bucket.s3.cn-north-1.amazonaws.com.cn', ''],
    ['bucket', 'r', 'http://127.0.0.1:9000', 'http://127.0.0.1:9000', '/bucket'],
    ['bucket', 'r', 'https://host/base/', 'https://host/base/', '/base/bucket'],
  ])('of %s in %s at %s', (bucket, region, endpointUrl, url, bucketPath) => {
    expect(endpointOf(bucket, region, endpointUrl)).toMatchObject({ url, bucketPath });
  });

  test('the Host header leaves out the usual port', () => {
    expect(endpointOf('b', 'r', 'https://host:443')).toMatchObject({ host: 'host', port: 443, secure: true });
    expect(endpointOf('b', 'r', 'http://[::1]:80')).toMatchObject({ host: '[::1]', hostname: '::1', port: 80 });
    expect(endpointOf('b', 'r', 'http://host:81')).toMatchObject({ host: 'host:81', port: 81, secure: false });
  });

  test.each(['', 'host:9000', 'ftp://host', 'http://user:word@host', 'http://host/?a=b'])('"%s" is refused', (url) => {
    expect(() => endpointOf('b', 'r', url)).toThrow(/is not the address of a server/);
  });

  test('keys and queries are percent-encoded', () => {
    expect(encodeKey(`a b/+%'()*!~é`)).toBe('a%20b/%2B%25%27%28%29%2A%21~%C3%A9');
    expect(encodeQuery({ prefix: 'a/b c', delete: '', 'a-b': '&=' })).toBe('a-b=%26%3D&delete=&prefix=a%2Fb%20c');
  });
});
