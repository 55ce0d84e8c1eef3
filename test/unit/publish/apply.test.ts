import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { UserError } from '../../../src/core/errors';
import { RepositoryWriter } from '../../../src/publish/apply/repository-writer';
import type { Lock } from '../../../src/publish/lock';
import type { PlannedModel } from '../../../src/publish/plan/plan';
import { S3Store } from '../../../src/s3/store';

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0).reverse()) step();
});

/** A store that has nothing, and answers a copy with this error. */
async function storeThatRefuses(code: string, status: number): Promise<S3Store> {
  const server = http.createServer(({ method }, reply) => {
    const [said, as] = method === 'PUT' ? [code, status] : ['NoSuchKey', 404];
    const body = method === 'HEAD' ? '' : `<Error><Code>${said}</Code><Message>Because.</Message></Error>`;
    reply.writeHead(as, { 'content-length': Buffer.byteLength(body) }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const endpointUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = new S3Store({ bucket: 'b', endpointUrl, credentials: { accessKeyId: 'a', secretAccessKey: 'b' } });
  undo.push(() => {
    store.close();
    server.closeAllConnections();
    server.close();
  });
  return store;
}

test.each([
  ['AccessDenied', 403, /check the publisher role/],
  ['NoSuchKey', 404, /^publish that version again from its files$/],
])('of a copy that S3 refuses with %s the next step is that of the reason', async (code, status, hint) => {
  const store = await storeThatRefuses(code, status);
  const lock = { requireHeld: () => undefined } as unknown as Lock;
  const writer = new RepositoryWriter(store, { bucket: 'b', prefix: 'models' }, lock);
  const source = { stored: [{ key: 'models.releases/kept/x' }] };
  const object = { key: 'm/1/weights.bin', bytes: 3, checksum: 'x', source };
  const models = [{ objects: [{ object, action: 'upload' }], leftovers: [] }] as unknown as PlannedModel[];
  const error = await writer.uploadVersions(models).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(UserError);
  expect((error as UserError).message).toMatch(new RegExp(`^cannot restore m/1/weights.bin: .*${code}`));
  expect((error as UserError).hint).toMatch(hint);
});
