import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import { readHead } from '../../src/publish/release/release';
import type { S3Store } from '../../src/s3/store';
import { listenOnLoopback } from '../support/loopback';
import { CONFIG, ONE_MODEL, publisher, TWO_MODELS } from '../support/publish';
import { writeRepository } from '../support/repository';
import { runCommandLine, startCommandLine } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { tracedModel } from '../support/traced-model';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'sync-models', prefix: 'models' };

const repository = join(scratch.directory, 'repository');
let store: S3Store;
let where: string[];
let target: string[];

beforeAll(async () => {
  const { endpoint } = await testS3(scratch);
  store = await openBucket(scratch, endpoint, LOCATION.bucket);
  where = ['--bucket', 's3://sync-models/models', '--endpoint-url', endpoint];
  target = ['--repo', repository, ...where];
});

beforeEach(async () => {
  rmSync(repository, { recursive: true, force: true });
  mkdirSync(repository);
  await store.delete(await store.list(''));
});

const publishNow = () => publisher(store, LOCATION, repository).publish();
const sync = (...flags: string[]) => runCommandLine('sync-models', [...target, ...flags], S3_ENVIRONMENT);
const models = async (): Promise<string[]> =>
  (await store.list('models/')).map(({ key }) => key.slice('models/'.length)).sort();
const text = async (key: string): Promise<string | undefined> => (await store.get(key))?.body.toString();

test('sync-models publishes, prints its result as JSON, and does nothing the second time', async () => {
  writeRepository(repository, ONE_MODEL);
  const first = await sync('--json');
  expect(first).toMatchObject({ code: 0 });
  expect(JSON.parse(first.stdout)).toMatchObject({
    dryRun: false,
    isNew: true,
    changed: ['a'],
    kept: 0,
    written: [{ key: 'a/1/weights.bin', bytes: 1, action: 'upload' }, { key: 'a/config.pbtxt' }],
  });
  const second = await sync();
  expect(second).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing to publish') as string });
});

test('sync-models prints its plan as a table, and only errors with --quiet', async () => {
  writeRepository(repository, ONE_MODEL);
  const planned = await sync('--dry-run');
  expect(planned.stdout).toMatch(/a +1 +publish +2 +\d+ B +0\nDry run: nothing was written\./);
  const quiet = await sync('--quiet');
  expect(quiet).toEqual({ code: 0, stdout: '', stderr: '' });
});

test('sync-models prints the next step if no replica is configured or a replica does not answer', async () => {
  writeRepository(repository, ONE_MODEL);
  expect((await sync()).stdout).toMatch(/serves a 1\. No replica was updated: add --triton URL /);
  const status = (...flags: string[]) => runCommandLine('status', [...where, ...flags], S3_ENVIRONMENT);
  const unasked = await status();
  expect(unasked).toMatchObject({ code: 0 });
  expect(unasked.stdout).toMatch(/\nNo replica was checked: add --triton URL /);
  const unanswered = await status('--triton', 'http://127.0.0.1:9');
  expect(unanswered).toMatchObject({ code: 1 });
  expect(unanswered.stdout).toMatch(/replica http:\/\/127\.0\.0\.1:9 does not answer.*\n {2}-> check its address/);
});

test('sync-models --prune lists its deletions and requires --yes without a terminal', async () => {
  writeRepository(repository, TWO_MODELS);
  await publishNow();
  rmSync(join(repository, 'b'), { recursive: true });
  const shown = await sync('--prune', '--dry-run');
  expect(shown.stdout).toMatch(/b +- +remove[\s\S]*Objects to delete: 2\n {2}b\/1\/weights.bin\n {2}b\/config.pbtxt/);
  expect(shown.stdout).toContain('no rollback can restore a release that serves b 1');
  const asked = await sync('--prune');
  expect(asked).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/stdin is not a terminal[\s\S]*--yes/) as string,
  });
  expect(await models()).toContain('b/1/weights.bin');
  expect(await sync('--prune', '--yes')).toMatchObject({
    code: 0,
  });
  expect(await models()).not.toContain('b/1/weights.bin');

  const rollback = (...flags: string[]) => runCommandLine('rollback', [...where, ...flags], S3_ENVIRONMENT);
  const refused = await rollback();
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(
    /cannot restore release \S+: --prune deleted b 1 [^]*-> .* other models: npm run rollback -- --bucket .* \S+ --models a\n/,
  );
  expect((await rollback(/(\S+) --models a\n/.exec(refused.stderr)?.[1] ?? '', '--models', 'a')).code).toBe(0);
  const { stdout } = await runCommandLine('releases', where, S3_ENVIRONMENT);
  expect(stdout).toMatch(/\nx {2}[^]*\nx: rollback cannot restore it, because .*: b 1\n/);
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
  expect((await sync('--models', 'a')).stderr).not.toContain('warning');
});

test('sync-models and export refuse a model that was checked only quickly', async () => {
  writeRepository(repository, tracedModel('m', 1, 'quick'));
  const out = join(repository, '..', 'exported');
  for (const run of [
    sync('--dry-run'),
    runCommandLine('export', ['--repo', repository, '--out', out], S3_ENVIRONMENT),
  ]) {
    const { code, stderr } = await run;
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /m\/1\/model\.pt: was checked only quickly, .*\n +-> run "npm run trace -- --models m --repo /,
      ),
    ]);
  }
  expect(existsSync(out)).toBe(false);
});

test('sync-models names models that the folder no longer has and that stay served without --prune', async () => {
  writeRepository(repository, TWO_MODELS);
  await publishNow();
  renameSync(join(repository, 'b'), join(repository, 'renamed'));
  const warning = 'no longer has these models, which stay served: b\n';
  const { stderr } = await sync();
  expect(stderr.split(warning)).toHaveLength(2);
  expect(stderr).toContain('-> to remove them from the replicas and the bucket, publish with --prune\n');
  expect((await sync('--exclude', 'a')).stderr).toContain(warning);
  expect((await sync('--models', 'a')).stderr).not.toContain('stay served');
  expect((await sync('--prune', '--yes')).stderr).not.toContain('stay served');
  expect((await sync()).stderr).not.toContain('stay served');
});

/** Runs a command in a terminal, sends Ctrl-C at its prompt, and exits with its exit code. */
const ON_TERMINAL = `import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
said = b""
while b"(yes/no)" not in said:
    said += os.read(terminal, 1024)
print(said.decode())
sys.stdout.flush()
os.write(terminal, b"\\x03")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

test('sync-models exits with 130 and deletes nothing after Ctrl-C at the prompt of --prune', async () => {
  writeRepository(repository, TWO_MODELS);
  await publishNow();
  rmSync(join(repository, 'b'), { recursive: true });
  const command = [process.execPath, join(paths.scripts, 'run.mjs'), 'sync-models', ...target, '--prune'];
  const { status, stdout, stderr } = spawnSync('python3', ['-c', ON_TERMINAL, ...command], {
    env: { ...process.env, ...S3_ENVIRONMENT },
    encoding: 'utf8',
  });
  expect({ status, stderr }).toEqual({ status: 130, stderr: '' });
  const question =
    /\n {2}b\/config\.pbtxt\s+After the deletion no rollback can restore a release that serves b 1, .*\s+[^\n]*Delete 2 objects/;
  expect(stdout).toMatch(question);
  expect(await models()).toContain('b/1/weights.bin');
});

test('sync-models exits with 130 and restores the previous state after Ctrl-C during a rollout', async () => {
  writeRepository(repository, TWO_MODELS);
  await publishNow();
  const before = await text('models/a/config.pbtxt');
  writeRepository(repository, { 'a/config.pbtxt': CONFIG.replace('[1]', '[1, 2]'), 'a/2/weights.bin': 'a2' });
  // A server that never finishes loading the new version and still serves the old one.
  const digest = (await readHead(store, LOCATION))?.release.models['a']?.digest;
  let loads = 0;
  const slow = createServer((request, response) => {
    const { url = '' } = request;
    if (url.endsWith('/index')) response.end(JSON.stringify([{ name: 'a', version: '1', state: 'READY' }]));
    else if (url.endsWith('/config'))
      response.end(JSON.stringify({ parameters: { published_digest: { string_value: digest } } }));
    else if (url.endsWith('/load') && (loads += 1) > 1) response.end();
    else child.kill('SIGINT');
  });
  const { port, stop } = await listenOnLoopback(slow);
  scratch.defer(stop);
  const url = `http://127.0.0.1:${port}`;
  const child = startCommandLine('sync-models', [...target, '--triton', url], S3_ENVIRONMENT);
  const finished = await child.finished;
  expect(finished).toMatchObject({
    code: 130,
    stderr: expect.stringMatching(/interrupted: cleaning up/) as string,
  });
  expect(await text('models/a/config.pbtxt')).toBe(before);
  expect(loads).toBe(2);
});

test.each([
  [['--bukket', 'x'], 2, /Unknown option '--bukket'/],
  [['--triton', 'localhost:8000'], 2, /--triton localhost:8000: not an address/],
  [['--sse', 'AES256:key'], 2, /--sse AES256:key: unknown encryption/],
  [['extra'], 2, /extra/],
  [['--models', 'nope'], 1, /nope/],
  [['--models', 'a', '--exclude', 'a'], 1, /has no model left/],
  [['--repo', '/nope'], 1, /^(?![^]*--exclude)[^]*\/nope: cannot be read: no such file or folder\n/],
  [['--bucket', 's3://not-there/models'], 1, /NoSuchBucket[\s\S]*create the bucket \("pulumi up"/],
  [['--triton', 'http://127.0.0.1:9'], 1, /http:\/\/127.0.0.1:9 does not answer/],
])('sync-models %p exits with %d and one error', async (extra, code, message) => {
  writeRepository(repository, ONE_MODEL);
  const finished = await sync(...extra);
  expect(finished.stderr).toMatch(message);
  expect(finished.stderr).not.toMatch(/\n\s+at /);
  expect(finished.code).toBe(code);
});
