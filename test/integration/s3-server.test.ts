import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { LOCAL_REGION, type S3Server } from '../../src/local/s3-server';
import { checksumOfBytes, FileChangedError, PreconditionFailedError, S3Store } from '../../src/s3/store';
import { Scratch } from '../support/temp-dir';
import { openBucket, testS3 } from '../support/s3';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const one = Buffer.from('one');
const two = Buffer.from('two');

let server: S3Server;
beforeAll(async () => {
  server = await testS3(scratch);
});

test('the S3 client works with the S3 server of npm run local', async () => {
  const store = await openBucket(scratch, server.endpoint, 'store-test');
  await store.ensureBucket(); // A second call changes nothing.

  const { etag } = await store.putBytes('a/one', one, { ifAbsent: true });
  expect(await store.list('a/')).toMatchObject([{ key: 'a/one', bytes: 3, etag }]);
  expect(await store.get('a/one')).toMatchObject({ body: one, etag });
  expect(await store.get('a/two')).toBeUndefined();
  expect(await store.checksum('a/one', 3)).toBe(checksumOfBytes(one));
  expect(await store.checksum('a/two', 3)).toBeUndefined();

  // Conditional writes.
  await expect(store.putBytes('a/one', two, { ifAbsent: true })).rejects.toBeInstanceOf(PreconditionFailedError);
  await expect(store.putBytes('a/one', two, { ifEtag: '"other"' })).rejects.toBeInstanceOf(PreconditionFailedError);
  await store.putBytes('a/one', two, { ifEtag: etag });
  expect((await store.get('a/one'))?.body).toEqual(two);

  // A file that changed after its checksum was computed.
  const file = { path: join(scratch.directory, 'file'), bytes: 3 };
  writeFileSync(file.path, one);
  const changed = store.putFile('a/bad', file, { checksum: checksumOfBytes(two) });
  await expect(changed).rejects.toBeInstanceOf(FileChangedError);
  expect(await store.get('a/bad')).toBeUndefined();
  await store.putFile('a/file', file, { checksum: checksumOfBytes(one) });
  expect((await store.get('a/file'))?.body).toEqual(one);

  await store.delete([{ key: 'a/one' }, { key: 'a/file' }]);
  expect(await store.list('a/')).toEqual([]);
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
