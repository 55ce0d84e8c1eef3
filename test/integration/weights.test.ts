import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { UserError } from '../../src/core/errors';
import { fetchFiles, fetchWeights } from '../../src/trace/weights/fetch';
import { parseSource } from '../../src/model/weights-source';
import type { Pinned } from '../../src/model/weights-file';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
const CONTENT = randomBytes(20 * 1024 * 1024 + 7);
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const SHA = sha256(CONTENT);
const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${SHA}\nsize 5\n`;

const before = { ...process.env };
let hub: Server;
let address: string;
const requests: { path: string; authorization: string | undefined }[] = [];
/** Number of errors that the server returns before a file. */
let failures = 0;

beforeAll(async () => {
  hub = createServer((request, response) => {
    const path = request.url ?? '';
    requests.push({ path, authorization: request.headers.authorization });
    if (failures > 0) {
      failures -= 1;
      response.writeHead(503).end();
    } else if (path.endsWith('/gated.bin')) response.writeHead(401).end();
    else if (path.endsWith('/cut.bin')) {
      response.writeHead(200, { 'content-length': CONTENT.byteLength });
      response.write(CONTENT.subarray(0, 1000), () => response.destroy());
    } else if (path.endsWith('/w.bin')) response.end(CONTENT);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => hub.listen(0, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${(hub.address() as AddressInfo).port}`;
  const s3 = await testS3(scratch);
  const store = await openBucket(scratch, s3.endpoint, 'weights');
  await store.putBytes('a/w.bin', CONTENT);
  await store.putBytes('empty.bin', Buffer.alloc(0));
  Object.assign(process.env, S3_ENVIRONMENT, {
    AWS_ENDPOINT_URL_S3: s3.endpoint,
    HF_ENDPOINT: `${address}/hub`,
    HF_TOKEN: 'a-token',
    XDG_CACHE_HOME: join(scratch.directory, 'cache'),
  });
});
afterAll(async () => {
  process.env = before;
  hub.close();
  await scratch.clean();
});

let count = 0;
/** A new model folder. */
function folder(): string {
  const path = join(scratch.directory, `model-${(count += 1)}`);
  mkdirSync(path);
  return path;
}

const pinned = (text: string, hash: string | undefined = SHA): Pinned => {
  const source = parseSource(text);
  if (source === undefined) throw new Error(text);
  return { source, sha256: hash };
};
const fetchFile = async (at: string, one: Pinned): Promise<number> =>
  fetchFiles({ files: new Map([['1/model.pt', one]]) }, { folder: at, onBytes: () => undefined });

async function getError(work: Promise<unknown>): Promise<[message: string, hint: string | undefined]> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof UserError)) throw new Error(`no UserError: ${String(error)}`);
  return [error.message, error.hint];
}

test.each([
  ['s3://weights/a/w.bin', () => 's3://weights/a/w.bin'],
  ['http', () => `${address}/files/w.bin`],
  ['hf', () => 'hf://owner/name@v1/sub dir/w.bin'],
])('weights from %s are downloaded once, into a cache addressed by content', async (_, source) => {
  const at = folder();
  const seen: number[] = [];
  const options = { folder: at, onBytes: (_name: string, bytes: number) => seen.push(bytes) };
  const file = await fetchWeights(pinned(source()), options);
  expect(file).toBe(join(scratch.directory, 'cache', 'triton-serving', 'weights', SHA, 'w.bin'));
  expect(sha256(readFileSync(file))).toBe(SHA);
  const before = seen.length;
  expect(await fetchWeights(pinned(source()), options)).toBe(file);
  expect(seen).toHaveLength(before);
  // Each source writes the file, and replaces a damaged one.
  writeFileSync(file, 'damaged');
  await fetchWeights(pinned(source()), options);
  expect(sha256(readFileSync(file))).toBe(SHA);
  expect(readdirSync(join(file, '..'))).toEqual(['w.bin']);
  writeFileSync(file, 'for the next source');
});

test('only Hugging Face gets the revision and the token', async () => {
  requests.length = 0;
  await fetchFile(folder(), pinned('hf://owner/name@v1/sub dir/w.bin'));
  await fetchFile(folder(), pinned(`${address}/files/w.bin`));
  expect(requests).toEqual([
    { path: '/hub/owner/name/resolve/v1/sub%20dir/w.bin', authorization: 'Bearer a-token' },
    { path: '/files/w.bin', authorization: undefined },
  ]);
});

test('a whole repository of Hugging Face is passed to its library by commit', async () => {
  const commit = 'c'.repeat(40);
  const one = { ...pinned(`hf://owner/name@${commit}`), sha256: undefined };
  expect(await fetchWeights(one, { folder: folder(), onBytes: () => undefined })).toBe(`owner/name@${commit}`);
});

test('a file is downloaded into the model folder once', async () => {
  const at = folder();
  expect(await fetchFile(at, pinned('s3://weights/a/w.bin'))).toBe(1);
  expect(sha256(readFileSync(join(at, '1', 'model.pt')))).toBe(SHA);
  expect(await fetchFile(at, pinned('s3://weights/a/w.bin'))).toBe(0);
  expect(readdirSync(join(at, '1'))).toEqual(['model.pt']);
});

test('an empty object becomes an empty file', async () => {
  const at = folder();
  await fetchFile(at, pinned('s3://weights/empty.bin', sha256(Buffer.alloc(0))));
  expect(readFileSync(join(at, '1', 'model.pt'))).toHaveLength(0);
});

test('downloads are retried if the server is busy', async () => {
  failures = 1;
  expect(await fetchFile(folder(), pinned(`${address}/w.bin`))).toBe(1);
});

const OTHER = 'd'.repeat(64);
test.each<[what: string, source: () => Pinned, message: RegExp, hint: RegExp]>([
  [
    'another content',
    () => pinned('s3://weights/a/w.bin', OTHER),
    new RegExp(`has SHA-256 ${SHA}; .*requires ${OTHER}`),
    /^to accept the new content, write its SHA-256 into .*weights\.yaml/,
  ],
  [
    'no such object',
    () => pinned('s3://weights/none'),
    /^cannot read s3:\/\/weights\/none: the object does not exist/,
    /check the bucket and the key/,
  ],
  ['no such bucket', () => pinned('s3://no-such-bucket/none'), /s3:\/\/no-such-bucket\/none/, /./],
  ['no such file on the hub', () => pinned('hf://o/n@main/none'), /answered 404/, /check the address, the revision/],
  ['a gated repository', () => pinned('hf://o/n@main/gated.bin'), /answered 401/, /set HF_TOKEN/],
  [
    'a download that breaks off',
    () => pinned(`${address}/cut.bin`),
    /cut\.bin was interrupted/,
    /run the command again/,
  ],
  [
    'no server',
    () => pinned('http://127.0.0.1:1/w.bin'),
    /^cannot reach http:\/\/127\.0\.0\.1:1\/w\.bin: /,
    /check the address/,
  ],
  [
    'no such path',
    () => pinned('nowhere.bin'),
    /^cannot read .*nowhere\.bin: no such file/,
    /relative to the model folder/,
  ],
])('weights report an error with the next step and leave no files: %s', async (_, source, message, hint) => {
  const at = folder();
  const [said, next] = await getError(fetchFile(at, source()));
  expect(said).toMatch(message);
  expect(next).toMatch(hint);
  expect(readdirSync(at)).toEqual([]);
});

test.each<[what: string, content: string | Buffer, message: RegExp, hint: RegExp]>([
  [
    'another file in its place',
    'mine',
    new RegExp(`model\\.pt has SHA-256 ${sha256(Buffer.from('mine'))}; .*weights\\.yaml requires ${SHA}`),
    /delete the file to download it again/,
  ],
  ['a pointer of Git LFS', POINTER, /is a pointer of Git LFS, not the file itself/, /git lfs pull/],
])('%s is reported and not deleted', async (_, content, message, hint) => {
  const at = folder();
  mkdirSync(join(at, '1'));
  writeFileSync(join(at, '1', 'model.pt'), content);
  const [said, next] = await getError(fetchFile(at, pinned('s3://weights/a/w.bin')));
  expect(said).toMatch(message);
  expect(next).toMatch(hint);
  expect(readFileSync(join(at, '1', 'model.pt'), 'utf8')).toBe(content);
});

test('weights in the repository, also folders, are used in place', async () => {
  const at = folder();
  writeFileSync(join(at, 'w.pth'), CONTENT);
  mkdirSync(join(at, 'checkpoint'));
  const options = { folder: at, onBytes: () => undefined };
  expect(await fetchWeights(pinned('w.pth'), options)).toBe(join(at, 'w.pth'));
  expect(await fetchWeights({ ...pinned('checkpoint'), sha256: undefined }, options)).toBe(join(at, 'checkpoint'));
  expect((await getError(fetchWeights(pinned('missing.pth'), options)))[0]).toMatch(/missing\.pth is missing$/);
  writeFileSync(join(at, 'w.pth'), POINTER);
  expect((await getError(fetchWeights(pinned('w.pth'), options)))[0]).toContain('is a pointer of Git LFS');
});
