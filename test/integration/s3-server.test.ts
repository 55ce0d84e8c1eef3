import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../scripts/lib/errors';
import { LOCAL_REGION, type S3Server } from '../../scripts/lib/local/s3-server';
import { PreconditionFailed, S3Store } from '../../scripts/lib/s3/store';
import { Scratch } from '../support/scratch';
import { testS3, testStore } from '../support/s3';

jest.setTimeout(60_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

const sha256 = (body: Buffer): string => createHash('sha256').update(body).digest('base64');
const one = Buffer.from('one');
const two = Buffer.from('two');

let server: S3Server;
beforeAll(async () => {
  server = await testS3(scratch);
});

test('the store and the S3 server that npm run local starts', async () => {
  const store = await testStore(scratch, server, 'store-test');
  await store.ensureBucket(); // A second time changes nothing.

  const etag = await store.putBytes('a/one', one, sha256(one), { ifAbsent: true });
  expect(await store.list('a/')).toEqual([{ key: 'a/one', bytes: 3, etag }]);
  expect(await store.get('a/one')).toEqual({ body: one, etag });
  expect(await store.get('a/two')).toBeUndefined();
  expect(await store.sha256('a/one')).toBe(sha256(one));
  expect(await store.sha256('a/two')).toBeUndefined();

  // Conditional writes.
  await expect(store.putBytes('a/one', two, sha256(two), { ifAbsent: true })).rejects.toBeInstanceOf(
    PreconditionFailed,
  );
  await expect(store.putBytes('a/one', two, sha256(two), { ifEtag: '"other"' })).rejects.toBeInstanceOf(
    PreconditionFailed,
  );
  await store.putBytes('a/one', two, sha256(two), { ifEtag: etag });
  expect((await store.get('a/one'))?.body).toEqual(two);

  // Bytes that are not those of the checksum: from memory, and from a file that changed after it was hashed.
  await expect(store.putBytes('a/bad', one, sha256(two))).rejects.toThrow(/BadDigest/);
  const file = join(scratch.directory, 'file');
  writeFileSync(file, one);
  await expect(store.putFile('a/bad', file, 3, sha256(two))).rejects.toThrow(/BadDigest/);
  expect(await store.get('a/bad')).toBeUndefined();
  await store.putFile('a/file', file, 3, sha256(one));
  expect((await store.get('a/file'))?.body).toEqual(one);

  await store.delete(['a/one', 'a/file']);
  expect(await store.list('a/')).toEqual([]);
});

test('what was acknowledged survives the end of the server', async () => {
  const bodies = Array.from({ length: 20 }, (_, i) => Buffer.alloc(300_000, i));
  const first = await testS3(scratch, 'durable');
  const store = await testStore(scratch, first, 'durable');
  await Promise.all(bodies.map((body, i) => store.putBytes(`o/${i}`, body, sha256(body))));
  await first.stop();

  const again = await testStore(scratch, await testS3(scratch, 'durable'), 'durable');
  expect((await again.list('o/')).length).toBe(bodies.length);
  for (const [i, body] of bodies.entries()) expect(await again.sha256(`o/${i}`)).toBe(sha256(body));
});

test.each([
  ['a bucket that is not there', { bucket: 'missing' }, /NoSuchBucket/, /create it with "pulumi up"/],
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
])('%s: the error says what and where, the hint what to do', async (_, wrong, message, hint) => {
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
  store.close();
});
