import { rmSync } from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { RepositoryWriter } from '../../../src/publish/apply/repository-writer';
import { NO_INTENT, readLock } from '../../../src/publish/lock';
import { headKey, lockKey } from '../../../src/release/location';
import type { PlannedModel } from '../../../src/publish/plan/plan';
import type { RepositorySnapshot } from '../../../src/publish/plan/snapshot';
import type { ReleasedModel } from '../../../src/publish/release/release';
import { S3Store } from '../../../src/s3/store';
import { fakeTriton } from '../../support/fake-triton';
import { MemoryStore } from '../../support/memory-store';
import { ONE_MODEL, publisher, TWO_MODELS } from '../../support/publish';
import { addingEnsemble, addingModel, writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

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
  { code: 'AccessDenied', status: 403, hint: /check the publisher role/ },
  { code: 'NoSuchKey', status: 404, hint: /^publish that version again from its files$/ },
])('uploadVersions gives the next step for a copy that S3 refuses with $code', async ({ code, status, hint }) => {
  const store = await storeThatRefuses(code, status);
  const writer = new RepositoryWriter(store, { bucket: 'b', prefix: 'models' });
  const source = { stored: [{ key: 'models.releases/kept/x' }] };
  const object = { key: 'm/1/weights.bin', bytes: 3, checksum: 'x', source };
  const models = [{ objects: [{ object, action: 'upload' }], leftovers: [] }] as unknown as PlannedModel[];
  const error = await writer.uploadVersions(models, { objects: new Map() }).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(UserError);
  expect((error as UserError).message).toMatch(new RegExp(`^cannot restore m/1/weights.bin: .*${code}`));
  expect((error as UserError).hint).toMatch(hint);
});

test('describe records the ETag of an object that was written again with the same bytes, and a checksum that was unknown', () => {
  const { store } = new MemoryStore();
  const writer = new RepositoryWriter(store, { bucket: 'bucket', prefix: 'models' });
  const keep = (key: string) => ({ object: { key, bytes: 1 }, action: 'keep', etag: 'new', checksum: 'x' });
  const planned = { model: {}, objects: [keep('m/found.txt'), keep('m/labels.txt')], config: keep('m/config.pbtxt') };
  const known = { bytes: 1, checksum: 'x', versionId: 'v' };
  const objects = {
    'm/config.pbtxt': { ...known, etag: 'new' },
    // Found in the bucket, so its checksum was unknown.
    'm/found.txt': { ...known, etag: 'new', checksum: '' },
    'm/labels.txt': { ...known, etag: 'old' },
  };
  const described = writer.describe(
    planned as unknown as PlannedModel,
    { objects: new Map() } as RepositorySnapshot,
    { objects } as unknown as ReleasedModel,
    new Set(),
  );
  expect(described.objects).toEqual({
    'm/config.pbtxt': { ...known, etag: 'new' },
    'm/found.txt': { bytes: 1, checksum: 'x', etag: 'new' },
    'm/labels.txt': { bytes: 1, checksum: 'x', etag: 'new' },
  });
});

test('publish activates models together, and an ensemble after its steps', async () => {
  const memory = new MemoryStore();
  const repository = writeRepository(join(scratch.directory, 'ensembles'), {
    ...addingModel('first', { 1: 10 }),
    ...addingModel('last', { 1: 10 }),
    ...addingEnsemble('ensemble', 'last'),
  });
  const put = memory.putBytes.bind(memory);
  const log: string[] = [];
  memory.putBytes = async (...args) => {
    const name = /^models\/(.*)\/config.pbtxt$/.exec(args[0])?.[1];
    if (name !== undefined) log.push(`begin ${name}`);
    // The second model of the plan is written before the first one.
    if (name === 'last') await new Promise((resolve) => setTimeout(resolve, 50));
    const written = await put(...args);
    if (name !== undefined) log.push(`end ${name}`);
    return written;
  };
  const { uploaded } = await publisher(memory.store, { bucket: 'bucket', prefix: 'models' }, repository).publish();
  expect(log).toEqual(['begin last', 'begin first', 'end first', 'end last', 'begin ensemble', 'end ensemble']);
  expect(uploaded.slice(-3)).toEqual(['last/config.pbtxt', 'first/config.pbtxt', 'ensemble/config.pbtxt']);
});

test('publish with prune does not wait for replicas that start during the deletion', async () => {
  const { store } = new MemoryStore();
  const repository = writeRepository(join(scratch.directory, 'repository'), TWO_MODELS);
  const triton = await fakeTriton(scratch, store);
  const bucket = publisher(store, { bucket: 'bucket', prefix: 'models' }, repository, () => [triton.url]);
  await bucket.publish();
  rmSync(join(repository, 'b'), { recursive: true });
  const ready = { name: 'ready', url: triton.url, ready: true };
  const starting = { name: 'starting', url: 'http://127.0.0.1:1', ready: false };
  let isDeleting = false;
  const waiting: (readonly string[])[] = [];
  await bucket.publish({
    prune: true,
    loadTimeoutMs: 1500,
    replicas: {
      describe: () => 'replicas',
      list: () => Promise.resolve(isDeleting ? [ready, starting] : [ready]),
      close: () => Promise.resolve(),
    },
    onStage: (text) => (isDeleting ||= text.startsWith('delete ')),
    onWaiting: (names) => waiting.push(names),
  });
  expect(isDeleting).toBe(true);
  expect(waiting).toEqual([]);
  expect((await store.list('models/b/')).length).toBe(0);
});

test('publish changes nothing if another publisher acquires the lock first', async () => {
  const memory = new MemoryStore();
  const location = { bucket: 'bucket', prefix: 'models' };
  const repository = writeRepository(join(scratch.directory, 'other'), ONE_MODEL);
  const holder = { user: 'ana', host: 'build-7', pid: 1, place: 'elsewhere' };
  const lock = { state: 'held', id: '1', holder, since: '2026-11-20T10:00:00Z', intent: NO_INTENT };
  memory.onPut = (key) => {
    if (key === lockKey(location))
      memory.objects.set(key, { body: Buffer.from(JSON.stringify(lock)), writtenAt: Date.now() });
  };
  const publishing = publisher(memory.store, location, repository).publish({ lockTimeoutMs: 1 });
  await expect(publishing).rejects.toThrow('another publisher is at work: ana@build-7');
  expect([...memory.objects.keys()]).toEqual([lockKey(location)]);
});

describe('a publisher that cannot renew its lock in time', () => {
  const location = { bucket: 'bucket', prefix: 'models' };
  afterEach(() => void jest.restoreAllMocks());

  /** The clocks jump by a minute, so the lock counts as lost until it is taken again. */
  const jump = (): void => {
    const later = Date.now() + 61_000;
    jest.spyOn(Date, 'now').mockImplementation(() => later);
  };

  /** Publishes a changed model with prune. @returns the writes in their order, and those between the jump and the next lock */
  async function publishWithJump(at: number): Promise<{ writes: string[]; late: string[]; error: unknown }> {
    const memory = new MemoryStore();
    const repository = join(scratch.directory, `jump-${at}`);
    const { publish } = publisher(memory.store, location, repository);
    writeRepository(repository, { ...addingModel('a', { 1: 1 }), 'a/labels.txt': '1' });
    await publish();
    rmSync(repository, { recursive: true });
    writeRepository(repository, { ...addingModel('a', { 2: 2 }), 'a/labels.txt': '2' });
    const writes: string[] = [];
    const late: string[] = [];
    let isLost = false;
    memory.onPut = (key) => {
      if (isLost && key !== lockKey(location)) late.push(key);
      if (key === lockKey(location)) isLost = false;
      writes.push(key);
      if (writes.length !== at) return;
      isLost = true;
      jump();
    };
    const error: unknown = await publish({ prune: true }).catch((caught: unknown) => caught);
    jest.restoreAllMocks();
    return { writes, late, error };
  }

  test('writes nothing before it takes the lock again, at whatever write the time passes', async () => {
    const { writes } = await publishWithJump(Infinity);
    const changes = writes.flatMap((key, i) => (key === lockKey(location) ? [] : [i + 1]));
    expect(changes.length).toBeGreaterThan(5);
    for (const at of changes) {
      const { late, error } = await publishWithJump(at);
      expect([writes[at - 1], late]).toEqual([writes[at - 1], []]);
      expect(error).toBeInstanceOf(UserError);
    }
  });

  test('asks no further replica to load', async () => {
    const memory = new MemoryStore();
    const repository = writeRepository(join(scratch.directory, 'late-load'), ONE_MODEL);
    const onLoad = (): 'ok' => {
      jump();
      return 'ok';
    };
    const first = await fakeTriton(scratch, memory.store, onLoad);
    const second = await fakeTriton(scratch, memory.store);
    const { publish } = publisher(memory.store, location, repository, () => [first.url, second.url]);
    await expect(publish()).rejects.toThrow(/cannot renew the lock of the repository within 50 s/);
    expect(second.loads).toEqual([]);
  });
});

test('publish restores nothing if it is unknown whether its release is the current one', async () => {
  const memory = new MemoryStore();
  const location = { bucket: 'bucket', prefix: 'models' };
  const repository = writeRepository(join(scratch.directory, 'unknown-head'), ONE_MODEL);
  const { publish } = publisher(memory.store, location, repository);
  await publish();
  rmSync(join(repository, 'a'), { recursive: true });
  writeRepository(repository, { ...ONE_MODEL, 'a/1/weights.bin': 'a', 'a/labels.txt': 'new' });
  const [get, put] = [memory.get.bind(memory), memory.putBytes.bind(memory)];
  let isAway = false;
  jest
    .spyOn(memory, 'get')
    .mockImplementation((key) => (isAway && key === headKey(location) ? Promise.reject(new Error('away')) : get(key)));
  jest.spyOn(memory, 'putBytes').mockImplementation(async (key, ...others) => {
    const written = await put(key, ...others);
    if (key !== headKey(location)) return written;
    isAway = true;
    throw new Error('no answer');
  });
  await expect(publish()).rejects.toMatchObject({
    name: 'PartialFailureError',
    message: expect.stringMatching(/^it is unknown whether release .* is the current one: no answer$/) as string,
  });
  jest.restoreAllMocks();
  expect(memory.text('models/a/labels.txt')).toBe('new');
  // The next publisher finishes the change.
  expect((await readLock(memory.store, location)).unfinished.switching).toEqual(['a']);
  expect(await publish()).toMatchObject({ isNew: false });
  expect(memory.text('models/a/labels.txt')).toBe('new');
});
