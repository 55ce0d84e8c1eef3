import * as http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../src/core/errors';
import { freePorts } from '../../src/local/process/ports';
import { S3Store, type StoreOptions } from '../../src/s3/store';

export interface Seen {
  method: string;
  url: string;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
}

export interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: string | Buffer;
  /** Spaces that are sent before the body, one every 50 ms, as S3 does while it joins parts. */
  spaces?: number;
}

/** Answers a request; `number` counts from 1. */
export type Answer = (request: Seen, number: number) => Reply | Promise<Reply>;

export const KEYS = { accessKeyId: 'a', secretAccessKey: 'b' };

export interface FakeS3 {
  store: S3Store;
  seen: Seen[];
  server: http.Server;
  close: () => void;
}

/** An S3 API that answers with the result of `answer`, and a store that uses it. `close` ends both. */
async function fakeS3(answer: Answer, options: Partial<StoreOptions> = {}): Promise<FakeS3> {
  const seen: Seen[] = [];
  const server = http.createServer((incoming, reply) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    const respond = async (): Promise<void> => {
      const { method = '', url = '', headers } = incoming;
      seen.push({ method, url, headers, body: Buffer.concat(chunks) });
      const { status = 200, headers: more, body = '', spaces = 0 } = await answer(seen.at(-1) as Seen, seen.length);
      reply.writeHead(status, spaces > 0 ? more : { 'content-length': Buffer.byteLength(body), ...more });
      for (let i = 0; i < spaces && !incoming.socket.destroyed; i += 1) {
        reply.write(' ');
        await sleep(50);
      }
      reply.end(body);
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
  const close = (): void => {
    store.close();
    server.closeAllConnections();
    server.close();
  };
  return { store, seen, server, close };
}

/** An answer with an error of S3. */
export const failure = (code: string, status: number, more = ''): Reply => ({
  status,
  body: `<?xml version="1.0"?>\n<Error><Code>${code}</Code><Message>Because.</Message>${more}</Error>`,
});

/** Answers to the requests of an upload in parts. */
export const BEGUN = {
  body: '<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>',
} satisfies Reply;
export const COMPLETED = {
  body: '<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>',
} satisfies Reply;

/** `storeWith` makes servers, and `defer` names steps, that are undone after each test of the file. */
export function testStores() {
  const undo: (() => void)[] = [];
  afterEach(() => {
    for (const step of undo.splice(0).reverse()) step();
  });
  const defer = (step: () => void): void => void undo.push(step);
  const storeWith = async (...given: Parameters<typeof fakeS3>): Promise<FakeS3> => {
    const fake = await fakeS3(...given);
    defer(fake.close);
    return fake;
  };
  return { storeWith, defer };
}

/** @returns the error with which `work` is rejected */
export async function getError(work: Promise<unknown>): Promise<UserError> {
  const error: unknown = await work.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  expect(error).toBeInstanceOf(UserError);
  return error as UserError;
}
