import { createHash } from 'node:crypto';
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BufferPool } from '../../../src/s3/buffer-pool';
import { checksumOfBytes, PART_BYTES, partBytesFor, splitIntoParts } from '../../../src/s3/checksum';
import { resolveEndpoint } from '../../../src/s3/endpoint';
import { FileChangedError } from '../../../src/s3/errors';
import { checksumOfFile, withFile } from '../../../src/s3/source';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const MIB = 1024 ** 2;

describe('splitIntoParts', () => {
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

test.each([
  { bytes: 4, rejected: false },
  { bytes: 5, rejected: true },
  { bytes: 3, rejected: true },
])('checksumOfFile of a file of $bytes bytes that had 4 bytes is rejected: $rejected', async ({ bytes, rejected }) => {
  const path = join(scratch.directory, 'file');
  writeFileSync(path, Buffer.alloc(bytes));
  const outcome = await checksumOfFile(path, 4).catch((error: unknown) => (error as Error).name);
  expect(outcome).toBe(rejected ? 'FileChangedError' : checksumOfBytes(Buffer.alloc(4)));
});

test('withFile rejects a file that is written to while it is read', async () => {
  const path = join(scratch.directory, 'growing');
  writeFileSync(path, Buffer.alloc(4));
  const reading = withFile(path, 4, async (read) => {
    await read(0, Buffer.alloc(2));
    appendFileSync(path, 'x');
    await read(2, Buffer.alloc(2));
  });
  await expect(reading).rejects.toBeInstanceOf(FileChangedError);
});

test('BufferPool.lend lends 8 large buffers at a time, and small ones at once', async () => {
  const pool = new BufferPool();
  const order: number[] = [];
  const end: (() => void)[] = [];
  const take = (bytes: number): Promise<void> =>
    pool.lend(bytes, async (buffer) => {
      order.push(buffer.byteLength);
      await new Promise<void>((resolve) => end.push(resolve));
    });
  const all = [...Array.from({ length: 8 }, () => MIB), 2 * PART_BYTES, 1].map(take);
  await new Promise(setImmediate);
  expect(order).toEqual([...Array.from({ length: 8 }, () => MIB), 1]);
  end.shift()?.();
  await new Promise(setImmediate);
  expect(order.at(-1)).toBe(2 * PART_BYTES);
  for (const step of end) step();
  await Promise.all(all);
});

describe('endpoints', () => {
  const aws = { endpointUrl: undefined, fips: false, dualStack: false };

  test.each<[Partial<Parameters<typeof resolveEndpoint>[1]>, string]>([
    [{ region: 'eu-west-1' }, 'bucket.s3.eu-west-1.amazonaws.com'],
    [{ region: 'us-gov-west-1' }, 'bucket.s3.us-gov-west-1.amazonaws.com'],
    [{ region: 'cn-north-1' }, 'bucket.s3.cn-north-1.amazonaws.com.cn'],
    [{ region: 'eusc-de-east-1' }, 'bucket.s3.eusc-de-east-1.amazonaws.eu'],
    [{ region: 'us-iso-east-1' }, 'bucket.s3.us-iso-east-1.c2s.ic.gov'],
    [{ region: 'us-isob-east-1' }, 'bucket.s3.us-isob-east-1.sc2s.sgov.gov'],
    [{ region: 'eu-isoe-west-1' }, 'bucket.s3.eu-isoe-west-1.cloud.adc-e.uk'],
    [{ region: 'us-isof-south-1' }, 'bucket.s3.us-isof-south-1.csp.hci.ic.gov'],
    [{ region: 'us-east-1', fips: true }, 'bucket.s3-fips.us-east-1.amazonaws.com'],
    [{ region: 'eu-west-1', dualStack: true }, 'bucket.s3.dualstack.eu-west-1.amazonaws.com'],
    [{ region: 'us-gov-west-1', fips: true, dualStack: true }, 'bucket.s3-fips.dualstack.us-gov-west-1.amazonaws.com'],
  ])('resolveEndpoint names the host for %j', async (settings, host) => {
    const expected = { url: `https://${host}`, server: new URL(`https://${host}`), bucketPath: '' };
    expect(await resolveEndpoint('bucket', { region: '', ...aws, ...settings })).toEqual(expected);
  });

  test('resolveEndpoint addresses a bucket with dots in path style', async () => {
    const expected = { url: 'https://s3.eu-west-1.amazonaws.com', bucketPath: '/with.dots' };
    expect(await resolveEndpoint('with.dots', { ...aws, region: 'eu-west-1' })).toMatchObject(expected);
  });

  test('resolveEndpoint rejects a region that cannot be part of a host name', async () => {
    await expect(resolveEndpoint('b', { ...aws, region: 'eu_west 1' })).rejects.toThrow(
      '"eu_west 1" is not the name of a region',
    );
  });

  const custom = (endpointUrl: string, fips = false): ReturnType<typeof resolveEndpoint> =>
    resolveEndpoint('bucket', { ...aws, region: '', endpointUrl, fips });

  test('resolveEndpoint rejects an endpoint of AWS without FIPS if FIPS is required', async () => {
    const message = /AWS_USE_FIPS_ENDPOINT is true, and the S3 endpoint .* is no FIPS endpoint/;
    await expect(custom('https://s3.us-east-1.amazonaws.com', true)).rejects.toThrow(message);
    for (const url of ['https://s3-fips.us-east-1.amazonaws.com', 'http://127.0.0.1:1'])
      expect((await custom(url, true)).url).toBe(url);
  });

  test.each([
    ['http://127.0.0.1:9000', '/bucket'],
    ['https://host/base/', '/base/bucket'],
    ['http://[::1]:80', '/bucket'],
  ])('resolveEndpoint addresses a bucket of %s in path style', async (url, bucketPath) => {
    expect(await custom(url)).toEqual({ url, server: new URL(url), bucketPath });
  });

  test.each(['', 'host:9000', 'ftp://host', 'http://user:word@host', 'http://host/?a=b'])(
    'resolveEndpoint rejects "%s"',
    async (url) => {
      const { message } = (await custom(url).catch((error: unknown) => error as Error)) as Error;
      expect(message).toMatch(/is not the address of a server/);
      expect(message).not.toMatch(/word/);
    },
  );
});
