import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import type { S3Store } from '../../src/s3/store';
import { listenOnLoopback } from '../support/loopback';
import { CONFIG, ONE_MODEL, publisher, TWO_MODELS } from '../support/publish';
import { addingModel, askOne, writeRepository } from '../support/repository';
import { runCommandLine, startCommandLine, type Finished } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { tracedModel } from '../support/model-files';
import { testTriton } from '../support/triton';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const repository = join(scratch.directory, 'repository');
const SECOND = { 'a/config.pbtxt': CONFIG.replace('[1]', '[1, 2]'), 'a/2/weights.bin': 'a2' };
let store: S3Store;
let endpoint: string;
/** Of this test alone. */
let prefix = 'models-0';
/** Flags that name the repository in S3. */
let where: string[];

beforeAll(async () => {
  ({ endpoint } = await testS3(scratch));
  store = await openBucket(scratch, endpoint, 'sync-models');
});
beforeEach(() => {
  rmSync(repository, { recursive: true, force: true });
  mkdirSync(repository);
  prefix = `models-${Number(prefix.slice('models-'.length)) + 1}`;
  where = ['--bucket', `s3://sync-models/${prefix}`, '--endpoint-url', endpoint];
});

const publishNow = () => publisher(store, { bucket: 'sync-models', prefix }, repository).publish();
const run = (command: string, ...flags: string[]): Promise<Finished> =>
  runCommandLine(command, [...where, ...flags], S3_ENVIRONMENT);
const sync = (...flags: string[]): Promise<Finished> => run('sync-models', '--repo', repository, '--untried', ...flags);
/** Uploads a file as a publisher that was killed leaves it, and returns its key. */
async function addOrphan(): Promise<string> {
  const key = `${prefix}.releases/files/x.0`;
  await store.putBytes(key, Buffer.from('of no release'));
  return key;
}
const keys = async (): Promise<string[]> => (await store.list(`${prefix}/`)).map(({ key }) => key.slice(prefix.length));

test('sync-models prints its plan as a table or as JSON, and does nothing the second time', async () => {
  writeRepository(repository, ONE_MODEL);
  const planned = await sync('--dry-run');
  expect(planned.stdout).toMatch(/a +1 +publish +1 +1 B +0\nDry run: nothing was written\./);
  expect(await keys()).toEqual([]);
  const first = await sync('--json');
  expect([first.code, JSON.parse(first.stdout)]).toMatchObject([
    0,
    { ...{ dryRun: false, isNew: true, changed: ['a'], kept: 0 }, uploaded: [{ key: 'a/1/weights.bin', bytes: 1 }] },
  ]);
  const second = await sync();
  expect([second.code, second.stdout]).toEqual([0, expect.stringContaining('Nothing to publish')]);
  writeRepository(repository, SECOND);
  expect(await sync('--quiet')).toEqual({ code: 0, stdout: '', stderr: '' });
});

test('releases, rollback, status and rollback --repair report what they did, and the next step', async () => {
  writeRepository(repository, ONE_MODEL);
  expect((await sync()).stdout).toMatch(/serves a 1\. No replica has tried it, because of --untried\./);
  const refused = await run('sync-models', '--repo', repository);
  expect(refused).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('No replica was asked: add --triton') as string,
  });
  writeRepository(repository, SECOND);
  expect(await run('sync-models', '--repo', repository)).toMatchObject({
    ...{
      code: 1,
      stderr: expect.stringContaining('-> add --stack, --selector or --agent; or add --untried') as string,
    },
  });
  await sync('--message', 'second');
  const listed = await run('releases', '--json');
  expect(JSON.parse(listed.stdout)).toMatchObject([
    { isCurrent: true, message: 'second', changes: ['a 1 -> 1 2'], serves: { a: [1, 2] } },
    { isCurrent: false, changes: ['new a 1'] },
  ]);
  expect((await run('rollback', '--untried')).stdout).toMatch(/Release \S+: serves a 1\. /);
  expect((await run('releases')).stdout).toMatch(/\n\* .* rollback to [0-9a-f]{8} +a 1 2 -> 1\n/);
  const unasked = await run('status');
  expect([unasked.code, unasked.stdout]).toEqual([
    0,
    expect.stringMatching(/\nNo replica was checked: add --triton URL /),
  ]);
  const unanswered = await run('status', '--triton', 'http://127.0.0.1:8', '--agent', 'http://127.0.0.1:9');
  expect([unanswered.code, unanswered.stdout]).toEqual([
    1,
    expect.stringMatching(/the agent of http:\/\/127\.0\.0\.1:8 does not answer/),
  ]);
  await store.delete([{ key: `${prefix}.releases/head.json` }]);
  const lost = await run('status');
  expect([lost.code, lost.stderr]).toEqual([
    1,
    expect.stringMatching(/-> write it again: npm run rollback -- --repair/),
  ]);
  expect(await run('rollback', '--repair', '--dry-run')).toMatchObject({
    ...{ code: 2, stderr: expect.stringContaining('--repair and --dry-run exclude each other') as string },
  });
  expect(await run('rollback', '--repair')).toMatchObject({
    ...{ code: 1, stderr: expect.stringContaining('so the release must be named') as string },
  });
  const [{ id = '' } = {}] = JSON.parse(listed.stdout) as { id?: string }[];
  expect((await run('rollback', id, '--repair')).stdout).toMatch(/ is at release \S+, generation \d+\.\n$/);
  expect((await run('status')).code).toBe(0);
});

test('sync-models names models that stay served without --prune, and --prune removes them', async () => {
  writeRepository(repository, TWO_MODELS);
  await publishNow();
  renameSync(join(repository, 'b'), join(repository, 'renamed'));
  const warning = 'no longer has these models, which stay served: b\n';
  const { stderr } = await sync();
  expect(stderr.split(warning)).toHaveLength(2);
  expect(stderr).toContain('-> to remove them from the replicas, publish with --prune\n');
  const planned = await sync('--prune', '--dry-run');
  expect(planned.stdout).toMatch(/b +- +remove/);
  expect(planned.stderr).not.toContain('stay served');
  expect((await sync('--prune')).stdout).toContain(': removed b. ');
  expect((await sync()).stderr).not.toContain('stay served');
  expect(await keys()).not.toContain('/b/config.pbtxt');
});

test('sync-models refuses an invalid configuration, and uploads nothing', async () => {
  writeRepository(repository, { ...ONE_MODEL, 'a/config.pbtxt': CONFIG.replace('[1]', '[7]') });
  const { code, stderr } = await sync();
  expect([code, stderr]).toEqual([1, expect.stringContaining(' is not ready to be published; nothing was uploaded\n')]);
  expect(await keys()).toEqual([]);
});

test('sync-models publishes a model whose files changed since its trace, with a warning', async () => {
  writeRepository(repository, { ...tracedModel('m'), ...ONE_MODEL, 'm/net.py': 'LAYERS = 4\n' });
  const message = 'is stale; since the trace: net.py changed';
  const { code, stderr } = await sync('--dry-run');
  expect({ code, warnings: stderr.match(/warning: .*\n.*/g) }).toEqual({
    code: 0,
    warnings: [expect.stringMatching(`/m/1/model.pt: ${message}\n +-> run "npm run trace -- --models m --repo `)],
  });
  expect(JSON.parse((await sync('--json')).stdout)).toMatchObject({ isNew: true, warnings: [{ message }] });
});

test('sync-models and export refuse a model that was checked only quickly', async () => {
  writeRepository(repository, tracedModel('m', 1, 'quick'));
  const out = join(repository, '..', 'exported');
  const runs = [sync('--dry-run'), runCommandLine('export', ['--repo', repository, '--out', out], S3_ENVIRONMENT)];
  for (const { code, stderr } of await Promise.all(runs)) {
    const message = /m\/1\/model\.pt: was checked only quickly, .*\n +-> run "npm run trace -- --models m --repo /;
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
  }
  expect(existsSync(out)).toBe(false);
});

test('promote --require-pretrained refuses random weights and copies nothing', async () => {
  const trace = (kind: string, description: string): string => JSON.stringify({ weights: { kind, description } });
  writeRepository(repository, {
    ...TWO_MODELS,
    'a/1/weights.bin.trace.json': trace('random', 'seeded random weights (seed 0), not pretrained'),
    'b/1/weights.bin.trace.json': trace('pretrained', 'B, trained'),
  });
  const { release } = await publishNow();
  const promotion = (...flags: string[]): Promise<Finished> => {
    const places = [
      '--from',
      `s3://sync-models/${prefix}`,
      '--to',
      's3://sync-models/prod',
      '--endpoint-url',
      endpoint,
    ];
    return runCommandLine('promote', [...places, '--untried', '--require-pretrained', ...flags], S3_ENVIRONMENT);
  };
  const { code, stderr } = await promotion();
  const message =
    `release ${release?.id} serves random weights, which --require-pretrained does not allow\n` +
    '  a 1: seeded random weights (seed 0), not pretrained\n' +
    '  -> set trained weights in model-repo/MODEL/weights.yaml';
  expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
  expect(await store.list('prod')).toEqual([]);
  expect(await promotion('--models', 'b')).toMatchObject({ code: 0 });
  expect((await store.list('prod/')).map(({ key }) => key)).toEqual(['prod/b/1/weights.bin', 'prod/b/config.pbtxt']);
});

test('releases --prune lists what it would delete, and deletes it with --yes', async () => {
  const unneeded = await run('releases', '--prune', '--yes');
  expect(unneeded.stderr).toContain('has no release yet, so there is nothing to delete');
  writeRepository(repository, ONE_MODEL);
  await publishNow();
  const orphan = await addOrphan();
  const listed = await run('releases', '--prune');
  const plan = `To delete: 1 object (13 B)\n  ${orphan}\nNothing was deleted; delete them with --yes.\n`;
  expect([unneeded.code, listed.code, listed.stdout]).toEqual([1, 0, expect.stringContaining(plan)]);
  expect(await store.get(orphan)).toBeDefined();
  expect((await run('releases', '--prune', '--yes')).stdout).toContain(`Deleted: 1 object (13 B)\n  ${orphan}\n`);
  expect(await store.get(orphan)).toBeUndefined();
});

test('a Triton without an agent serves the bucket after a publish, a rollback and a prune', async () => {
  const publishFolder = async (files: Record<string, string>): Promise<void> => {
    rmSync(repository, { recursive: true });
    writeRepository(repository, files);
    expect(await sync('--prune')).toMatchObject({ code: 0 });
  };
  await publishFolder(addingModel('adds', { 1: 10 }));
  let triton = await testTriton(scratch, `s3://${endpoint}/sync-models/${prefix}`);
  /** Starts the server again, and asks both models. */
  const answers = async (): Promise<unknown[]> => {
    triton = await triton.startAgain();
    return Promise.all(['adds', 'more'].map((model) => askOne(triton.httpUrl, model)));
  };
  expect(await askOne(triton.httpUrl)).toBe(11);
  await publishFolder({ ...addingModel('adds', { 2: 20 }), ...addingModel('more', { 1: 5 }) });
  expect(await answers()).toEqual([21, 6]);
  expect(await run('rollback', '--untried')).toMatchObject({ code: 0 });
  const before = [11, expect.stringContaining("unknown model: 'more'")];
  expect(await answers()).toEqual(before);
  const orphan = await addOrphan();
  expect((await run('releases', '--prune', '--yes')).stdout).toContain(`Deleted: 1 object (13 B)\n  ${orphan}\n`);
  expect(await answers()).toEqual(before);
}, 300_000);

test('sync-models says once that it waits for another publisher, and why it gave up', async () => {
  writeRepository(repository, ONE_MODEL);
  const trial = { id: 'x', release: 'x', by: 'ann@laptop', phase: 'served', leftSeconds: 60 };
  const state = { stateTag: 't', ready: true, release: 'before', trial, lastTrial: null, problem: null };
  const server = createServer((_, response) => response.end(JSON.stringify(state)));
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  const replica = ['--triton', 'http://127.0.0.1:9', '--agent', `http://127.0.0.1:${port}`];
  const { code, stdout, stderr } = await run('sync-models', '--repo', repository, ...replica, '--wait', '5');
  expect(code).toBe(1);
  expect(stdout.match(/^a +1 +publish/gm)).toHaveLength(1);
  expect(stderr.match(/wait for another publisher: ann@laptop tries another release/g)).toHaveLength(1);
  expect(stderr).toContain('error: ann@laptop tries another release on http://127.0.0.1:9\n  -> run the command again');
});

test('sync-models exits with 130 after Ctrl-C during a trial, and the replica goes back', async () => {
  writeRepository(repository, ONE_MODEL);
  // An agent that never finishes loading the release.
  const methods: string[] = [];
  let trial: object | null = null;
  const server = createServer((request, response) => {
    const { method = '' } = request;
    if (method !== 'GET') methods.push(method);
    if (method === 'POST') trial = { id: 'x', release: 'x', phase: 'loading', leftSeconds: 60 };
    if (method === 'DELETE') trial = null;
    response.end(
      JSON.stringify({ stateTag: 't', ready: true, release: 'before', trial, lastTrial: null, problem: null }),
    );
    if (method === 'POST') child.kill('SIGINT');
  });
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  const replica = ['--triton', 'http://127.0.0.1:9', '--agent', `http://127.0.0.1:${port}`];
  const { child, ended } = startCommandLine(
    'sync-models',
    ['--repo', repository, ...where, ...replica, '--json'],
    S3_ENVIRONMENT,
  );
  const { code, stdout, stderr } = await ended;
  expect([code, stderr]).toEqual([
    130,
    expect.stringMatching(/interrupted: cleaning up[^]*\ninterrupted; the repository/),
  ]);
  expect(JSON.parse(stdout)).toEqual({ error: expect.stringContaining('interrupted') as string });
  expect([methods[0], methods.at(-1)]).toEqual(['POST', 'DELETE']);
  expect(await keys()).toEqual([]);
});

test.each([
  [['--bukket', 'x'], 2, /unknown option '--bukket'[^]*did you mean --bucket\?/],
  [['--triton', 'localhost:8000', '--agent', 'http://h:1'], 2, /--triton localhost:8000: not an address/],
  [['--sse', 'AES256:key'], 2, /--sse AES256:key: unknown encryption/],
  [['extra'], 2, /extra/],
  [['--models', 'nope'], 1, /nope/],
  [['--models', 'a', '--exclude', 'a'], 1, /has no model left/],
  [['--repo', '/nope'], 1, /^(?![^]*--exclude)[^]*\/nope: cannot be read: no such file or folder\n/],
  [['--bucket', 's3://not-there/models'], 1, /NoSuchBucket[\s\S]*create the bucket \("pulumi up"/],
])('sync-models %p exits with %d and one error', async (extra, code, message) => {
  writeRepository(repository, ONE_MODEL);
  const finished = await sync(...extra);
  expect(finished.stderr).toMatch(message);
  expect(finished.stderr).not.toMatch(/\n\s+at /);
  expect(finished.code).toBe(code);
});
