import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { listenOnLoopback } from '../support/loopback';
import { writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const repository = join(scratch.directory, 'repository');
writeRepository(repository, {
  'a/config.pbtxt': 'backend: "anything"\n',
  'a/1/weights.bin': 'a',
});

/** An endpoint that gives every request an answer that AWS documents, and records the methods of requests. */
async function answering(status: number, code: string, headers: Record<string, string> = {}) {
  const methods: string[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    methods.push(request.method ?? '');
    request.resume();
    request.once('end', () => {
      response.writeHead(status, { 'content-type': 'application/xml', ...headers });
      response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>as documented</Message></Error>`);
    });
  });
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  return { endpoint: `http://127.0.0.1:${port}`, methods };
}

/** Errors of S3 that the test servers cannot produce. */
test.each<[string, number, string, Record<string, string>, RegExp]>([
  ['no right to read', 403, 'AccessDenied', {}, /AccessDenied[\s\S]*publisher role/],
  ['another region', 301, 'PermanentRedirect', { 'x-amz-bucket-region': 'eu-west-1' }, /--region eu-west-1/],
  ['expired credentials', 400, 'ExpiredToken', {}, /ExpiredToken[\s\S]*sign in again/],
  ['a full disk', 507, 'InsufficientStorage', {}, /InsufficientStorage/],
])('%s: sync-models prints one error, exits with 1 and writes nothing', async (_, status, code, headers, message) => {
  const { endpoint, methods } = await answering(status, code, headers);
  const finished = await runCommandLine(
    'sync-models',
    ['--repo', repository, '--bucket', 's3://some-bucket/models', '--endpoint-url', endpoint],
    { AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local', AWS_REGION: 'us-east-1' },
  );
  expect(finished.code).toBe(1);
  expect(finished.stderr).toMatch(message);
  expect(finished.stderr.match(/^error: /gm)).toHaveLength(1);
  expect(finished.stderr).not.toMatch(/\n\s+at /);
  expect(methods.filter((method) => method !== 'GET' && method !== 'HEAD')).toEqual([]);
});
