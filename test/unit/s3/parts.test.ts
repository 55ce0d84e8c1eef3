import { createHash } from 'node:crypto';
import { MemoryLimiter } from '../../../src/s3/memory-limiter';
import { checksumOfBytes, PART_BYTES, partBytesFor, splitIntoParts } from '../../../src/s3/checksum';
import { resolveEndpoint, encodeKey, encodeQuery } from '../../../src/s3/endpoint';
import { ConcurrencyLimiter } from '../../../src/s3/concurrency-limiter';

const MIB = 1024 ** 2;

describe('splitIntoParts', () => {
  test.each([
    [0, [0]],
    [1, [1]],
    [PART_BYTES, [PART_BYTES]],
    [PART_BYTES + 1, [PART_BYTES, 1]],
    [3 * PART_BYTES, [PART_BYTES, PART_BYTES, PART_BYTES]],
  ])('splits %d bytes', (bytes, sizes) => {
    const parts = splitIntoParts(bytes);
    expect(parts.map((part) => part.bytes)).toEqual(sizes);
    expect(parts.map(({ number }) => number)).toEqual(sizes.map((_, i) => i + 1));
    expect(parts.map(({ start }) => start)).toEqual(sizes.map((_, i) => i * PART_BYTES));
  });

  test('uses larger parts only for objects of more than 10,000 parts', () => {
    expect(partBytesFor(10_000 * PART_BYTES)).toBe(PART_BYTES);
    expect(partBytesFor(10_000 * PART_BYTES + 1)).toBe(PART_BYTES + MIB);
    for (const bytes of [1e11, 1e12, 5 * 1024 ** 4]) {
      const parts = splitIntoParts(bytes);
      expect(parts.length).toBeLessThanOrEqual(10_000);
      expect(parts.reduce((sum, part) => sum + part.bytes, 0)).toBe(bytes);
    }
  });

  test('checksumOfBytes computes the checksum of S3', () => {
    const digest = (data: Uint8Array): Buffer => createHash('sha256').update(data).digest();
    const body = Buffer.alloc(2 * PART_BYTES + 1, 'abc');
    const each = [0, 1, 2].map((i) => digest(body.subarray(i * PART_BYTES, (i + 1) * PART_BYTES)));
    expect(checksumOfBytes(body)).toBe(`${digest(Buffer.concat(each)).toString('base64')}-3`);
    expect(checksumOfBytes(body.subarray(0, 5))).toBe(digest(body.subarray(0, 5)).toString('base64'));
  });
});

test('Budget.acquire serves requests in order, and gives the whole budget to a larger request', async () => {
  const budget = new MemoryLimiter(10);
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

test('Slots halves its limit after an overload, and raises it after successes', () => {
  const slots = new ConcurrencyLimiter(8);
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

describe('resolveEndpoint', () => {
  test.each([
    { bucket: 'bucket', region: 'eu-west-1', url: 'https://bucket.s3.eu-west-1.amazonaws.com', bucketPath: '' },
    { bucket: 'with.dots', region: 'eu-west-1', url: 'https://s3.eu-west-1.amazonaws.com', bucketPath: '/with.dots' },
    { bucket: 'bucket', region: 'cn-north-1', url: 'https://bucket.s3.cn-north-1.amazonaws.com.cn', bucketPath: '' },
  ])('addresses $bucket in $region as $url$bucketPath', ({ bucket, region, ...expected }) => {
    expect(resolveEndpoint(bucket, region, undefined)).toMatchObject(expected);
  });

  test.each([
    { url: 'http://127.0.0.1:9000', bucketPath: '/bucket' },
    { url: 'https://host/base/', bucketPath: '/base/bucket' },
  ])('addresses a bucket of another S3 API, $url, in path style', (expected) => {
    expect(resolveEndpoint('bucket', 'r', expected.url)).toMatchObject(expected);
  });

  test('omits the default port from the Host header', () => {
    expect(resolveEndpoint('b', 'r', 'https://host:443')).toMatchObject({ host: 'host', port: 443, secure: true });
    expect(resolveEndpoint('b', 'r', 'http://[::1]:80')).toMatchObject({ host: '[::1]', hostname: '::1', port: 80 });
    expect(resolveEndpoint('b', 'r', 'http://host:81')).toMatchObject({ host: 'host:81', port: 81, secure: false });
  });

  test.each(['', 'host:9000', 'ftp://host', 'http://user:word@host', 'http://host/?a=b'])('rejects "%s"', (url) => {
    expect(() => resolveEndpoint('b', 'r', url)).toThrow(/is not the address of a server/);
  });

  test('encodeKey and encodeQuery percent-encode', () => {
    expect(encodeKey(`a b/+%'()*!~é`)).toBe('a%20b/%2B%25%27%28%29%2A%21~%C3%A9');
    expect(encodeQuery({ prefix: 'a/b c', delete: '', 'a-b': '&=' })).toBe('a-b=%26%3D&delete=&prefix=a%2Fb%20c');
  });
});
