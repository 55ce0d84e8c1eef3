import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checksumOfBytes, PART_BYTES, PreconditionFailedError } from '../../../src/s3/store';
import type { S3Error, S3Store, Written } from '../../../src/s3/store';
import {
  BEGUN,
  COMPLETED,
  failure,
  getError,
  NO_UPLOADS,
  testStores,
  type Answer,
  type Reply,
  type Seen,
} from '../../support/fake-s3';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());
const { storeWith } = testStores();

const getQuery = ({ url }: Seen): URLSearchParams => new URL(url, 'http://host').searchParams;
/** Requests as `METHOD KEY?QUERY`, without the bucket. */
const describeAll = (seen: readonly Seen[]): string[] =>
  seen.map(({ method, url }) => `${method} ${url.replace('/bucket/', '').replace(/uploads=(&|$)/, 'uploads')}`);

describe('S3Store.abortUploads', () => {
  type Upload = [key: string, id: string];
  interface Page {
    uploads: Upload[];
    next?: [key: string, id?: string];
  }

  const list = ({ uploads, next }: Page): Reply => ({
    body: `<ListMultipartUploadsResult>${uploads
      .map(([key, id]) => `<Upload><Key>${key}</Key><UploadId>${id}</UploadId></Upload>`)
      .join('')}<IsTruncated>${next !== undefined}</IsTruncated>${
      next === undefined
        ? ''
        : `<NextKeyMarker>${next[0]}</NextKeyMarker>` +
          (next[1] === undefined ? '' : `<NextUploadIdMarker>${next[1]}</NextUploadIdMarker>`)
    }</ListMultipartUploadsResult>`,
  });

  /** Pages by the markers that ask for them: `KEY ID`. */
  test.each<{ title: string; pages: Record<string, Page>; aborted: string[] }>([
    {
      title: 'on all pages, also if a page ends within the uploads of one key',
      pages: {
        ' ': { uploads: [['m/a', '1']], next: ['m/a', '1'] },
        'm/a 1': { uploads: [['m/a', '2']], next: ['m/a', '2'] },
        'm/a 2': { uploads: [['m/b', '3']] },
      },
      aborted: ['m/a 1', 'm/a 2', 'm/b 3'],
    },
    {
      title: 'on all pages of a server that marks them by key only',
      pages: {
        ' ': { uploads: [['m/a', '1']], next: ['m/a'] },
        'm/a ': { uploads: [['m/b', '2']], next: ['m/b'] },
        'm/b ': { uploads: [['m/c', '3']] },
      },
      aborted: ['m/a 1', 'm/b 2', 'm/c 3'],
    },
    {
      title: 'once if the server repeats the last page',
      pages: {
        ' ': { uploads: [['m/a', '1']], next: ['m/a', '1'] },
        'm/a 1': { uploads: [['m/b', '2']], next: ['m/a', '1'] },
      },
      aborted: ['m/a 1', 'm/b 2'],
    },
    {
      title: 'of the prefix only, if the server ignores the prefix',
      pages: {
        ' ': {
          uploads: [
            ['m/a', '1'],
            ['n/a', '2'],
            ['m/b', ''],
          ],
        },
      },
      aborted: ['m/a 1'],
    },
  ])('aborts the uploads $title', async ({ pages, aborted }) => {
    const { store, seen } = await storeWith((request, number) => {
      if (request.method === 'DELETE') return { status: 204 };
      const query = getQuery(request);
      const page = pages[`${query.get('key-marker') ?? ''} ${query.get('upload-id-marker') ?? ''}`];
      return page === undefined || number > 5 ? failure('AccessDenied', 403) : list(page);
    });
    expect(await store.abortUploads('m/')).toEqual([...new Set(aborted.map((upload) => upload.split(' ')[0]))]);
    expect(seen.flatMap((request) => (request.method === 'DELETE' ? describeAll([request]) : []))).toEqual(
      aborted.map((upload) => `DELETE ${upload.replace(' ', '?uploadId=')}`),
    );
  });

  test.each([
    { request: 'GET', code: 'NotImplemented', status: 501, outcome: [] },
    { request: 'GET', code: 'MethodNotAllowed', status: 405, outcome: [] },
    { request: 'GET', code: 'AccessDenied', status: 403, outcome: 'AccessDenied' },
    { request: 'DELETE', code: 'NoSuchUpload', status: 404, outcome: ['m/a'] },
    { request: 'DELETE', code: 'AccessDenied', status: 403, outcome: 'AccessDenied' },
  ])(
    'has the outcome $outcome if the server answers $request with $code',
    async ({ request, code, status, outcome }) => {
      const { store } = await storeWith(({ method }) =>
        method === request ? failure(code, status) : list({ uploads: [['m/a', '1']] }),
      );
      const aborted = await store.abortUploads('m/').catch((error: unknown) => (error as S3Error).code);
      expect(aborted).toEqual(outcome);
    },
  );
});

const LARGE = Buffer.alloc(PART_BYTES + 1);

test('putBytes rejects a multipart upload without an id before it sends a part', async () => {
  const { store, seen } = await storeWith(({ method }) =>
    method === 'GET' ? NO_UPLOADS : { body: BEGUN.body.replace('>u<', '><') },
  );
  await expect(store.putBytes('k', LARGE)).rejects.toMatchObject({ code: 'MalformedAnswer' });
  // Without the bodies, which jest would print for minutes.
  expect(describeAll(seen).filter((request) => request.startsWith('PUT'))).toEqual([]);
});

test.each([
  { title: 'on two pages', last: '<IsTruncated>false</IsTruncated>' },
  {
    title: 'on two pages, of which the server repeats the last one',
    last: '<IsTruncated>true</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker>',
  },
])('putBytes does not send the parts of an earlier upload that are listed $title', async ({ last }) => {
  const parts = [LARGE.subarray(0, PART_BYTES), LARGE.subarray(PART_BYTES)].map(
    (part, index) =>
      `<Part><PartNumber>${index + 1}</PartNumber><Size>${part.byteLength}</Size><ETag>"p"</ETag>` +
      `<ChecksumSHA256>${checksumOfBytes(part)}</ChecksumSHA256></Part>`,
  );
  const pages: Record<string, string> = {
    0: `${parts[0]}<IsTruncated>true</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker>`,
    1: `${parts[1]}${last}`,
  };
  const { store, seen } = await storeWith((request, number) => {
    if (request.method === 'POST') return COMPLETED;
    if (number > 10) return failure('AccessDenied', 403);
    const marker = getQuery(request).get('part-number-marker');
    if (marker !== null) return { body: `<ListPartsResult>${pages[marker]}</ListPartsResult>` };
    return { body: NO_UPLOADS.body.replace('><', '><Upload><Key>k</Key><UploadId>u</UploadId></Upload><') };
  });
  await store.putBytes('k', LARGE);
  expect(describeAll(seen).filter((request) => !request.startsWith('GET'))).toEqual(['POST k?uploadId=u']);
});

/** Answers to an upload in parts; `complete` is that to its completion. */
const uploadAnswers =
  (complete: () => Reply | Promise<Reply>) =>
  ({ method, url }: Seen): Reply | Promise<Reply> => {
    if (method === 'HEAD') return { status: 404 };
    if (method === 'PUT') return { headers: { etag: '"part"' } };
    if (url.includes('?uploadId=')) return complete();
    return BEGUN;
  };

/** Uploads a file of two parts, by default one that has nothing to resume. */
function putTwoParts(store: S3Store, resume = false): Promise<Written> {
  const path = join(scratch.directory, `large-${randomBytes(4).toString('hex')}`);
  const bytes = PART_BYTES + 1;
  writeFileSync(path, Buffer.alloc(bytes));
  return store.putFile('large', { path, bytes }, { condition: { ifAbsent: true }, resume });
}

test('an upload in parts that has nothing to resume needs three requests besides its parts, and no GET', async () => {
  const { store, seen } = await storeWith(uploadAnswers(() => COMPLETED));
  await putTwoParts(store);
  expect(seen.map(({ method }) => method).sort()).toEqual(['HEAD', 'POST', 'POST', 'PUT', 'PUT']);
  expect(seen[0]?.url).toContain('?uploads=');
  expect(seen.at(-1)?.url).toContain('?uploadId=u');
});

describe('an unfinished upload that S3 fails to complete', () => {
  const md5 = (bytes: number): string => createHash('md5').update(Buffer.alloc(bytes)).digest('hex');
  const part = (number: number, bytes: number): string =>
    `<Part><PartNumber>${number}</PartNumber><Size>${bytes}</Size><ETag>"${md5(bytes)}"</ETag></Part>`;
  const ALL_PARTS = part(1, PART_BYTES) + part(2, 1);

  /** A server with an unfinished upload `old`, whose completion fails; that of a new upload succeeds. */
  const answersWith =
    (parts: string, failed: Reply) =>
    (request: Seen): Reply | Promise<Reply> => {
      const { method, url } = request;
      const isOld = url.includes('uploadId=old');
      if (method === 'GET') {
        return {
          body: isOld
            ? `<ListPartsResult>${parts}</ListPartsResult>`
            : '<ListMultipartUploadsResult><Upload><Key>large</Key><UploadId>old</UploadId></Upload></ListMultipartUploadsResult>',
        };
      }
      if (method === 'DELETE') return { status: 204 };
      if (method === 'POST' && isOld) return failed;
      return uploadAnswers(() => COMPLETED)(request);
    };
  const requests = (seen: Seen[], method: string, id: string): number =>
    seen.filter((one) => one.method === method && one.url.includes(`uploadId=${id}`)).length;

  test.each([500, 200])('is aborted, and everything is sent again, if S3 had all parts (status %d)', async (status) => {
    const { store, seen } = await storeWith(answersWith(ALL_PARTS, failure('InternalError', status)));
    expect(await putTwoParts(store, true)).toMatchObject({ etag: '"e"' });
    expect([requests(seen, 'POST', 'old'), requests(seen, 'DELETE', 'old')]).toEqual([3, 1]);
    expect([requests(seen, 'PUT', 'old'), requests(seen, 'PUT', 'u')]).toEqual([0, 2]);
  });

  test.each([
    { title: 'S3 is busy', parts: ALL_PARTS, failed: failure('SlowDown', 503) },
    { title: 'S3 lacked a part', parts: part(1, PART_BYTES), failed: failure('InternalError', 500) },
  ])('is kept for the next run if $title', async ({ parts, failed }) => {
    const { store, seen } = await storeWith(answersWith(parts, failed));
    await getError(putTwoParts(store, true));
    expect([requests(seen, 'DELETE', 'old'), requests(seen, 'PUT', 'u')]).toEqual([0, 0]);
  });
});

describe('a completion of an upload', () => {
  const isCompletion = ({ method, url }: Seen): boolean => method === 'POST' && url.includes('?uploadId=');
  // A busy machine sends a space later than after 50 ms.
  const PATIENT = { attempts: undefined, idleTimeoutMs: 1000, deadlineMs: 60_000 };

  test.concurrent.each([
    {
      sends: 'nothing',
      limits: { idleTimeoutMs: 300, attempts: 2 },
      complete: () => new Promise<Reply>(() => undefined),
      reason: 'no data was transferred for too long',
    },
    {
      sends: 'spaces only',
      limits: { idleTimeoutMs: 60_000, deadlineMs: 1000 },
      complete: () => ({ ...COMPLETED, spaces: Infinity }),
      reason: 'the request took too long',
    },
  ])('ends with one error if the server sends $sends', async ({ limits, complete, reason }) => {
    const { store } = await storeWith(uploadAnswers(complete), { ...PATIENT, ...limits });
    const { message, hint } = await getError(putTwoParts(store));
    expect(message).toMatch(/^cannot write s3:\/\/bucket\/large at \S+: ETIMEDOUT /);
    expect(message).toContain(reason);
    expect(hint).toContain('the server does not answer');
  });

  test('is sent once if the server sends spaces for longer than a silent connection may last', async () => {
    const { store, seen } = await storeWith(
      uploadAnswers(() => ({ ...COMPLETED, spaces: 24 })),
      PATIENT,
    );
    expect(await putTwoParts(store)).toMatchObject({ etag: '"e"' });
    expect(seen.filter(isCompletion)).toHaveLength(1);
  });
});

describe('putBytes in parts, if its completion fails,', () => {
  const OURS = checksumOfBytes(LARGE);
  const OTHER = checksumOfBytes(Buffer.alloc(PART_BYTES + 1, 'x'));
  const LOST = failure('NoSuchUpload', 404);
  const REFUSED = failure('PreconditionFailed', 412);

  test.each<{ title: string; answer: Reply; ifAbsent: boolean; present: string; error?: object; aborts: number }>([
    { title: 'accepts its object after a lost answer', answer: LOST, ifAbsent: false, present: OURS, aborts: 1 },
    { title: 'accepts its object after a refusal', answer: REFUSED, ifAbsent: true, present: OURS, aborts: 1 },
    {
      title: 'reports an upload that another program aborted',
      answer: LOST,
      ifAbsent: false,
      present: OTHER,
      error: { code: 'NoSuchUpload' },
      aborts: 0,
    },
    {
      title: 'reports the object of another program',
      answer: REFUSED,
      ifAbsent: true,
      present: OTHER,
      error: { name: PreconditionFailedError.name },
      aborts: 1,
    },
  ])('$title', async ({ answer, ifAbsent, present, error, aborts }) => {
    let isCompleted = false;
    const { store, seen } = await storeWith((request) => {
      const query = getQuery(request);
      switch (request.method) {
        case 'HEAD': {
          if (!isCompleted) return { status: 404 };
          const bytes = query.has('partNumber') ? PART_BYTES : LARGE.byteLength;
          return { headers: { 'content-length': String(bytes), etag: '"e"', 'x-amz-checksum-sha256': present } };
        }
        case 'PUT':
          return { headers: { etag: '"part"' } };
        case 'DELETE':
          return { status: 204 };
        case 'POST':
          isCompleted ||= query.has('uploadId');
          return query.has('uploads') ? BEGUN : answer;
        default:
          return query.has('uploads') ? NO_UPLOADS : failure('NoSuchKey', 404);
      }
    });
    const written: unknown = await store
      .putBytes('k', LARGE, ifAbsent ? { ifAbsent } : undefined)
      .catch((caught: unknown) => caught);
    expect(written).toMatchObject(error ?? { etag: '"e"', checksum: OURS });
    expect(seen.filter(({ method }) => method === 'DELETE')).toHaveLength(aborts);
  });
});

describe('copy', () => {
  const body = Buffer.from('content');
  const COPIED = {
    body: `<CopyObjectResult><ETag>"e"</ETag><ChecksumSHA256>${checksumOfBytes(body)}</ChecksumSHA256></CopyObjectResult>`,
  };
  const copied = { bytes: body.byteLength, checksum: checksumOfBytes(body) };

  test.each<{ condition: { ifAbsent: true } | { ifEtag: string }; present: string | undefined; copies: number }>([
    { condition: { ifEtag: '"1"' }, present: '"1"', copies: 1 },
    { condition: { ifEtag: '"1"' }, present: '"2"', copies: 0 },
    { condition: { ifEtag: '"1"' }, present: undefined, copies: 0 },
    { condition: { ifAbsent: true }, present: undefined, copies: 1 },
    { condition: { ifAbsent: true }, present: '"1"', copies: 0 },
  ])(
    'with the condition $condition over the object $present copies $copies times on a server without conditions',
    async ({ condition, present, copies }) => {
      const { store, seen } = await storeWith(({ method }) => {
        if (method === 'PUT') return COPIED;
        if (present === undefined) return method === 'HEAD' ? { status: 404 } : failure('NoSuchKey', 404);
        return { headers: { 'content-length': '3', etag: present } };
      });
      const outcome: unknown = await store
        .copy({ key: 'from' }, 'to', { ...copied, condition })
        .catch((e: unknown) => e);
      if (copies === 0) expect(outcome).toBeInstanceOf(PreconditionFailedError);
      else expect(outcome).toMatchObject({ etag: '"e"' });
      expect(seen.filter(({ method }) => method === 'PUT')).toHaveLength(copies);
    },
  );

  test('reports a missing source, not a conflict of writers', async () => {
    const { store } = await storeWith(({ method }) =>
      method === 'PUT' ? failure('NoSuchKey', 404) : { headers: { 'content-length': '3', etag: '"1"' } },
    );
    const copying = store.copy({ key: 'from' }, 'to', { ...copied, condition: { ifEtag: '"1"' } });
    await expect(copying).rejects.toMatchObject({ name: 'S3Error', code: 'NoSuchKey' });
  });

  test.each([
    { from: 'the same server', requests: ['PUT to'] },
    { from: 'another server', requests: ['GET from', 'PUT to'] },
  ])('copies an object of exactly one part from $from in one request', async ({ from, requests }) => {
    const whole = Buffer.alloc(PART_BYTES);
    const checksum = checksumOfBytes(whole);
    const sent: string[] = [];
    const answer: Answer = (request) => {
      sent.push(...describeAll([request]));
      if (request.method === 'GET') return { body: whole };
      const result = `<CopyObjectResult><ETag>"e"</ETag><ChecksumSHA256>${checksum}</ChecksumSHA256></CopyObjectResult>`;
      return from === 'another server' ? { headers: { etag: '"e"' } } : { body: result };
    };
    const { store } = await storeWith(answer);
    const source = from === 'another server' ? (await storeWith(answer)).store : store;
    await store.copy({ store: source, key: 'from' }, 'to', { bytes: PART_BYTES, checksum });
    expect(sent).toEqual(requests);
  });
});

test.each([0, 1])('checksum of an object of %d bytes without a stored checksum', async (bytes) => {
  const content = Buffer.alloc(bytes, 'x');
  const { store } = await storeWith(({ method }): Reply =>
    method === 'HEAD'
      ? { headers: { 'content-length': String(bytes), etag: '"e"' } }
      : { status: 206, headers: { etag: '"e"' }, body: content },
  );
  expect(await store.checksum('k', bytes)).toBe(checksumOfBytes(content));
});
