import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { formatProblem, UserError } from '../../scripts/lib/errors';
import { ensurePlaceholder } from '../../scripts/lib/publish/apply';
import { currentRelease } from '../../scripts/lib/publish/manifest';
import { publish, VersionConflict } from '../../scripts/lib/publish/publish';
import type { S3Store } from '../../scripts/lib/publish/s3-store';
import type { S3Server } from '../../scripts/lib/local/s3-server';
import { writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { testS3, testStore } from '../support/s3';
import { Scratch } from '../support/scratch';

jest.setTimeout(60_000);

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'publish-test', prefix: 'models' };
let server: S3Server;
let store: S3Store;
let repository: string;

/** Hand-written configurations of a backend that is not ours: the files may be anything. */
const CONFIG = 'backend: "anything"\nversion_policy { specific { versions: [1] } }\n';

beforeAll(async () => {
  server = await testS3(scratch);
  store = await testStore(scratch, server, LOCATION.bucket);
});

beforeEach(async () => {
  repository = join(scratch.directory, 'repository');
  rmSync(repository, { recursive: true, force: true });
  mkdirSync(repository);
  await store.delete((await store.list('')).map(({ key }) => key));
});

const publishNow = (options: { dryRun?: boolean; models?: string[] } = {}) => {
  const uploaded: string[] = [];
  return publish({
    repository,
    store,
    location: LOCATION,
    replicas: [],
    loadTimeoutMs: 1000,
    onUploaded: (key) => uploaded.push(key),
    ...options,
  }).then((published) => ({ ...published, uploaded }));
};

const keys = async (): Promise<string[]> => (await store.list('')).map(({ key }) => key).sort();

test('publishes weights first and config last, records the release, and does nothing the second time', async () => {
  writeRepository(repository, {
    'a/config.pbtxt': CONFIG,
    'a/1/weights.bin': 'a',
    'b/config.pbtxt': CONFIG,
    'b/1/weights.bin': 'b',
  });
  const first = await publishNow();
  expect(first.uploaded.slice(0, 2).sort()).toEqual(['a/1/weights.bin', 'b/1/weights.bin']);
  expect(first.uploaded.slice(2)).toEqual(['a/config.pbtxt', 'b/config.pbtxt']);
  const release = first.release?.id;
  expect(await keys()).toEqual([
    `models.releases/${release}.json`,
    'models.releases/current.json',
    'models/a/1/weights.bin',
    'models/a/config.pbtxt',
    'models/b/1/weights.bin',
    'models/b/config.pbtxt',
  ]);

  const second = await publishNow();
  expect(second.uploaded).toEqual([]);
  expect(second.release?.id).toBe(release);
});

test('a dry run writes nothing', async () => {
  writeRepository(repository, { 'a/config.pbtxt': CONFIG, 'a/1/weights.bin': 'a' });
  const { plan, uploaded } = await publishNow({ dryRun: true });
  expect(plan.models[0]?.config.action).toBe('upload');
  expect(uploaded).toEqual([]);
  expect(await keys()).toEqual([]);
});

test('a published version is never changed: nothing at all is uploaded', async () => {
  writeRepository(repository, { 'a/config.pbtxt': CONFIG, 'a/1/weights.bin': 'a' });
  await publishNow();
  const before = await store.list('');
  writeRepository(repository, { 'a/1/weights.bin': 'A', 'b/config.pbtxt': CONFIG, 'b/1/weights.bin': 'b' });
  await expect(publishNow()).rejects.toThrow(VersionConflict);
  expect(await store.list('')).toEqual(before);
});

test('a new version beside the old one: one upload and the config; models not selected stay in the release', async () => {
  writeRepository(repository, {
    'a/config.pbtxt': CONFIG,
    'a/1/weights.bin': 'a',
    'b/config.pbtxt': CONFIG,
    'b/1/weights.bin': 'b',
  });
  await publishNow();
  writeRepository(repository, { 'a/config.pbtxt': CONFIG.replace('[1]', '[1, 2]'), 'a/2/weights.bin': 'a2' });
  const { uploaded, release } = await publishNow({ models: ['a'] });
  expect(uploaded).toEqual(['a/2/weights.bin', 'a/config.pbtxt']);
  expect(release?.models['a']?.served).toEqual([1, 2]);
  expect(Object.keys(release?.models ?? {})).toEqual(['a', 'b']);
  expect((await currentRelease(store, LOCATION))?.release).toEqual(release);
});

test('one bad model: every problem is listed and nothing is uploaded', async () => {
  writeRepository(repository, {
    'a/config.pbtxt': CONFIG,
    'a/1/weights.bin': 'a',
    'b/config.pbtxt': `${CONFIG}colour: "red"\n`,
    'b/01/weights.bin': 'b',
  });
  const error = await publishNow().catch((caught: unknown) => caught as UserError);
  expect(error).toBeInstanceOf(UserError);
  const messages = (error as UserError).problems.map(formatProblem).join('\n');
  expect(messages).toMatch(/b\/config.pbtxt.*colour/);
  expect(await keys()).toEqual([]);
});

test('somebody else writes between our look and our write: ours fails and says so, theirs stays', async () => {
  writeRepository(repository, { 'a/config.pbtxt': CONFIG, 'a/1/weights.bin': 'a' });
  const theirs = Buffer.from('theirs');
  const racing = Object.create(store) as S3Store;
  racing.putBytes = async (key, body, sha256, condition) => {
    if (key === 'models/a/config.pbtxt')
      await store.putBytes(key, theirs, 'TFWoVSoscmH2H3mMImXm8TNY8yauW5NAlv8WvRXmLDM=');
    return store.putBytes(key, body, sha256, condition);
  };
  const late = publish({ repository, store: racing, location: LOCATION, replicas: [], loadTimeoutMs: 1000 });
  await expect(late).rejects.toThrow('a/config.pbtxt: another publisher wrote it while this one was running');
  expect((await store.get('models/a/config.pbtxt'))?.body).toEqual(theirs);
  expect(await currentRelease(store, LOCATION)).toBeUndefined();
});

test('the placeholder of an empty repository is written once', async () => {
  await ensurePlaceholder(store, LOCATION);
  await ensurePlaceholder(store, LOCATION);
  expect(await keys()).toEqual(['models/.keep']);
});

describe('npm run sync-models', () => {
  const flags = (): string[] => [
    '--repo',
    repository,
    '--bucket',
    's3://publish-test/models',
    '--endpoint-url',
    server.endpoint,
  ];
  const credentials = {
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local-only-no-secret',
    AWS_REGION: 'us-east-1',
  };

  test('publishes, says what it did as JSON, and does nothing the second time', async () => {
    writeRepository(repository, { 'a/config.pbtxt': CONFIG, 'a/1/weights.bin': 'a' });
    const first = await runCommandLine('sync-models', [...flags(), '--json'], credentials);
    expect(first).toMatchObject({ code: 0 });
    expect(JSON.parse(first.stdout)).toMatchObject({
      dryRun: false,
      changed: ['a'],
      kept: 0,
      written: [{ key: 'a/1/weights.bin', bytes: 1, action: 'upload' }, { key: 'a/config.pbtxt' }],
    });
    const second = await runCommandLine('sync-models', flags(), credentials);
    expect(second).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing to publish') as string });
  });

  test.each([
    [['--bukket', 'x'], 2, /Unknown option '--bukket'/],
    [['--bucket', 's3://Bad/models'], 2, /"Bad" cannot be a bucket name/],
    [['--triton', 'localhost:8000'], 2, /--triton localhost:8000: not an address/],
    [['--load-timeout', 'soon'], 2, /--load-timeout soon: a whole number/],
    [['--models', 'nope'], 1, /nope/],
    [['--bucket', 's3://not-there/models'], 1, /NoSuchBucket[\s\S]*create it with "pulumi up"/],
    [['--triton', 'http://127.0.0.1:9'], 1, /http:\/\/127.0.0.1:9 does not answer/],
  ])('%p: exit code %d and one clear error', async (extra, code, message) => {
    writeRepository(repository, { 'a/config.pbtxt': CONFIG, 'a/1/weights.bin': 'a' });
    const finished = await runCommandLine('sync-models', [...flags(), ...extra], credentials);
    expect(finished.stderr).toMatch(message);
    expect(finished.stderr).not.toMatch(/\n\s+at /);
    expect(finished.code).toBe(code);
  });
});
