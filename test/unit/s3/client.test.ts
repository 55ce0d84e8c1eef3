import { randomBytes } from 'node:crypto';
import dns from 'node:dns';
import * as http from 'node:http';
import * as net from 'node:net';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isExcluded } from '../../../src/s3/agent';
import {
  checksumOfBytes,
  PART_BYTES,
  PreconditionFailedError,
  S3Store,
  type StoreOptions,
} from '../../../src/s3/store';
import { UserError } from '../../../src/core/errors';
import { freePorts } from '../../../src/local/process/ports';

interface Seen {
  method: string;
  url: string;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
}

interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: string | Buffer;
}

/** Answers a request; `number` counts from 1. */
type Answer = (request: Seen, number: number) => Reply | Promise<Reply>;

const KEYS = { accessKeyId: 'a', secretAccessKey: 'never-to-be-shown' };

const undo: (() => void)[] = [];
const defer = (step: () => void): void => void undo.push(step);
afterEach(() => {
  for (const step of undo.splice(0).reverse()) step();
});

interface FakeS3 {
  store: S3Store;
  seen: Seen[];
  server: http.Server;
}

/** An S3 API that answers with the result of `answer`, and a store that uses it, both until the test ends. */
async function storeWith(answer: Answer, options: Partial<StoreOptions> = {}): Promise<FakeS3> {
  const seen: Seen[] = [];
  const server = http.createServer((incoming, reply) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    const respond = async (): Promise<void> => {
      const { method = '', url = '', headers } = incoming;
      seen.push({ method, url, headers, body: Buffer.concat(chunks) });
      const { status = 200, headers: more, body = '' } = await answer(seen.at(-1) as Seen, seen.length);
      reply.writeHead(status, { 'content-length': Buffer.byteLength(body), ...more }).end(body);
    };
    incoming.on('end', () => void respond());
  });
  // A reserved port, because a test stops the server and starts it again.
  const [port] = await freePorts(1);
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const store = new S3Store({
    bucket: 'bucket',
    region: 'eu-west-1',
    endpointUrl: `http://127.0.0.1:${port}`,
    credentials: KEYS,
    attempts: 3,
    ...options,
  });
  defer(() => {
    store.close();
    server.closeAllConnections();
    server.close();
  });
  return { store, seen, server };
}

/** An answer with an error of S3. */
const failure = (code: string, status: number, more = ''): Reply => ({
  status,
  body: `<?xml version="1.0"?>\n<Error><Code>${code}</Code><Message>Because.</Message>${more}</Error>`,
});

/** Answers to the requests of an upload in parts. */
const BEGUN = {
  body: '<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>',
} satisfies Reply;
const COMPLETED = {
  body: '<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>',
} satisfies Reply;

/** @returns the error with which `work` is rejected */
async function getError(work: Promise<unknown>): Promise<UserError> {
  const error: unknown = await work.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  expect(error).toBeInstanceOf(UserError);
  return error as UserError;
}

const page = (inner: string): Reply => ({ body: `<ListBucketResult>${inner}</ListBucketResult>` });
const entry = (key: string, size = '1'): string =>
  `<Contents><Key>${key}</Key><ETag>"e"</ETag><Size>${size}</Size><LastModified>2026-01-02T00:00:00.000Z</LastModified></Contents>`;
const LAST = '<IsTruncated>false</IsTruncated>';
const more = (token: string): string =>
  `<IsTruncated>true</IsTruncated><NextContinuationToken>${token}</NextContinuationToken>`;

describe('S3Store.list', () => {
  test('returns the keys of all pages', async () => {
    const { store, seen } = await storeWith((_, number) =>
      page(number === 1 ? entry('m/a') + more('t&amp;1') : entry('m/b', '5') + LAST),
    );
    expect(await store.list('m/')).toMatchObject([
      { key: 'm/a', bytes: 1, etag: '"e"' },
      { key: 'm/b', bytes: 5, etag: '"e"' },
    ]);
    expect(seen.map(({ url }) => new URLSearchParams(url.split('?')[1]).get('continuation-token'))).toEqual([
      null,
      't&1',
    ]);
  });

  test('decodes keys only if the answer has the encoding type url', async () => {
    const { store } = await storeWith(() => page(entry('m/a+b%2B%C3%A9') + LAST));
    expect((await store.list('m/'))[0]?.key).toBe('m/a+b%2B%C3%A9');
    const encoding = await storeWith(() => page(`<EncodingType>url</EncodingType>${entry('m/a+b%2B%C3%A9')}${LAST}`));
    expect((await encoding.store.list('m/'))[0]?.key).toBe('m/a b+é');
  });

  test.each([
    ['without IsTruncated', page(entry('m/a'))],
    ['without the token of the next page', page(`${entry('m/a')}<IsTruncated>true</IsTruncated>`)],
    ['with an empty token', page(`${entry('m/a')}${more('')}`)],
    ['with a key of another prefix', page(entry('n/a') + LAST)],
    ['with a size that is not a number', page(entry('m/a', '1x') + LAST)],
    ['without an ETag', page(entry('m/a').replace('<ETag>"e"</ETag>', '') + LAST)],
    ['with an invalid percent-encoding', page(`<EncodingType>url</EncodingType>${entry('m/%zz')}${LAST}`)],
    ['that is cut off', { body: `<ListBucketResult>${LAST}${entry('m/a')}` }],
    ['that is empty', { body: '' }],
    ['that is an HTML page', { body: '<html><body>Sign in</body></html>' }],
    ['that is an error with status 200', { ...failure('InternalError', 200) }],
  ])('rejects a page %s', async (_, reply) => {
    const { store, seen } = await storeWith(() => reply);
    const error = await getError(store.list('m/'));
    expect(error.message).toMatch(/^cannot list s3:\/\/bucket\/m\/ at http:\/\/127/);
    expect(error.message).toMatch(/MalformedAnswer|InternalError/);
    expect(error.hint).toBeDefined();
    expect([3, 5]).toContain(seen.length);
  });

  test('rejects the same page again', async () => {
    const { store } = await storeWith(() => page(entry('m/a') + more('t')));
    expect((await getError(store.list('m/'))).message).toMatch(/no next page/);
  });
});

describe('S3Store', () => {
  test.each<[Reply]>([
    [failure('InternalError', 500)],
    [failure('SlowDown', 503)],
    [failure('OperationAborted', 409)],
    [failure('RequestTimeout', 400)],
    [failure('BadDigest', 400)],
    ...[429, 500, 502, 503, 504].map((status): [Reply] => [{ status }]),
  ])('retries after %j', async (reply) => {
    const { store, seen } = await storeWith((_, number) => (number < 3 ? reply : page(LAST)));
    expect(await store.list('m/')).toEqual([]);
    expect(seen).toHaveLength(3);
  });

  test.each<[Reply, string]>([
    [failure('AccessDenied', 403), 'AccessDenied (HTTP 403) Because.'],
    [failure('NoSuchBucket', 404), 'NoSuchBucket (HTTP 404) Because.'],
    [failure('InvalidRequest', 400), 'InvalidRequest (HTTP 400) Because.'],
    [failure('ExpiredToken', 400), 'ExpiredToken (HTTP 400) Because.'],
    [failure('AccessDenied', 200), 'AccessDenied (HTTP 200) Because.'],
    [{ status: 412 }, ': PreconditionFailed (HTTP 412)'],
  ])('does not retry after %j', async (reply, message) => {
    const { store, seen } = await storeWith(() => reply);
    expect((await getError(store.list('m/'))).message).toContain(message);
    expect(seen).toHaveLength(1);
  });

  test('retries once with the time of the server if the local clock is wrong', async () => {
    const date = new Date(Date.now() + 3_600_000).toUTCString();
    const { store, seen } = await storeWith((_, number) =>
      number === 1 ? { ...failure('RequestTimeTooSkewed', 403), headers: { date } } : page(LAST),
    );
    await store.list('m/');
    const signed = seen.map(({ headers }) => String(headers['x-amz-date']));
    expect(signed[1]?.slice(0, 11)).toBe(new Date(date).toISOString().replaceAll('-', '').slice(0, 11));
    expect(signed[1]).not.toBe(signed[0]);

    const stubborn = await storeWith(() => ({ ...failure('RequestTimeTooSkewed', 403), headers: { date } }));
    expect((await getError(stubborn.store.list('m/'))).hint).toMatch(/clock/);
    expect(stubborn.seen).toHaveLength(2);
  });

  test('waits for a server that answered before', async () => {
    const { store, server } = await storeWith(() => page(LAST), { attempts: 10 });
    await store.list('m/');
    const { port } = server.address() as AddressInfo;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    const newStore = new S3Store({ bucket: 'b', endpointUrl: `http://127.0.0.1:${port}`, credentials: KEYS });
    defer(() => newStore.close());
    const refused = await getError(newStore.list('m/'));
    expect(`${refused.message} ${refused.hint}`).toMatch(/ECONNREFUSED.*--endpoint-url/);

    const waiting = store.list('m/');
    const timer = setTimeout(() => server.listen(port, '127.0.0.1'), 100);
    defer(() => clearTimeout(timer));
    expect(await waiting).toEqual([]);
  });

  test('retries on a new connection', async () => {
    const ports: (number | undefined)[] = [];
    const { store, server } = await storeWith(() => page(LAST));
    server.on('request', ({ socket, url }: http.IncomingMessage) => {
      ports.push(socket.remotePort);
      if (url?.includes('cut') === true && ports.length === 3) socket.destroy();
    });
    await Promise.all([store.list('a'), store.list('b')]);
    await store.list('cut');
    expect(ports).toHaveLength(4);
    expect(ports.slice(0, 3)).not.toContain(ports[3]);
  });

  test('stops its retries when it is closed', async () => {
    const { store } = await storeWith(() => ({ status: 503 }), { attempts: 1000 });
    const waiting = getError(store.list('m/'));
    setTimeout(() => store.close(), 50);
    expect((await waiting).message).toMatch(/HTTP 503|ECONNRESET/);
  });
});

describe('S3Store.putBytes, if the server answers before it has the whole request', () => {
  const xml = (code: string): string => `<Error><Code>${code}</Code></Error>`;
  const answer = (status: string, body: string): string =>
    `HTTP/1.1 ${status}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

  test.each([
    ['503 Slow Down', xml('SlowDown'), 'SlowDown', 3],
    ['403 Forbidden', xml('AccessDenied'), 'AccessDenied', 1],
    ['400 Bad Request', xml('EntityTooLarge'), 'EntityTooLarge', 1],
  ])('and then resets the connection: %s %s', async (status, body, code, tries) => {
    let connections = 0;
    const server = net.createServer((socket) => {
      connections += 1;
      socket.on('error', () => undefined);
      // The rest of the request is left unread.
      socket.once('data', () => socket.pause().write(answer(status, body), () => socket.resetAndDestroy()));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const endpointUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const store = new S3Store({ bucket: 'bucket', endpointUrl, credentials: KEYS, attempts: 3 });
    defer(() => server.close());
    defer(() => store.close());
    await expect(store.putBytes('key', Buffer.alloc(PART_BYTES))).rejects.toMatchObject({ code });
    expect(connections).toBe(tries);
  });
});

describe('the hint of S3Error', () => {
  test.each([
    [{ status: 301, headers: { 'x-amz-bucket-region': 'us-west-2' } }, /set --region us-west-2/],
    [failure('AuthorizationHeaderMalformed', 400, '<Region>us-west-2</Region>'), /set --region us-west-2/],
    [failure('PermanentRedirect', 301), /set --region/],
    [failure('ExpiredToken', 400), /aws sso login/],
    [failure('NoSuchBucket', 404), /pulumi up/],
    [failure('AccessDenied', 403), /publisher role/],
    [failure('SomethingNew', 500), /try again later/],
    [failure('InvalidAccessKeyId', 403), /AWS_ACCESS_KEY_ID/],
    [failure('SignatureDoesNotMatch', 403), /AWS_SECRET_ACCESS_KEY/],
    [failure('InsufficientStorage', 507), /no space left: free some/],
    [{ status: 200, body: 'hello' }, /not that of an S3 API/],
  ])('for the answer %j', async (reply, hint) => {
    const { store } = await storeWith(() => reply, { attempts: 1 });
    const error = await getError(store.list('m/'));
    expect(error.hint).toMatch(hint);
    expect(`${error.message} ${error.hint}`).not.toContain(KEYS.secretAccessKey);
  });

  test.each([
    ['ENOTFOUND', /the host is unknown: check --endpoint-url/],
    ['EAI_AGAIN', /the host cannot be reached: check --endpoint-url/],
  ])('for a host whose address is not found: %s', async (code, hint) => {
    const fail = (...[, , callback]: Parameters<net.LookupFunction>): void =>
      callback(Object.assign(new Error(code), { code }), '');
    const lookup = jest.spyOn(dns, 'lookup').mockImplementation(fail as never);
    defer(() => lookup.mockRestore());
    const store = new S3Store({ bucket: 'b', endpointUrl: 'http://host.invalid', credentials: KEYS, attempts: 1 });
    defer(() => store.close());
    expect(await getError(store.list('m/'))).toMatchObject({
      message: expect.stringContaining(code) as string,
      hint: expect.stringMatching(hint) as string,
    });
  });

  test('for an answer to HEAD, which has no body', async () => {
    const { store } = await storeWith(() => ({ status: 301, headers: { 'x-amz-bucket-region': 'us-west-2' } }));
    expect((await getError(store.checksum('k', 1))).hint).toMatch(/set --region us-west-2/);
  });
});

describe('S3Store', () => {
  const body = Buffer.from('content');

  test('putBytes sends the checksum and compares it with that of the answer', async () => {
    const checksum = checksumOfBytes(body);
    const { store, seen } = await storeWith(() => ({
      headers: { etag: '"e"', 'x-amz-checksum-sha256': checksum },
    }));
    expect(await store.putBytes('a b', body, { ifEtag: '"x"' })).toEqual({ etag: '"e"', checksum });
    expect(seen[0]).toMatchObject({ method: 'PUT', url: '/bucket/a%20b', body });
    expect(seen[0]?.headers).toMatchObject({
      'x-amz-checksum-sha256': checksum,
      'x-amz-content-sha256': Buffer.from(checksum, 'base64').toString('hex'),
      'if-match': '"x"',
    });
    const other = await storeWith(() => ({ headers: { etag: '"e"', 'x-amz-checksum-sha256': 'AAAA' } }));
    expect((await getError(other.store.putBytes('k', body))).message).toMatch(/BadDigest/);
  });

  test('writes and multipart uploads ask for the encryption', async () => {
    const { store, seen } = await storeWith(
      parts(() => COMPLETED),
      {
        encryption: { algorithm: 'aws:kms', key: 'arn:aws:kms:eu-west-1:1:key/k' },
      },
    );
    await store.putBytes('small', body);
    await store.putBytes('large', large);
    const encrypted = seen.filter(({ headers }) => headers['x-amz-server-side-encryption'] === 'aws:kms');
    expect(encrypted.map(({ method, url }) => `${method} ${url.replace(/=$/, '')}`)).toEqual([
      'PUT /bucket/small',
      'POST /bucket/large?uploads',
    ]);
    expect(encrypted[0]?.headers['x-amz-server-side-encryption-aws-kms-key-id']).toBe('arn:aws:kms:eu-west-1:1:key/k');
  });

  test('putBytes retries after ConditionalRequestConflict, then reads the object', async () => {
    const { store, seen } = await storeWith(({ method }) =>
      method === 'PUT'
        ? failure('ConditionalRequestConflict', 409)
        : { headers: { etag: '"e"', 'content-length': '3', 'x-amz-checksum-sha256': 'other' } },
    );
    expect(await getError(store.putBytes('k', body, { ifAbsent: true }))).toBeInstanceOf(PreconditionFailedError);
    expect(seen.map(({ method }) => method)).toEqual(['PUT', 'PUT', 'PUT', 'HEAD']);
  });

  const parts = (complete: (number: number) => Reply): ((request: Seen) => Reply) => {
    let completes = 0;
    return ({ method, url }) => {
      if (/\?uploads=&?$/.test(url)) return BEGUN;
      if (method === 'PUT') return { headers: { etag: '"p"' } };
      return method === 'POST' ? complete((completes += 1)) : { status: 204 };
    };
  };
  const large = Buffer.alloc(PART_BYTES + 1);

  test('putBytes in parts retries after an error with status 200', async () => {
    const { store, seen } = await storeWith(
      parts((number) => (number === 1 ? failure('InternalError', 200) : { body: `\n \n${COMPLETED.body}` })),
    );
    expect(await store.putBytes('k', large)).toMatchObject({ etag: '"e"', checksum: checksumOfBytes(large) });
    const sent = seen.filter(({ method, url }) => method === 'POST' && url.includes('uploadId=u'));
    expect(sent).toHaveLength(2);
    expect(sent[0]?.body.toString()).toMatch(
      /<PartNumber>1<.*<PartNumber>2<\/PartNumber><ETag>"p"<\/ETag><ChecksumSHA256>.{44}<\/ChecksumSHA256>/,
    );
    expect(sent[0]?.headers['x-amz-mp-object-size']).toBe(String(large.byteLength));
  });

  test('putBytes in parts rejects another checksum in the answer', async () => {
    const { store } = await storeWith(
      parts(() => ({
        body: '<CompleteMultipartUploadResult><ETag>"e"</ETag><ChecksumSHA256>AAA-2</ChecksumSHA256></CompleteMultipartUploadResult>',
      })),
    );
    expect((await getError(store.putBytes('k', large))).message).toMatch(/BadDigest/);
  });

  test('copy from another server names the source if its content has another checksum', async () => {
    const { store } = await storeWith(parts(() => COMPLETED));
    const other = await storeWith(() => ({ body: 'short' }), { bucket: 'other' });
    const copied = store.copy({ store: other.store, key: 'from' }, 'to', { bytes: large.byteLength, checksum: 'x' });
    expect((await getError(copied)).message).toMatch(/^cannot read s3:\/\/other\/from: it changed/);
  });

  describe('delete', () => {
    test('sends the ETags that were seen', async () => {
      const { store, seen } = await storeWith(() => ({ status: 204 }));
      await store.delete([{ key: 'a', etag: '"1"' }, { key: 'b' }]);
      expect(seen.map(({ method, url, headers }) => [method, url, headers['if-match']]).sort()).toEqual([
        ['DELETE', '/bucket/a', '"1"'],
        ['DELETE', '/bucket/b', undefined],
      ]);
    });

    test.each([
      ['throws PreconditionFailedError for an object with another ETag', 412, 200, 'PreconditionFailedError'],
      ['ignores a missing object that is reported with PreconditionFailed', 412, 404, undefined],
      ['ignores a missing object', 404, 404, undefined],
      ['reports a refusal', 403, 200, 'S3Error'],
    ])('%s', async (_, status, headStatus, name) => {
      const { store } = await storeWith(({ method }) => {
        if (method === 'HEAD') return { status: headStatus, headers: { etag: '"2"' } };
        return status === 412 && method === 'DELETE'
          ? { status }
          : failure(status === 403 ? 'AccessDenied' : 'NoSuchKey', status);
      });
      const error = await store.delete([{ key: 'a', etag: '"1"' }]).catch((caught: unknown) => caught);
      expect((error as Error | undefined)?.name).toBe(name);
    });
  });
});

test('S3Store.get rejects content that does not match the stored checksum', async () => {
  const { store } = await storeWith(() => ({
    body: 'flipped',
    headers: { 'x-amz-checksum-sha256': checksumOfBytes(Buffer.from('content')) },
  }));
  expect((await getError(store.get('k'))).message).toMatch(/BadDigest/);
});

test('S3Store.get asks again if the answer about a missing object is cut short', async () => {
  const { store, seen, server } = await storeWith((_, number) =>
    number > 1 ? failure('NoSuchKey', 404) : { status: 404, headers: { 'content-length': '300' }, body: '<Error>' },
  );
  server.once('request', ({ socket }: http.IncomingMessage, reply) => reply.once('finish', () => socket.destroy()));
  expect(await store.get('k')).toBeUndefined();
  expect(seen).toHaveLength(2);
});

describe('S3Store.stream', () => {
  const content = randomBytes(1000);
  const RANGE = { start: 100, bytes: 300 };
  const read = async (store: S3Store): Promise<Buffer> => {
    const chunks: Buffer[] = [];
    const count = await store.stream('k', RANGE, (chunk) => void chunks.push(Buffer.from(chunk)));
    const got = Buffer.concat(chunks);
    expect(got).toHaveLength(count);
    return got;
  };
  /** An answer that is cut short after `bytes`. */
  const cut = (bytes: number): Reply => ({
    status: 206,
    headers: { 'content-length': '300' },
    body: content.subarray(100, 100 + bytes),
  });
  const cuttingStore = async (...replies: Reply[]): Promise<FakeS3> => {
    const served = await storeWith((_, number) => replies[number - 1] as Reply);
    served.server.on('request', ({ socket }: http.IncomingMessage, reply) =>
      reply.once('finish', () => socket.destroy()),
    );
    return served;
  };

  test('reads a range', async () => {
    const { store, seen } = await storeWith(() => ({ status: 206, body: content.subarray(100, 400) }));
    expect(await read(store)).toEqual(content.subarray(100, 400));
    expect(seen.map(({ url, headers }) => [url, headers.range])).toEqual([['/bucket/k', 'bytes=100-399']]);
  });

  test('requests the rest if an answer is cut short', async () => {
    const rest: Reply = { status: 206, body: content.subarray(300, 400) };
    const { store, seen } = await cuttingStore(cut(200), rest);
    expect(await read(store)).toEqual(content.subarray(100, 400));
    expect(seen.map(({ headers }) => headers.range)).toEqual(['bytes=100-399', 'bytes=300-399']);
  });

  test('waits before it passes on more', async () => {
    const large = randomBytes(1_000_000);
    const { store } = await storeWith(() => ({ status: 206, body: large }));
    const chunks: Buffer[] = [];
    let isWaiting = false;
    const count = await store.stream('k', { ...RANGE, bytes: large.byteLength }, async (chunk) => {
      expect(isWaiting).toBe(false);
      isWaiting = true;
      chunks.push(Buffer.from(chunk));
      await sleep(5);
      isWaiting = false;
    });
    expect(count).toBe(large.byteLength);
    expect(Buffer.concat(chunks).equals(large)).toBe(true);
    expect(chunks.length).toBeGreaterThan(2);
  });

  test.each([
    ['closes the connection', { connection: 'close' }, 50],
    ['ends an idle connection', { connection: 'keep-alive' }, 600],
  ])('loses no bytes if the server %s while the caller is busy', async (_, headers, busyMs) => {
    const body = randomBytes(100_000);
    const { store, server } = await storeWith(() => ({ status: 206, headers, body }));
    server.keepAliveTimeout = 100;
    const chunks: Buffer[] = [];
    const take = (chunk: Buffer): Promise<void> | undefined => {
      chunks.push(Buffer.from(chunk));
      return chunks.length === 1 ? sleep(busyMs) : undefined;
    };
    expect(await store.stream('k', { ...RANGE, bytes: body.byteLength }, take)).toBe(body.byteLength);
    expect(Buffer.concat(chunks).equals(body)).toBe(true);
  });

  test('a server that sends the whole object instead of a range does not pass for one that sends the range', async () => {
    const { store, server } = await storeWith(() => ({ body: '' }));
    // The first chunk has as many bytes as the range.
    server.removeAllListeners('request').on('request', (_: http.IncomingMessage, reply: http.ServerResponse) => {
      reply.writeHead(200, { 'content-length': content.byteLength });
      reply.write(content.subarray(0, 300));
      setTimeout(() => reply.end(content.subarray(300)), 50);
    });
    await expect(store.stream('k', RANGE, () => undefined)).rejects.toMatchObject({ code: 'RangeIgnored' });
  });

  test('requests nothing more when every byte has arrived', async () => {
    const { store, seen, server } = await storeWith(() => ({ body: '' }));
    server.removeAllListeners('request').on('request', (incoming: http.IncomingMessage, reply: http.ServerResponse) => {
      seen.push({ method: 'GET', url: '', headers: incoming.headers, body: Buffer.alloc(0) });
      reply.writeHead(206, { 'content-length': 301 });
      reply.write(content.subarray(100, 400));
      setTimeout(() => incoming.socket.destroy(), 50);
    });
    expect(await store.stream('k', RANGE, () => undefined)).toBe(300);
    expect(seen).toHaveLength(1);
  });

  test('the bytes of a second connection wait until the caller has taken those of the first', async () => {
    const rest: Reply = { status: 206, body: content.subarray(300, 400) };
    const { store } = await cuttingStore(cut(200), rest);
    const log: string[] = [];
    await store.stream('k', RANGE, async ({ byteLength }) => {
      log.push(`begins ${byteLength}`);
      await sleep(300);
      log.push(`ends ${byteLength}`);
    });
    expect(log).toEqual(['begins 200', 'ends 200', 'begins 100', 'ends 100']);
  });

  test('a read that fails while the caller is busy ends after that', async () => {
    const { store } = await cuttingStore(cut(200), failure('AccessDenied', 403));
    let isBusy = true;
    const reading = store.stream('k', RANGE, () => sleep(300).then(() => void (isBusy = false)));
    await expect(reading).rejects.toThrow();
    expect(isBusy).toBe(false);
  });

  test.each([
    ['during the answer', 0],
    ['after the last byte', 100],
  ])('an error of the caller %s ends the request, and is thrown as it is', async (_, ms) => {
    const { store, seen } = await cuttingStore(cut(300));
    const full = Object.assign(new Error('no space left'), { code: 'ENOSPC' });
    const take = (): Promise<void> => sleep(ms).then(() => Promise.reject(full));
    await expect(store.stream('k', RANGE, take)).rejects.toBe(full);
    expect(seen).toHaveLength(1);
  });

  test('a connection that fails again and again counts as a new one while it brings bytes', async () => {
    const parts = [50, 100, 150, 200, 250, 300].map((end): Reply => {
      const body = content.subarray(50 + end, 100 + end);
      return { status: 206, headers: { 'content-length': String(350 - end) }, body };
    });
    const { store, seen } = await cuttingStore(...parts);
    const chunks: Buffer[] = [];
    await store.stream('k', RANGE, (chunk) => void chunks.push(Buffer.from(chunk)));
    expect(Buffer.concat(chunks)).toEqual(content.subarray(100, 400));
    expect(seen).toHaveLength(6);
  });

  test.each<[text: string, reply: Reply, outcome: object]>([
    ['an object that does not exist', failure('NoSuchKey', 404), { message: 's3://bucket/k does not exist' }],
    ['an object that ends before the part', failure('InvalidRange', 416), { byteLength: 0 }],
    ['an object that ends within the part', { status: 206, body: content.subarray(100, 200) }, { byteLength: 100 }],
    ['a server that sends the whole object', { body: content }, { code: 'RangeIgnored' }],
  ])('%s', async (_, reply, outcome) => {
    const { store, seen } = await storeWith(() => reply);
    expect(await read(store).catch((error: unknown) => error)).toMatchObject(outcome);
    expect(seen).toHaveLength(1);
  });
});

describe('the proxy', () => {
  test.each([
    [{}, false],
    [{ NO_PROXY: 'other, .amazonaws.com' }, true],
    [{ NO_PROXY: 'amazonaws.com:443' }, true],
    [{ NO_PROXY: 'amazonaws.com:444' }, false],
    [{ NO_PROXY: 'naws.com' }, false],
    [{ no_proxy: '*' }, true],
  ])('is not used for %j: %s', (env, expected) => {
    expect(isExcluded({ host: 'b.s3.eu-west-1.amazonaws.com', port: 443 }, env)).toBe(expected);
  });
});
