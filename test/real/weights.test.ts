import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { fetchFile } from '../../src/local/trace/fetch-weights';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
const CONTENT = randomBytes(20 * 1024 * 1024 + 7);
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const SHA = sha256(CONTENT);

const before = { ...process.env };
let server: Server;
let address: string;
/** Number of errors that the server returns before a file. */
let failures = 0;

beforeAll(async () => {
  server = createServer((request, response) => {
    const path = request.url ?? '';
    if (failures > 0) {
      failures -= 1;
      response.writeHead(503).end();
    } else if (path.endsWith('/private.bin')) response.writeHead(401).end();
    else if (path.endsWith('/cut.bin')) {
      response.writeHead(200, { 'content-length': CONTENT.byteLength });
      response.write(CONTENT.subarray(0, 1000), () => response.destroy());
    } else if (path.endsWith('/w.bin')) response.end(CONTENT);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const s3 = await testS3(scratch);
  const store = await openBucket(scratch, s3.endpoint, 'weights');
  await store.putBytes('a/w.bin', CONTENT);
  await store.putBytes('empty.bin', Buffer.alloc(0));
  Object.assign(process.env, S3_ENVIRONMENT, {
    AWS_ENDPOINT_URL_S3: s3.endpoint,
    XDG_CACHE_HOME: join(scratch.directory, 'cache'),
  });
});
afterAll(async () => {
  process.env = before;
  server.close();
  await scratch.clean();
});

let count = 0;
/** A new model folder. */
function folder(): string {
  const path = join(scratch.directory, `model-${(count += 1)}`);
  mkdirSync(path);
  return path;
}

const ignore = (): void => undefined;
/** Downloads into the model folder `at`. */
const fetchArtifact = (at: string, url: string, sha256 = SHA): ReturnType<typeof fetchFile> =>
  fetchFile({ url, sha256, file: '1/model.pt' }, { folder: at, onBytes: ignore });

async function getError(work: Promise<unknown>): Promise<[message: string, hint: string | undefined]> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof UserError)) throw new Error(`no UserError: ${String(error)}`);
  return [error.message, error.hint];
}

test.each([
  ['S3', () => 's3://weights/a/w.bin'],
  ['HTTP', () => `${address}/files/w.bin`],
])('weights from %s are downloaded once, into a cache addressed by content', async (_, url) => {
  const options = { folder: folder(), onBytes: ignore };
  const download = { url: url(), sha256: SHA };
  const path = join(scratch.directory, 'cache', 'triton-serving', 'weights', SHA, 'w.bin');
  expect(await fetchFile(download, options)).toEqual({ path, isDownloaded: true });
  expect(sha256(readFileSync(path))).toBe(SHA);
  expect(await fetchFile(download, options)).toEqual({ path, isDownloaded: false });
  // A damaged file is replaced.
  writeFileSync(path, 'damaged');
  expect(await fetchFile(download, options)).toEqual({ path, isDownloaded: true });
  expect(sha256(readFileSync(path))).toBe(SHA);
  expect(readdirSync(join(path, '..'))).toEqual(['w.bin']);
  writeFileSync(path, 'for the next source');
});

test('a file is downloaded into the model folder once', async () => {
  const at = folder();
  const path = join(at, '1', 'model.pt');
  expect(await fetchArtifact(at, 's3://weights/a/w.bin')).toEqual({ path, isDownloaded: true });
  expect(sha256(readFileSync(path))).toBe(SHA);
  expect(await fetchArtifact(at, 's3://weights/a/w.bin')).toEqual({ path, isDownloaded: false });
  expect(readdirSync(join(at, '1'))).toEqual(['model.pt']);
});

test('an empty object becomes an empty file', async () => {
  const { path } = await fetchArtifact(folder(), 's3://weights/empty.bin', sha256(Buffer.alloc(0)));
  expect(readFileSync(path)).toHaveLength(0);
});

test('downloads are retried if the server is busy', async () => {
  failures = 1;
  expect(await fetchArtifact(folder(), `${address}/w.bin`)).toMatchObject({ isDownloaded: true });
});

const OTHER = 'd'.repeat(64);
test.each<[what: string, url: () => string, hash: string, message: RegExp, hint: RegExp]>([
  [
    'another content',
    () => 's3://weights/a/w.bin',
    OTHER,
    new RegExp(`has SHA-256 ${SHA}; .*requires ${OTHER}`),
    /^to accept the new content, write its SHA-256 into weights\.yaml/,
  ],
  [
    'no such object',
    () => 's3://weights/none',
    SHA,
    /^cannot read s3:\/\/weights\/none: the object does not exist/,
    /check the bucket and the key/,
  ],
  ['no such bucket', () => 's3://no-such-bucket/none', SHA, /s3:\/\/no-such-bucket\/none/, /./],
  ['no such file', () => `${address}/none`, SHA, /answered 404/, /check the address/],
  ['a private file', () => `${address}/private.bin`, SHA, /answered 401/, /copy files that need a password to S3/],
  ['a broken download', () => `${address}/cut.bin`, SHA, /cut\.bin was interrupted/, /run the command again/],
  [
    'no server',
    () => 'http://127.0.0.1:1/w.bin',
    SHA,
    /^cannot reach http:\/\/127\.0\.0\.1:1\/w\.bin: /,
    /check the address/,
  ],
])('weights report an error with the next step and leave no files: %s', async (_, url, hash, message, hint) => {
  const at = folder();
  const [said, next] = await getError(fetchArtifact(at, url(), hash));
  expect(said).toMatch(message);
  expect(next).toMatch(hint);
  expect(readdirSync(at)).toEqual([]);
});

test('another file in its place is reported and not deleted', async () => {
  const at = folder();
  mkdirSync(join(at, '1'));
  writeFileSync(join(at, '1', 'model.pt'), 'mine');
  const [said, next] = await getError(fetchArtifact(at, 's3://weights/a/w.bin'));
  expect(said).toMatch(
    new RegExp(`model\\.pt has SHA-256 ${sha256(Buffer.from('mine'))}; .*weights\\.yaml requires ${SHA}`),
  );
  expect(next).toMatch(/^delete it to download it again/);
  expect(readFileSync(join(at, '1', 'model.pt'), 'utf8')).toBe('mine');
});
