import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { S3Store } from '../../src/s3/store';
import { ReleaseWriter, TestAgent, type TestModel, type WrittenRelease } from '../support/agent';
import type { ReleasedFile } from '../../src/release/manifest';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

let store: S3Store;
let agent: TestAgent;
let releases: ReleaseWriter;

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, 'agent');
  agent = await TestAgent.create(scratch, 'pod');
  releases = new ReleaseWriter(store);
}, 300_000);

const model = (versions: Record<number, string>, more: Partial<TestModel> = {}): TestModel => ({
  served: Object.keys(versions).map(Number),
  files: Object.fromEntries(Object.entries(versions).map(([version, text]) => [`${version}/weights`, text])),
  ...more,
});

const serves = (release: WrittenRelease) => (): boolean => agent.state.release === release.id;
const onDisk = (path: string): string => readFileSync(join(agent.directory, 'models', path), 'utf8');

let first: WrittenRelease;

test('an agent without a release is ready and serves no models', async () => {
  await agent.start(store);
  await until('ready', () => agent.state.ready);
  expect(agent.state).toMatchObject({ release: 'none', head: { generation: 0 }, models: [] });
});

test('a replica without a release is not ready once a release was committed', async () => {
  await agent.stop();
  await releases.write({ a: model({ 1: 'A' }) });
  rmSync(join(agent.directory, 'serving'));
  rmSync(join(agent.directory, 'notes.json'));
  await store.putBytes('models.releases/view.json', Buffer.from('{}'));
  await agent.start(store);
  await until('the problem', () => agent.state.problem !== null);
  expect(agent.state).toMatchObject({ ready: false, release: null });
  expect(agent.state.problem).toMatch(/head\.json is missing, although releases were committed/);
  await store.delete([{ key: 'models.releases/view.json' }]);
});

test('it follows head.json', async () => {
  first = await releases.write({
    a: model({ 1: 'A' }),
    b: model({ 1: 'B' }, { files: { '1/weights': 'B', 'labels.txt': 'x' } }),
    constructor: model({ 1: 'C' }),
  });
  await releases.commit(first);
  await until('the first release', serves(first));
  expect(agent.state).toMatchObject({ home: first.id, problem: null, bytesOnDisk: 4 });
  expect([onDisk('a/1/weights'), onDisk('b/labels.txt')]).toEqual(['A', 'x']);
  expect(await agent.triton.client.modelReady('a', 1)).toBe(true);
  expect(agent.loads()).toEqual(['a', 'b', 'constructor']);
});

test('a trial is served, and ends at home', async () => {
  const release = await releases.write({ a: model({ 1: 'A', 2: 'A2' }) });
  const { id, status } = await agent.try(release);
  expect(status).toBe(202);
  await until('the trial', () => agent.state.trial?.phase === 'served');
  expect(agent.state).toMatchObject({ release: release.id, home: first.id });
  expect(await agent.triton.client.modelReady('a', 2)).toBe(true);
  // Other pods still serve it.
  expect(await agent.triton.client.modelReady('b', 1)).toBe(true);
  expect(await agent.send('DELETE', `/v1/trials/${id}`, { secret: 'wrong' })).toMatchObject({ status: 403 });
  await agent.send('DELETE', `/v1/trials/${id}`, { secret: release.secret });
  await until('home', serves(first));
  expect(agent.state).toMatchObject({ trial: null, lastTrial: { outcome: 'ended' } });
  expect(await agent.triton.client.modelReady('b', 1)).toBe(true);
});

test('a trial whose release becomes head is home', async () => {
  const release = await releases.write({ a: model({ 1: 'A', 2: 'A2' }) });
  await agent.try(release);
  await until('the trial', () => agent.state.trial?.phase === 'served');
  await releases.commit(release);
  await until('home', () => agent.state.home === release.id);
  expect(agent.state).toMatchObject({ release: release.id, trial: null, lastTrial: { outcome: 'released' } });
  await until('the model is removed', async () => !(await agent.triton.client.modelReady('b', 1)));
  first = release;
});

describe('a pod leaves the Service', () => {
  /** Tries a release, and ends the trial. @returns how often the pod left */
  async function trial(release: WrittenRelease, change: object): Promise<number> {
    agent.events = [];
    const { id } = await agent.try(release, change);
    await until('the trial', () => agent.state.trial?.phase === 'served' && agent.state.ready);
    await agent.send('DELETE', `/v1/trials/${id}`, { secret: release.secret });
    await until('home', () => serves(first)() && agent.state.ready);
    return agent.events.filter(({ event }) => event === 'leave').length;
  }

  test('for a trial, if it is asked to', async () => {
    const release = await releases.write({ a: model({ 1: 'A', 2: 'A2', 3: 'A3' }) });
    expect(await trial(release, { outside: false })).toBe(0);
    expect(await trial(release, { outside: true })).toBe(1);
  });

  test('if an ensemble could not use its steps meanwhile', async () => {
    const config = (output: string, rest = ''): string =>
      `name: "s"\nbackend: "empty"\ninput {\n  name: "input"\n  data_type: TYPE_FP32\n  dims: 1\n}\noutput {\n  name: "${output}"\n  data_type: TYPE_FP32\n  dims: 1\n}\n${rest}`;
    const ensemble = (output: string, rest = ''): Record<string, TestModel> => ({
      s: model({ 1: 'S' }, { config: config(output, rest) }),
      e: {
        ...{ served: [1], files: { '1/.keep': 'x' }, composedOf: ['s'] },
        config: `name: "e"\nplatform: "ensemble"\ninput {\n  name: "x"\n  data_type: TYPE_FP32\n  dims: 1\n}\noutput {\n  name: "y"\n  data_type: TYPE_FP32\n  dims: 1\n}\nensemble_scheduling {\n  step {\n    model_name: "s"\n    model_version: 1\n    input_map { key: "input" value: "x" }\n    output_map { key: "${output}" value: "y" }\n  }\n}\n`,
      },
    });
    first = await releases.write(ensemble('one'));
    await releases.commit(first);
    await until('the ensemble', () => serves(first)() && agent.state.ready);
    const moreInstances = await releases.write(ensemble('one', 'instance_group {\n  count: 2\n  kind: KIND_CPU\n}\n'));
    expect(await trial(moreInstances, {})).toBe(0);
    // It leaves for the trial, and again to return. If no other pod gets requests, it does not wait.
    expect(await trial(await releases.write(ensemble('other')), {})).toBe(2);
    expect(await trial(await releases.write(ensemble('other')), { alone: true })).toBe(0);
    first = await releases.write({ a: model({ 1: 'A', 2: 'A2' }) });
    await releases.commit(first);
    await until('home', () => serves(first)() && agent.state.ready);
  });
});

test('a pod that cannot serve head tries another release, and serves nothing after that', async () => {
  const pod = await TestAgent.create(scratch, 'other-pod');
  const head = await releases.write({
    a: model({ 1: 'A', 2: 'A2' }),
    b: model({ 1: 'B' }, { config: 'backend: "nothing"\n' }),
  });
  await releases.commit(head);
  await pod.start(store);
  await until('the problem', () => pod.state.problem !== null);
  expect(pod.state).toMatchObject({ ready: false, home: null });
  const release = await releases.write({ a: model({ 1: 'A', 2: 'A2' }) });
  const { id } = await pod.try(release, { alone: true });
  await until('the trial', () => pod.state.trial?.phase === 'served');
  expect(pod.state).toMatchObject({ ready: true, release: release.id });
  await pod.send('DELETE', `/v1/trials/${id}`, { secret: release.secret });
  await until('nothing', () => pod.state.release === 'none');
  await until(
    'head is refused again',
    () => pod.state.problem?.includes(head.id) === true && pod.state.release === 'none',
  );
  expect(pod.state).toMatchObject({ ready: false, home: null });
  expect((await pod.triton.client.repositoryIndex()).filter(({ state }) => state === 'READY')).toEqual([]);
  await pod.try(release, { alone: true });
  await until('the trial', () => pod.state.trial?.phase === 'served');
  await releases.commit(release);
  await until('home', () => pod.state.home === release.id);
  await pod.stop();
  first = release;
  await until('the first pod follows', serves(first));
});

test('a trial expires unless it is renewed', async () => {
  const release = await releases.write({ a: model({ 1: 'A', 3: 'A3' }) });
  const { id } = await agent.try(release, { ttlSeconds: 2 });
  const renewal = { secret: release.secret, ttlSeconds: 60 };
  expect(await agent.send('PUT', `/v1/trials/${id}`, renewal)).toMatchObject({ status: 200 });
  await until('the trial', () => agent.state.trial?.phase === 'served');
  expect(agent.state.trial?.leftSeconds).toBeGreaterThan(30);
  expect(Number.isInteger(agent.state.trial?.leftSeconds)).toBe(false);
  await agent.send('PUT', `/v1/trials/${id}`, { ...renewal, ttlSeconds: 1 });
  await until('home', serves(first));
  expect(agent.state.lastTrial).toMatchObject({ id, outcome: 'expired' });
  expect(await agent.send('PUT', `/v1/trials/${id}`, renewal)).toMatchObject({ status: 404 });
});

describe('the control API refuses', () => {
  let other: WrittenRelease;
  beforeAll(async () => {
    other = await releases.write({ a: model({ 4: 'A4' }) });
  });

  test.each<[string, number, Record<string, unknown>]>([
    ['a stale state tag', 412, { stateTag: 'other.0' }],
    ['a state tag that was read long ago', 412, { stateTag: () => `${agent.state.stateTag.split('.')[0]}.-20000` }],
    ['a release that is built on an older head', 410, { base: 0 }],
    ['a release that is built on a head that does not exist yet', 503, { base: 99 }],
    ['a wrong secret', 403, { secret: 'guess' }],
    ['a manifest with another hash', 503, { manifestSha256: '0'.repeat(64), release: '20261124T000000000Z-0000000b' }],
    ['a release id that is a path', 400, { release: '../../etc/passwd' }],
    ['a request without an end', 400, { ttlSeconds: 0 }],
  ])('%s', async (_, status, change) => {
    const given = Object.entries(change).map(([name, value]) => [
      name,
      typeof value === 'function' ? (value as () => unknown)() : value,
    ]);
    expect(await agent.try(other, Object.fromEntries(given) as Record<string, unknown>)).toMatchObject({ status });
    expect(agent.state.trial).toBeNull();
  });

  test.each<[string, number, Record<string, string>]>([
    ['requests of web pages', 403, { origin: 'http://example.com' }],
    ['forms', 415, { 'content-type': 'text/plain' }],
  ])('%s', async (_, status, headers) => {
    expect(await agent.send('POST', '/v1/trials', {}, headers)).toMatchObject({ status });
  });

  test('another trial while one runs, and names its publisher', async () => {
    const { id } = await agent.try(other, { by: 'ann@laptop' });
    expect(await agent.try(other)).toMatchObject({ status: 409, body: { by: 'ann@laptop', id } });
    await agent.send('DELETE', `/v1/trials/${id}`, { secret: other.secret });
    await until('home', serves(first));
  });

  test('a trial that its publisher ended before the request arrived', async () => {
    agent.events = [];
    const { stateTag } = agent.state;
    await agent.send('DELETE', '/v1/trials/under-way', { secret: 'anything' });
    expect(await agent.try(other, { id: 'under-way', stateTag })).toMatchObject({ status: 412 });
    // The request of another publisher is not disturbed, and nothing is read from S3.
    expect(agent.state.stateTag.split('.')[0]).toBe(stateTag.split('.')[0]);
    expect(agent.events).toEqual([]);
  });
});

test('a manifest that Triton cannot read is refused before anything changes', async () => {
  const release = await releases.write({ a: model({ 0: 'A' }) });
  expect(await agent.try(release)).toMatchObject({
    status: 422,
    body: { error: expect.stringContaining('served[0] is 0') as string },
  });
  expect(agent.state).toMatchObject({ release: first.id, trial: null });
});

describe('bytes that are not those of the manifest', () => {
  test.each<[string, (file: ReleasedFile) => ReleasedFile, string]>([
    [
      'another content',
      (file) => ({ ...file, checksum: `${'A'.repeat(43)}=` }),
      'does not have the bytes of the release',
    ],
    ['another size', (file) => ({ ...file, bytes: file.bytes + 5 }), 'does not have the bytes of the release'],
    ['a file that is gone', (file) => ({ ...file, key: `${file.key}1` }), 'does not exist'],
  ])('%s', async (_, change, reason) => {
    const release = await releases.write({ a: model({ 5: 'A5' }) }, change);
    await agent.try(release);
    await until('refused', () => agent.state.lastTrial?.release === release.id);
    expect(agent.state.lastTrial?.outcome).toBe('refused');
    expect(agent.state.lastTrial?.reason).toContain(reason);
    await until('home', serves(first));
  });
});

test('an agent reads head.json at once when its publisher has committed', async () => {
  await agent.stop();
  await agent.start(store, { pollMs: 3_600_000 });
  await until('it serves a release', () => agent.state.release !== null);
  const release = await releases.write({ a: model({ 4: 'A4' }) });
  const { id } = await agent.try(release);
  await until('the trial', serves(release));
  const before = agent.state.head?.generation ?? 0;
  await releases.commit(release);
  const renewal = { secret: release.secret, ttlSeconds: 60 };
  await agent.send('PUT', `/v1/trials/${id}`, renewal);
  expect(agent.state.head?.generation).toBe(before);
  await agent.send('PUT', `/v1/trials/${id}`, { ...renewal, committed: true });
  await until('the new generation', () => agent.state.head?.generation === before + 1);
  expect(agent.state).toMatchObject({ home: release.id, trial: null });
});
