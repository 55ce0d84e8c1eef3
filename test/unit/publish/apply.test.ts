import { rmSync } from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { RepositoryWriter } from '../../../src/publish/apply/repository-writer';
import { NO_INTENT, readLock } from '../../../src/publish/lock';
import { headKey, lockKey } from '../../../src/release/location';
import type { PlannedModel } from '../../../src/publish/plan/plan';
import { readSnapshot, type RepositorySnapshot } from '../../../src/publish/plan/snapshot';
import { newRelease, writeHead, type ReleasedModel } from '../../../src/publish/release/release';
import { S3Store } from '../../../src/s3/store';
import { fakeTriton } from '../../support/fake-triton';
import { MemoryStore } from '../../support/memory-store';
import { ONE_MODEL, publisher } from '../../support/publish';
import { addingEnsemble, addingModel, writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'bucket', prefix: 'models' };

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0).reverse()) step();
});

/** A store that has nothing, and answers a copy with this error. */
async function storeThatRefuses(code: string, status: number): Promise<S3Store> {
  const server = http.createServer(({ method, url = '' }, reply) => {
    const [said, as] = url.includes('/kept/') ? [code, status] : ['NoSuchKey', 404];
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
  const writer = new RepositoryWriter(store, LOCATION);
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
  const { uploaded } = await publisher(memory.store, LOCATION, repository).publish();
  expect(log).toEqual(['begin last', 'begin first', 'end first', 'end last', 'begin ensemble', 'end ensemble']);
  expect(uploaded.slice(-3)).toEqual(['last/config.pbtxt', 'first/config.pbtxt', 'ensemble/config.pbtxt']);
});

test('publish changes nothing if another publisher acquires the lock first', async () => {
  const memory = new MemoryStore();
  const repository = writeRepository(join(scratch.directory, 'other'), ONE_MODEL);
  const holder = { user: 'ana', host: 'build-7', pid: 1, place: 'elsewhere' };
  const lock = { state: 'held', id: '1', holder, since: '2026-11-20T10:00:00Z', intent: NO_INTENT };
  memory.onPut = (key) => {
    if (key === lockKey(LOCATION))
      memory.objects.set(key, { body: Buffer.from(JSON.stringify(lock)), writtenAt: Date.now() });
  };
  const publishing = publisher(memory.store, LOCATION, repository).publish({ lockTimeoutMs: 1 });
  await expect(publishing).rejects.toThrow('another publisher is at work: ana@build-7');
  expect([...memory.objects.keys()]).toEqual([lockKey(LOCATION)]);
});

test('a publisher whose lock was taken over restores the release of the other one, on replicas too', async () => {
  const memory = new MemoryStore();
  const repository = join(scratch.directory, 'taken-over');
  const triton = await fakeTriton(scratch, memory.store);
  const { publish } = publisher(memory.store, LOCATION, repository, () => [triton.url]);
  writeRepository(repository, addingModel('a', { 1: 1 }));
  const { release } = await publish();
  const released = { config: memory.text('models/a/config.pbtxt'), loaded: triton.loaded.get('a') };
  writeRepository(repository, addingModel('a', { 1: 1, 2: 2 }));
  const takeOver = async (): Promise<void> => {
    const lock = JSON.parse(memory.text(lockKey(LOCATION)) ?? '') as object;
    await memory.putBytes(
      lockKey(LOCATION),
      JSON.stringify({ ...lock, id: 'other', state: 'free', intent: NO_INTENT }),
    );
    const { head } = await readSnapshot(memory.store, LOCATION);
    const next = newRelease({ previous: release?.id, origin: 'other', models: release?.models ?? {} });
    await writeHead(memory.store, LOCATION, next, head);
  };
  await expect(publish({ ask: takeOver })).rejects.toThrow(/another publisher/);
  expect(memory.text('models/a/config.pbtxt')).toBe(released.config);
  expect(triton.loaded.get('a')).toEqual(released.loaded);
  expect((await readLock(memory.store, LOCATION)).unfinished).toEqual(NO_INTENT);
});

describe('a publisher that cannot renew its lock in time', () => {
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
    const { publish } = publisher(memory.store, LOCATION, repository);
    writeRepository(repository, { ...addingModel('a', { 1: 1 }), 'a/labels.txt': '1' });
    await publish();
    rmSync(repository, { recursive: true });
    writeRepository(repository, { ...addingModel('a', { 2: 2 }), 'a/labels.txt': '2' });
    const writes: string[] = [];
    const late: string[] = [];
    let isLost = false;
    memory.onPut = (key) => {
      if (isLost && key !== lockKey(LOCATION)) late.push(key);
      if (key === lockKey(LOCATION)) isLost = false;
      writes.push(key);
      if (writes.length !== at) return;
      isLost = true;
      jump();
    };
    const error: unknown = await publish({ prune: true }).catch((caught: unknown) => caught);
    jest.restoreAllMocks();
    return { writes, late, error };
  }

  test('writes nothing more until it takes the lock again, for each write at which the lock expires', async () => {
    const { writes } = await publishWithJump(Infinity);
    const changes = writes.flatMap((key, i) => (key === lockKey(LOCATION) ? [] : [i + 1]));
    expect(changes.length).toBeGreaterThan(5);
    for (const at of changes) {
      const { late, error } = await publishWithJump(at);
      expect([writes[at - 1], late]).toEqual([writes[at - 1], []]);
      expect(error).toBeInstanceOf(UserError);
    }
  });

  test('loads nothing more while it restores the previous release', async () => {
    const memory = new MemoryStore();
    const repository = join(scratch.directory, 'late-restore');
    let loads = 0;
    const first = await fakeTriton(scratch, memory.store, () => {
      loads += 1;
      if (loads === 5) jump();
      return 'ok';
    });
    let isBroken = false;
    const second = await fakeTriton(scratch, memory.store, () => (isBroken ? 'refuse' : 'ok'));
    const { publish } = publisher(memory.store, LOCATION, repository, () => [first.url, second.url]);
    writeRepository(repository, { ...addingModel('a', { 1: 1 }), ...addingModel('b', { 1: 1 }) });
    await publish({ noAsk: true });
    writeRepository(repository, { ...addingModel('a', { 1: 1, 2: 2 }), ...addingModel('b', { 1: 1, 2: 2 }) });
    isBroken = true;
    await expect(publish({ noAsk: true })).rejects.toMatchObject({
      name: 'PartialFailureError',
      message: expect.stringMatching(/failed too: .*cannot renew the lock/s) as string,
    });
    jest.restoreAllMocks();
    expect(first.loads).toHaveLength(5);
    expect((await readLock(memory.store, LOCATION)).unfinished.switching.sort()).toEqual(['a', 'b']);
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
    const { publish } = publisher(memory.store, LOCATION, repository, () => [first.url, second.url]);
    await expect(publish()).rejects.toThrow(/cannot renew the lock of the repository within 50 s/);
    expect(second.loads).toEqual([]);
  });
});

test('publish restores nothing if it is unknown whether its release is the current one', async () => {
  const memory = new MemoryStore();
  const repository = writeRepository(join(scratch.directory, 'unknown-head'), ONE_MODEL);
  const { publish } = publisher(memory.store, LOCATION, repository);
  await publish();
  rmSync(join(repository, 'a'), { recursive: true });
  writeRepository(repository, { ...ONE_MODEL, 'a/1/weights.bin': 'a', 'a/labels.txt': 'new' });
  const [get, put] = [memory.get.bind(memory), memory.putBytes.bind(memory)];
  let isAway = false;
  jest
    .spyOn(memory, 'get')
    .mockImplementation((key) => (isAway && key === headKey(LOCATION) ? Promise.reject(new Error('away')) : get(key)));
  jest.spyOn(memory, 'putBytes').mockImplementation(async (key, ...others) => {
    const written = await put(key, ...others);
    if (key !== headKey(LOCATION)) return written;
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
  expect((await readLock(memory.store, LOCATION)).unfinished.switching).toEqual(['a']);
  expect(await publish()).toMatchObject({ isNew: false });
  expect(memory.text('models/a/labels.txt')).toBe('new');
});
