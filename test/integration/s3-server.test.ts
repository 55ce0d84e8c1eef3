import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { UserError } from '../../src/core/errors';
import { LOCAL_REGION, type S3Server } from '../../src/local/s3-server';
import { checksumOfBytes, S3Store } from '../../src/s3/store';
import { Scratch } from '../support/temp-dir';
import { openBucket, testS3 } from '../support/s3';

const scratch = new Scratch();
afterAll(() => scratch.clean());

let server: S3Server;
beforeAll(async () => {
  server = await testS3(scratch);
});

test('acknowledged writes survive a kill of the S3 server', async () => {
  const bodies = Array.from({ length: 20 }, (_, i) => Buffer.alloc(300_000, i));
  const first = await testS3(scratch, 'durable');
  const store = await openBucket(scratch, first.endpoint, 'durable');
  await Promise.all(bodies.map((body, i) => store.putBytes(`o/${i}`, body)));
  await first.stop();

  const again = await openBucket(scratch, (await testS3(scratch, 'durable')).endpoint, 'durable');
  expect((await again.list('o/')).length).toBe(bodies.length);
  for (const [i, body] of bodies.entries()) {
    expect(await again.checksum(`o/${i}`, body.byteLength)).toBe(checksumOfBytes(body));
  }
});

test('the S3 server writes its output only to its log file', async () => {
  const printing = await testS3(scratch, 'printing');
  await openBucket(scratch, printing.endpoint, 'printing');
  await printing.stop();
  expect(readFileSync(printing.logFile, 'utf8')).toMatch(/Start Seaweed S3 API Server/);
  expect(readdirSync(tmpdir()).filter((name) => name.endsWith(`.${printing.pid}`))).toEqual([]);
});

test.each([
  ['a bucket that is not there', { bucket: 'missing' }, /NoSuchBucket/, /create the bucket \("pulumi up"/],
  [
    'a wrong key',
    { credentials: { accessKeyId: 'other', secretAccessKey: 'x' } },
    /InvalidAccessKeyId/,
    /AWS_ACCESS_KEY_ID/,
  ],
  [
    'a wrong secret',
    { credentials: { accessKeyId: 'local', secretAccessKey: 'x' } },
    /SignatureDoesNotMatch/,
    /AWS_SECRET_ACCESS_KEY/,
  ],
  ['nothing listening', { endpointUrl: 'http://127.0.0.1:9' }, /ECONNREFUSED/, /--endpoint-url/],
  ['an unknown host', { endpointUrl: 'http://host.invalid', attempts: 2 }, /ENOTFOUND|EAI_AGAIN/, /check/],
])('the S3 client reports operation and address, with a hint: %s', async (_, wrong, message, hint) => {
  const store = new S3Store({
    bucket: 'store-test',
    endpointUrl: server.endpoint,
    region: LOCAL_REGION,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local-only-no-secret' },
    ...wrong,
  });
  const error: unknown = await store.list('models/').catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(UserError);
  expect((error as UserError).message).toMatch(message);
  expect((error as UserError).message).toContain('list s3://');
  expect((error as UserError).hint).toMatch(hint);
  expect(`${(error as UserError).message}${(error as UserError).hint}`).not.toContain('local-only-no-secret');
  store.close();
});
