import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describeStatus } from '../../scripts/status';
import { pruneReleases } from '../../src/commands/prune-command';
import { PUBLISH_FLAGS, runPublishCommand, type PublishFlags } from '../../src/commands/publish-command';
import type { CommandTarget } from '../../src/commands/target';
import type { ReplicaSource } from '../../src/publish/cluster/source';
import { forEachLimited } from '../../src/core/concurrency';
import { PartialFailureError, UsageError } from '../../src/core/errors';
import { AgentClient } from '../../src/publish/agent-client';
import { HeadFile } from '../../src/publish/head-file';
import { listReleases } from '../../src/publish/list-releases';
import type { ReleaseOptions } from '../../src/publish/options';
import { promote } from '../../src/publish/promote';
import { planPrune, prune } from '../../src/publish/prune';
import { publish, type PublishOptions } from '../../src/publish/publish';
import { Releases } from '../../src/publish/releases';
import { repairHead } from '../../src/publish/repair-head';
import { rollBack } from '../../src/publish/rollback';
import { isAsReleased, repositoryStatus } from '../../src/publish/status';
import { repairView } from '../../src/publish/view';
import { FORMAT } from '../../src/release/format';
import { parseHead, type Head } from '../../src/release/head';
import { filesPrefix, headKey, releaseKey, viewKey, type RepositoryLocation } from '../../src/release/location';
import { encodeManifest, parseManifest, sha256Hex, type Manifest } from '../../src/release/manifest';
import { PART_BYTES, type S3Store } from '../../src/s3/store';
import { startScriptedProxy } from '../support/scripted-proxy';
import { writeRepository } from '../support/repository';
import { podSource, RulePod } from '../support/rule-pod';
import { openBucket, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const location = { bucket: 'agents', prefix: 'models' };
const repository = join(scratch.directory, 'repository');
let store: S3Store;
let bucket: { store: S3Store; location: typeof location };
let pods: RulePod[];
let replicas: ReplicaSource;

let endpoint: string;

beforeAll(async () => {
  ({ endpoint } = await testS3(scratch));
  store = await openBucket(scratch, endpoint, location.bucket);
  bucket = { store, location };
  pods = await Promise.all(['pod-a', 'pod-b'].map((name) => RulePod.start(scratch, name, store, location)));
  replicas = podSource(() => pods);
}, 120_000);

const CONFIG = 'backend: "anything"\ninstance_group [{ kind: KIND_CPU }]\nversion_policy { all {} }\n';

/** Writes a folder of models: content by `MODEL/VERSION`. */
function write(contents: Record<string, string>, more: Record<string, string> = {}): void {
  rmSync(repository, { recursive: true, force: true });
  const models = [...new Set(Object.keys(contents).map((key) => key.split('/')[0]))];
  writeRepository(repository, {
    ...Object.fromEntries(models.map((name) => [`${name}/config.pbtxt`, CONFIG])),
    ...Object.fromEntries(Object.entries(contents).map(([key, text]) => [`${key}/weights`, text])),
    ...more,
  });
}

interface Ran {
  code: number;
  json: Record<string, unknown> & { release: string };
}

/** Runs a command that publishes with --json as the scripts do. */
const run = (
  work: Parameters<typeof runPublishCommand>[3],
  ...more: Tail<Parameters<typeof runCommand>>
): Promise<Ran> => runCommand((flags, target) => runPublishCommand('test', flags, target, work), ...more);

type Tail<T extends unknown[]> = T extends [unknown, ...infer Rest] ? Rest : never;

/** Runs a command with --json. */
async function runCommand(
  command: (flags: PublishFlags, target: CommandTarget) => Promise<number>,
  flags: Partial<PublishFlags> = {},
  source: ReplicaSource | null = replicas,
  at = location,
): Promise<Ran> {
  const defaults = Object.fromEntries(
    Object.entries(PUBLISH_FLAGS).flatMap(([name, flag]) => ('default' in flag ? [[name, flag.default]] : [])),
  ) as unknown as PublishFlags;
  const target = {
    ...{ name: 'test', flags: {}, location: at, store, replicas: source ?? undefined },
    close: () => Promise.resolve(),
  };
  let output = '';
  const spy = jest.spyOn(process.stdout, 'write').mockImplementation((text) => {
    output += String(text);
    return true;
  });
  const quiet = jest.spyOn(process.stderr, 'write').mockReturnValue(true);
  try {
    const code = await command({ ...defaults, 'load-timeout': '20', ...flags, json: true }, target);
    return { code, json: JSON.parse(output) as Ran['json'] };
  } finally {
    spy.mockRestore();
    quiet.mockRestore();
  }
}

const sync = (flags: Partial<PublishFlags> = {}, more: Partial<PublishOptions> = {}, source = replicas): Promise<Ran> =>
  run((options) => publish({ ...options, repository, ...more }), flags, source);

const readHeadFile = async (): Promise<Head> =>
  parseHead((await store.get(headKey(location)))?.body ?? Buffer.alloc(0), 'head.json');

const view = async (): Promise<string[]> => (await store.list('models/')).map(({ key }) => key.slice('models/'.length));

const text = async (key: string): Promise<string | undefined> => (await store.get(key))?.body.toString();

test('sync-models has every replica try a release; a dry run changes nothing', async () => {
  write({ 'a/1': 'A', 'b/1': 'B' }, { 'a/labels.txt': 'x\n' });
  const plan = await sync({ 'dry-run': true });
  expect(plan.json).toMatchObject({ release: null, isNew: true, changed: ['a', 'b'] });
  expect(await store.get(headKey(location))).toBeUndefined();
  const { code, json } = await sync({ message: 'first' });
  expect({ code, ...json }).toMatchObject({ code: 0, isNew: true, replicas: ['pod-a', 'pod-b'] });
  expect(pods.map(({ state, served }) => [state.release, served])).toEqual([
    [json.release, { 'a/1': 'A', 'b/1': 'B' }],
    [json.release, { 'a/1': 'A', 'b/1': 'B' }],
  ]);
  expect(await view()).toEqual(['a/1/weights', 'a/config.pbtxt', 'a/labels.txt', 'b/1/weights', 'b/config.pbtxt']);
  expect(await listReleases(bucket, 9)).toMatchObject([
    {
      id: json.release,
      isCurrent: true,
      message: 'first',
      serves: { a: [1], b: [1] },
      changes: ['new a 1', 'new b 1'],
    },
  ]);
});

test('the same folder again publishes nothing', async () => {
  const { json } = await sync();
  expect(json).toMatchObject({ isNew: false, uploaded: [], replicas: ['pod-a', 'pod-b'] });
});

test('a refused release changes nothing, and its number can be used again', async () => {
  const before = await readHeadFile();
  write({ 'a/1': 'A', 'a/2': 'bad', 'b/1': 'B' }, { 'a/labels.txt': 'x\n' });
  await expect(sync()).rejects.toThrow(/pod-a does not serve the release: .*version 2: bad/);
  expect(await readHeadFile()).toEqual(before);
  expect(pods.map(({ served }) => served)).toEqual([
    { 'a/1': 'A', 'b/1': 'B' },
    { 'a/1': 'A', 'b/1': 'B' },
  ]);
  write({ 'a/2': 'A2', 'b/1': 'B' });
  const { json } = await sync();
  expect(json).toMatchObject({ changed: ['a'] });
  expect(pods.map(({ served }) => served['a/2'])).toEqual(['A2', 'A2']);
  expect(await view()).toEqual(['a/2/weights', 'a/config.pbtxt', 'b/1/weights', 'b/config.pbtxt']);
  expect(await text('models/a/2/weights')).toBe('A2');
});

test('no client reaches a release that answers wrongly, or misses a model that a refused release removes', async () => {
  const before = await readHeadFile();
  write({ 'a/2': 'A2', 'a/3': 'wrong' });
  const seen = new Set<string>();
  const look = setInterval(() => {
    for (const { name, state, served } of pods) {
      if (!state.ready) seen.add(`${name} is not ready`);
      else if (served['a/3'] !== undefined) seen.add(`${name} answers wrongly`);
      else if (served['b/1'] === undefined) seen.add(`${name} misses b`);
    }
  }, 1);
  await expect(sync({}, { prune: true })).rejects.toThrow(/pod-a does not serve the release: /);
  clearInterval(look);
  expect([...seen]).toEqual(['pod-a is not ready']);
  expect(await readHeadFile()).toEqual(before);
});

test('status names the release of each replica, and the device of each model', async () => {
  const status = await repositoryStatus(bucket, replicas);
  expect(isAsReleased(status)).toBe(true);
  expect(describeStatus({ name: 'test', replicas }, status)).toMatch(/pod-a .* a 2 \(CPU\), b 1 \(CPU\) /);
  expect(status.replicas.map(({ agent }) => agent?.release)).toEqual([status.release?.id, status.release?.id]);
});

test('a rollback writes a new release, and accepts only retained ones', async () => {
  const [, first] = await listReleases(bucket, 9);
  const { json } = await run((options) => rollBack(undefined, options));
  expect(json).toMatchObject({ isNew: true, uploaded: [] });
  expect(pods.map(({ served }) => served)).toEqual([
    { 'a/1': 'A', 'b/1': 'B' },
    { 'a/1': 'A', 'b/1': 'B' },
  ]);
  const [now] = await listReleases(bucket, 9);
  expect(now).toMatchObject({ origin: `rollback to ${first?.id}`, message: 'first' });
  await expect(run((options) => rollBack('nothing', options))).rejects.toThrow('retains no release whose id contains');
  // Back to the release before the rollback, one model only.
  const [, second] = await listReleases(bucket, 9);
  await run((options) => rollBack(second?.id, { ...options, models: ['a'] }));
  expect(pods[0]?.served).toEqual({ 'a/2': 'A2', 'b/1': 'B' });
});

test('the next run completes what an interrupted one has written for other servers, and --repair writes it again', async () => {
  const before = await view();
  // It was killed while it removed a model and added a version.
  const written = JSON.parse((await text(viewKey(location))) as string) as { objects: Record<string, string> };
  const objects = { ...written.objects, 'models/gone/1/weights': '', 'models/b/1/weights': '' };
  await store.putBytes('models/gone/1/weights', Buffer.from('gone'));
  await store.delete([{ key: 'models/b/1/weights' }]);
  await store.putBytes(viewKey(location), Buffer.from(JSON.stringify({ format: FORMAT, objects })));
  write({ 'a/2': 'A2', 'b/1': 'B' });
  expect((await sync()).json).toMatchObject({ isNew: false });
  expect(await view()).toEqual(before);
  await store.putBytes('models/b/config.pbtxt', Buffer.from('other'));
  await repairView(new HeadFile(store, location), store, location, { isForced: true });
  expect(await text('models/b/config.pbtxt')).toContain('specific');
});

/** Publishes the folder to a place without replicas. */
const untriedAt = (at: RepositoryLocation) => ({
  store,
  location: at,
  untried: true,
  repository,
  loadTimeoutMs: 20_000,
  waitMs: 0,
});

test('a publisher whose requests are late does not leave the repository of an earlier release', async () => {
  const at = { bucket: location.bucket, prefix: 'late' };
  const late = Object.create(store) as S3Store;
  const given = untriedAt(at);
  write({ 'a/1': 'A1' }, { 'a/labels.txt': 'first' });
  const first = (await publish(given)).release?.id as string;
  write({ 'a/1': 'A1', 'b/1': 'B' }, { 'a/labels.txt': 'second' });
  let isLate = true;
  late.putBytes = async (key, ...more) => {
    if (isLate && key.startsWith('late/b/')) {
      isLate = false;
      await rollBack(first, given);
    }
    return store.putBytes(key, ...more);
  };
  await publish({ ...given, store: late });
  expect(await text('late/a/labels.txt')).toBe('first');
  expect((await store.list('late/')).map(({ key }) => key)).toEqual([
    'late/a/1/weights',
    'late/a/config.pbtxt',
    'late/a/labels.txt',
  ]);
});

test('a view.json that is lost or damaged is written again, and nothing of former releases stays', async () => {
  const at = { bucket: location.bucket, prefix: 'damaged' };
  const given = untriedAt(at);
  for (const lose of [
    () => store.putBytes(viewKey(at), Buffer.from('{')),
    () => store.delete([{ key: viewKey(at) }]),
  ]) {
    write({ 'a/1': 'A', 'b/1': 'B' });
    await publish({ ...given, prune: true });
    await lose();
    write({ 'a/1': 'A' });
    await publish({ ...given, prune: true });
    expect((await store.list('damaged/')).map(({ key }) => key)).toEqual([
      'damaged/a/1/weights',
      'damaged/a/config.pbtxt',
    ]);
  }
});

test('objects of other tools under the prefix survive a publish', async () => {
  const others = ['other/config.pbtxt', 'staging/resnet/1/model.pt'];
  for (const key of others) await store.putBytes(`models/${key}`, Buffer.from('other'));
  write({ 'a/2': 'A2', 'b/1': 'B' });
  await sync();
  for (const key of others) expect(await store.get(`models/${key}`)).toBeDefined();
  await store.delete(others.map((key) => ({ key: `models/${key}` })));
});

test('a release that no replica can try needs --untried', async () => {
  write({ 'a/3': 'A3', 'b/1': 'B' });
  const none = podSource(() => []);
  await expect(sync({}, {}, none)).rejects.toThrow('no replica is running that could try the release');
  await expect(run((options) => publish({ ...options, repository }), {}, null)).rejects.toThrow(
    'no replicas were given, so no replica would try the release',
  );
  const { json } = await sync({ untried: true }, {}, none);
  await until('the replicas follow', () => pods.every(({ state }) => state.release === json.release));
});

test('agents of another repository are refused before anything is uploaded', async () => {
  write({ 'alpha/1': 'elsewhere' });
  const at = { ...location, prefix: 'elsewhere' };
  await expect(run((options) => publish({ ...options, repository }), {}, replicas, at)).rejects.toMatchObject({
    message: 'the agent of pod-a serves s3://agents/models, not s3://agents/elsewhere',
  });
  expect(await store.list('elsewhere')).toEqual([]);
});

test('--unload-first is recorded in the release', async () => {
  write({ 'a/3': 'A3', 'b/2': 'B2' });
  const { json } = await sync({ 'unload-first': true });
  const manifest = await store.get(releaseKey(location, json.release));
  expect(JSON.parse(manifest?.body.toString() ?? '')).toMatchObject({ unloadFirst: true });
});

test('Ctrl-C ends the trials, and the replicas go back', async () => {
  const before = await readHeadFile();
  const stop = new AbortController();
  write({ 'a/5': 'A5', 'b/1': 'B' });
  const publishing = run((options) =>
    publish({
      ...options,
      repository,
      signal: stop.signal,
      onStage: (text) => {
        if (/pod-a: serves/.test(text)) stop.abort(new UsageError('stopped'));
      },
    }),
  );
  await expect(publishing).rejects.toThrow('stopped');
  expect(await readHeadFile()).toEqual(before);
  expect(pods.map(({ state }) => [state.release, state.trial])).toEqual([
    [before.release, null],
    [before.release, null],
  ]);
});

/** Calls back whenever the replicas of `source` are listed after a release other than `before` became the current one. */
const afterCommit = (before: string, work: () => void): ReplicaSource => ({
  ...replicas,
  list: async () => {
    if ((await readHeadFile()).release !== before) work();
    return replicas.list();
  },
});

test('replicas that cannot be listed after the commit are asked all the same', async () => {
  const before = await readHeadFile();
  write({ 'a/5': 'A5', 'b/1': 'B' });
  let failed = 0;
  const source = afterCommit(before.release, () => {
    failed += 1;
    throw new Error('no connection');
  });
  const { code, json } = await sync({}, {}, source);
  expect([code, failed > 0]).toEqual([0, true]);
  expect(pods.map(({ state }) => state.release)).toEqual([json.release, json.release]);
});

test('Ctrl-C after the commit ends the wait only: the release stays the current one', async () => {
  const before = await readHeadFile();
  const stop = new AbortController();
  write({ 'a/1': 'A', 'b/1': 'B' });
  const spy = jest.spyOn(AgentClient.prototype, 'getState');
  const source = afterCommit(before.release, () => {
    spy.mockRejectedValue(new Error('no answer'));
    stop.abort(new UsageError('stopped'));
  });
  const publishing = run((options) => publish({ ...options, repository, signal: stop.signal }), {}, source);
  const error = await publishing.catch((reason: unknown) => reason as Error);
  spy.mockRestore();
  expect(error).toBeInstanceOf(PartialFailureError);
  const { release } = await readHeadFile();
  expect(error).toMatchObject({
    message: `release ${release} is the current one, but the command was interrupted before every replica confirmed it`,
  });
  expect(release).not.toBe(before.release);
  await until('the replicas follow', () => pods.every(({ state }) => state.release === release));
});

test('of two publishers one commits, and the other changes nothing', async () => {
  write({ 'a/6': 'A6', 'b/1': 'B' });
  const options = { store, location, agents: replicas, loadTimeoutMs: 20_000, waitMs: 0, repository };
  const both = await Promise.allSettled([publish(options), publish(options)]);
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  const { release } = await readHeadFile();
  expect(pods.map(({ state }) => state.release)).toEqual([release, release]);
});

test('the number of a released version stays taken while a release that has it is retained', async () => {
  write({ 'a/7': 'A7', 'b/1': 'B' });
  await sync();
  write({ 'a/8': 'A8', 'b/1': 'B' });
  await sync();
  write({ 'a/7': 'other', 'b/1': 'B' });
  await expect(sync()).rejects.toThrow('cannot change published versions:\n  a/7/weights');
  write({ 'a/7': 'A7', 'b/1': 'B' });
  expect((await sync()).json).toMatchObject({ isNew: true, uploaded: [] });
  write({ 'a/8': 'A8', 'b/1': 'B' });
  await sync();
});

test('a publisher that planned before a prune cannot commit what the prune may delete', async () => {
  write({ 'a/9': 'A9', 'b/1': 'B' });
  const putFile = store.putFile.bind(store);
  const spy = jest.spyOn(store, 'putFile').mockImplementation(async (key, ...rest) => {
    spy.mockImplementation(putFile);
    const written = await putFile(key, ...rest);
    const head = new HeadFile(store, location);
    const releases = await Releases.read(bucket, head);
    const plan = await planPrune(releases, await releases.requireAll(), store, location);
    expect(plan.orphans.map((orphan) => orphan.key)).toContain(key);
    await prune(releases, plan, { head, store, writer: 'test' });
    return written;
  });
  const { json } = await sync({ wait: '20' });
  spy.mockRestore();
  const { models } = parseManifest((await store.get(releaseKey(location, json.release)))?.body as Buffer, 'x');
  const { sweep } = await readHeadFile();
  expect(models['a']?.files[0]?.key).toMatch(new RegExp(`^${filesPrefix(location)}.*\\.${sweep}$`));
  expect(pods.map(({ served }) => served['a/9'])).toEqual(['A9', 'A9']);
  write({ 'a/8': 'A8', 'b/1': 'B' });
  await sync();
});

test('promote copies a release to another prefix, and back nothing is new', async () => {
  const prod = { bucket: location.bucket, prefix: 'prod' };
  const { json } = await run((options) => promote({ ...options, from: bucket }), { untried: true }, null, prod);
  expect(json).toMatchObject({ isNew: true, changed: ['a', 'b'] });
  expect(await text('prod/a/8/weights')).toBe('A8');
  const before = await readHeadFile();
  const back = await run((options) => promote({ ...options, from: { store, location: prod } }));
  expect(back.json).toMatchObject({ isNew: false });
  expect(await readHeadFile()).toEqual(before);
});

test('promote copies small and large files to a bucket of another server', async () => {
  const other = (await testS3(scratch, 'second')).endpoint;
  const second = await openBucket(scratch, other, 'prod');
  const source = { bucket: location.bucket, prefix: 'large' };
  const options: ReleaseOptions = { store, location: source, untried: true, loadTimeoutMs: 20_000, waitMs: 0 };
  const large = randomBytes(PART_BYTES * 2 + 12_345);
  write({ 'a/1': 'A' }, { 'a/labels.txt': 'l' });
  writeRepository(repository, { 'a/1/large.bin': large });
  await publish({ ...options, repository });
  const copy = (to: S3Store) => promote({ ...options, store: to, from: { store, location: source } });
  expect((await copy(second)).isNew).toBe(true);
  expect((await second.get('large/a/1/large.bin'))?.body.equals(large)).toBe(true);
  const keys = async (at: S3Store, prefix: string): Promise<string[]> =>
    (await at.list(`${prefix}/`)).map(({ key }) => key.slice(prefix.length));
  expect(await keys(second, 'large')).toEqual(await keys(store, 'large'));
  // The key of a file is the same in both buckets.
  const files = await second.list('large.releases/files/');
  await second.delete(files.slice(0, 1));
  await copy(second);
  expect(await second.list('large.releases/files/')).toEqual(files);
  // The folder has the same content.
  expect(await publish({ ...options, store: second, repository })).toMatchObject({ isNew: false });
});

test('releases --prune retains the newest releases, and deletes what only the others name', async () => {
  for (const version of [11, 12, 13, 14, 15]) {
    write({ [`a/${version}`]: `A${version}`, 'b/1': 'B' });
    await sync();
  }
  const before = await readHeadFile();
  const pruneAll = (flags: Partial<Parameters<typeof pruneReleases>[0]> = {}): Promise<Ran> =>
    runCommand((given, target) => pruneReleases({ ...given, yes: true, ...flags }, target));
  const { retained } = before;
  // Everything is younger than a week, but refused releases left files.
  const left = (await pruneAll()).json as unknown as { retained: string[]; forgotten: string[]; deleted: string[] };
  expect(left).toMatchObject({ retained, forgotten: [] });
  expect((await pruneAll()).json).toMatchObject({ retained, forgotten: [], deleted: [] });

  const clock = jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 8 * 24 * 3600 * 1000);
  scratch.defer(() => clock.mockRestore());
  const later = await readHeadFile();
  const plan = await pruneAll({ yes: false });
  expect(plan.json).toMatchObject({ dryRun: true, retained: retained.slice(-5), forgotten: retained.slice(0, -5) });
  expect(await readHeadFile()).toEqual(later);
  const written = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
  const target = { name: 'test', flags: {}, location, store, replicas };
  await pruneReleases({ yes: false, json: false }, { ...target, close: () => Promise.resolve() });
  const text = written.mock.calls.map(([chunk]) => String(chunk)).join('');
  written.mockRestore();
  expect(text).toMatch(/^test retains 5 releases, and no longer /);
  expect(text).toMatch(
    /\nTo delete: \d+ objects \(.*\)\n {2}models\.releases\/files\/.*\nNothing was deleted; delete them with --yes\.\n$/s,
  );
  const { deleted } = plan.json as unknown as { deleted: string[] };
  expect((await pruneAll()).json).toMatchObject({ dryRun: false, deleted });
  clock.mockRestore();
  const there = (await store.list('')).map(({ key }) => key);
  expect(there.filter((key) => deleted.includes(key))).toEqual([]);
  expect((await repositoryStatus(bucket, replicas)).missing).toEqual([]);
  expect((await readHeadFile()).retained).toEqual(retained.slice(-5));
  expect((await pruneAll()).json).toMatchObject({ deleted: [] });
  await expect(run((options) => rollBack(retained[0], options))).rejects.toThrow(/no release|not retained|cannot/);
  expect((await sync()).json).toMatchObject({ isNew: false });
  const empty = { bucket: location.bucket, prefix: 'empty' };
  const refused = runCommand((flags, target) => pruneReleases({ ...flags, yes: true }, target), {}, null, empty);
  await expect(refused).rejects.toThrow('has no release yet, so there is nothing to delete');
});

test('a publish costs as many requests after 1,000 releases as after the first, and four without a change', async () => {
  const at = { bucket: location.bucket, prefix: 'history' };
  const tap = await startScriptedProxy(endpoint);
  scratch.defer(() => tap.stop());
  const tapped = await openBucket(scratch, tap.endpoint, location.bucket, { create: false });
  const pod = await RulePod.start(scratch, 'pod-h', store, at);
  const options = { store: tapped, location: at, untried: true, repository };
  let sent: string[] = [];
  const one = async (version: number, more: Partial<PublishOptions> = {}): Promise<number> => {
    write({ [`a/${version}`]: `H${version}` });
    const before = tap.requests.length;
    await publish({ ...options, loadTimeoutMs: 20_000, waitMs: 0, ...more });
    sent = tap.requests.slice(before).map(({ method }) => method);
    return sent.filter((method) => method === 'GET').length;
  };
  const first = await one(1);
  await one(1);
  // head.json, the manifest, a list of the files, and view.json.
  expect(sent).toEqual(['GET', 'GET', 'GET', 'GET']);
  const head = new HeadFile(store, at);
  const base = await head.read();
  const ids = Array.from({ length: 1000 }, (_, i) => `20251101T${String(i).padStart(9, '0')}Z-0000000a`);
  const manifest = await head.readManifest(base.head?.release ?? '');
  const bodyOf = (id: string, i: number): Buffer =>
    encodeManifest({ ...(manifest as Manifest), id, base: 1, previous: i === 0 ? manifest?.id : ids[i - 1] });
  await forEachLimited([...ids.entries()], 50, async ([i, id]) => {
    await store.putBytes(releaseKey(at, id), bodyOf(id, i));
  });
  const release = ids[999] as string;
  const manifestSha256 = sha256Hex(bodyOf(release, 999));
  await head.replace(base, { ...(base.head as Head), release, manifestSha256, retained: [manifest?.id ?? '', ...ids] });
  expect((await one(2)) - first).toBeLessThanOrEqual(5);
  const { retained } = (await head.read()).head as Head;
  expect(retained).toHaveLength(20);
  await until('the pod follows', () => pod.served['a/2'] === 'H2');
  const before = tap.requests.length;
  const only = podSource(() => [pod]);
  expect(isAsReleased(await repositoryStatus({ store: tapped, location: at }, only))).toBe(true);
  const reads = tap.requests.slice(before).filter(({ method, path }) => method === 'GET' && /[.]json/.test(path));
  expect(reads.length).toBeLessThanOrEqual(3);

  const { release: current } = await repositoryStatus({ store, location: at }, only);
  const key = current?.models['a']?.files[0]?.key as string;
  await store.delete([{ key }]);
  const status = await repositoryStatus({ store, location: at }, only);
  expect([status.missing, isAsReleased(status)]).toEqual([[key], false]);
  await one(2);
  expect((await repositoryStatus({ store, location: at }, undefined)).missing).toEqual([]);

  const lost = (await head.read()).head as Head;
  await until('the pod reads it', () => pod.state.release === lost.release);
  await store.delete([{ key: headKey(at) }]);
  await expect(one(3)).rejects.toMatchObject({
    message: 's3://agents/history has releases, but history.releases/head.json is missing',
    hint: 'write it again: npm run rollback -- --repair',
  });
  await expect(repositoryStatus({ store, location: at }, undefined)).rejects.toThrow('head.json is missing');
  const repair = { store, location: at, agents: only };
  const repaired = await repairHead(head, repair);
  expect(repaired.release).toBe(lost.release);
  expect(repaired.generation).toBeGreaterThan(lost.generation);
  expect(await repairHead(head, repair)).toMatchObject(repaired);
  await one(3, { untried: false, agents: only });
  expect(pod.served).toEqual({ 'a/3': 'H3' });
});
