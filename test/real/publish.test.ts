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
import { rollBack } from '../../src/publish/rollback';
import { isAsReleased, repositoryStatus } from '../../src/publish/status';
import { repairView } from '../../src/publish/view';
import { FORMAT } from '../../src/release/format';
import { parseHead, type Head } from '../../src/release/head';
import {
  filesPrefix,
  headKey,
  releaseKey,
  releasesPrefix,
  viewKey,
  type RepositoryLocation,
} from '../../src/release/location';
import { encodeManifest, parseManifest, sha256Hex, type Manifest } from '../../src/release/manifest';
import { PART_BYTES, type S3Store } from '../../src/s3/store';
import { startScriptedProxy } from '../support/scripted-proxy';
import { writeRepository } from '../support/repository';
import { sourceOf } from '../support/publish';
import { RulePod } from '../support/rule-pod';
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
  replicas = sourceOf(pods);
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
  const none = sourceOf([]);
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

test('of two publishers with the same folder, one waits for the other and then has nothing to publish', async () => {
  write({ 'a/4': 'D', 'b/1': 'B' });
  const waits: string[] = [];
  const onStage = (text: string): unknown => text.startsWith('wait for another publisher') && waits.push(text);
  const options = { store, location, agents: replicas, loadTimeoutMs: 20_000, waitMs: 60_000, repository, onStage };
  const [one, other] = await Promise.all([publish(options), publish(options)]);
  const id = one.release?.id;
  expect(waits[0]).toMatch(/tries another release|head.json is at generation|another publisher made/);
  expect(other.release?.id).toBe(id);
  expect(pods.map(({ state }) => state.release)).toEqual([id, id]);
});

test('a publisher that another one turns away writes no manifest', async () => {
  write({ 'a/6': 'A6', 'b/1': 'B' });
  const manifests = async (): Promise<number> => (await store.list(`${releasesPrefix(location)}/2`)).length;
  const before = await manifests();
  const options = { store, location, agents: replicas, loadTimeoutMs: 20_000, waitMs: 0, repository };
  let second: Promise<unknown> | undefined;
  const onStage = (text: string): void => {
    if (text.includes('serves the release')) second ??= publish(options).catch((error: unknown) => error);
  };
  await publish({ ...options, onStage });
  expect(await second).toMatchObject({ message: expect.stringMatching(/tries another release on pod-/) as string });
  expect(await manifests()).toBe(before + 1);
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
  // A bucket that was not replicated completely.
  const key = files[0]?.key ?? '';
  await second.delete([{ key }]);
  const onward = { ...options, location: { ...source, prefix: 'onward' }, from: { store: second, location: source } };
  await expect(promote(onward)).rejects.toThrow(key);
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
  const clock = jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 8 * 24 * 3600 * 1000);
  scratch.defer(() => clock.mockRestore());
  const later = await readHeadFile();
  const plan = await pruneAll({ yes: false });
  expect(plan.json).toMatchObject({ dryRun: true, retained: retained.slice(-5), forgotten: retained.slice(0, -5) });
  expect(await readHeadFile()).toEqual(later);
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
  const only = sourceOf([pod]);
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
});
