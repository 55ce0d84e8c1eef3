import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatProblem, UserError } from '../../src/core/errors';
import { ensurePlaceholder } from '../../src/publish/apply/repository-writer';
import { VersionConflictError } from '../../src/publish/publish';
import { readHead, type Release } from '../../src/publish/release/release';
import { listReleases } from '../../src/publish/release/list';
import { rollBack } from '../../src/publish/rollback';
import { promote } from '../../src/publish/promote';
import { PART_BYTES, type S3Store } from '../../src/s3/store';
import { CONFIG, ONE_MODEL, publisher, TWO_MODELS } from '../support/publish';
import { addingEnsemble, addingModel, writeRepository } from '../support/repository';
import { runCommandLine, type Finished } from '../support/run';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../support/s3';
import { Scratch } from '../support/temp-dir';
import { withoutWaiting } from '../support/test-repository';
import { recorded } from '../support/traced-model';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'publish-test', prefix: 'models' };
let store: S3Store;
let endpoint: string;
let repository: string;

beforeAll(async () => {
  const server = await testS3(scratch);
  ({ endpoint } = server);
  store = await openBucket(scratch, await withoutWaiting(scratch, server.endpoint), LOCATION.bucket);
});

beforeEach(async () => {
  repository = join(scratch.directory, 'repository');
  rmSync(repository, { recursive: true, force: true });
  mkdirSync(repository);
  await store.delete(await store.list(''));
});

const bucket = () => publisher(store, LOCATION, repository);
const publishNow = (options: Parameters<ReturnType<typeof bucket>['publish']>[0] = {}) => bucket().publish(options);

/** Keys and ETags of all objects in the bucket. */
const contents = async (): Promise<string[]> => (await store.list('')).map(({ key, etag }) => `${key} ${etag}`);
const keys = async (prefix = ''): Promise<string[]> => (await store.list(prefix)).map(({ key }) => key).sort();
const models = async (): Promise<string[]> => (await keys('models/')).map((key) => key.slice('models/'.length));
const text = async (key: string): Promise<string | undefined> => (await store.get(key))?.body.toString();
const head = async (): Promise<Release | undefined> => (await readHead(store, LOCATION))?.release;

describe('sync-models', () => {
  test('publishes weights first and config last, records the release, and does nothing the second time', async () => {
    writeRepository(repository, TWO_MODELS);
    const first = await publishNow();
    expect(first.uploaded.slice(0, 2).sort()).toEqual(['a/1/weights.bin', 'b/1/weights.bin']);
    expect(first.uploaded.slice(2)).toEqual(['a/config.pbtxt', 'b/config.pbtxt']);
    expect(await models()).toEqual(['a/1/weights.bin', 'a/config.pbtxt', 'b/1/weights.bin', 'b/config.pbtxt']);
    expect((await head())?.id).toBe(first.release?.id);
    const before = await contents();

    const second = await publishNow();
    expect(second).toMatchObject({ uploaded: [], isNew: false, release: { id: first.release?.id } });
    expect(await contents()).toEqual(before);
  });

  test('writes nothing in a dry run', async () => {
    writeRepository(repository, TWO_MODELS);
    const { plan, uploaded } = await publishNow({ dryRun: true });
    expect(plan.models[0]?.config.action).toBe('upload');
    expect(uploaded).toEqual([]);
    expect(await keys()).toEqual([]);
  });

  test('treats an ensemble with an empty version folder as unchanged the second time', async () => {
    writeRepository(repository, { ...addingModel('adds', { 1: 10 }), ...addingEnsemble('through', 'adds') });
    rmSync(join(repository, 'through', '1', '.keep'));
    await publishNow();
    expect(await publishNow()).toMatchObject({ uploaded: [], isNew: false });
  });

  test('refuses a version whose bytes differ from the published ones, and uploads nothing', async () => {
    writeRepository(repository, ONE_MODEL);
    await publishNow();
    const before = await contents();
    writeRepository(repository, { 'a/1/weights.bin': 'A', 'b/config.pbtxt': CONFIG, 'b/1/weights.bin': 'b' });
    await expect(publishNow()).rejects.toThrow(VersionConflictError);
    expect(await contents()).toEqual(before);
  });

  /** The record of a trace; nothing for a model without trace.py. */
  const record = (files: object, version: number, content: string): Record<string, string> => {
    const artifact = recorded(`${version}/weights.bin`, content);
    const text = JSON.stringify({ artifact, checked: 'thorough', max_batch_size: 0, input_dims: [] });
    return 'a/trace.py' in files ? { [`a/${artifact.path}.trace.json`]: text } : {};
  };
  const OF_VERSION_2 = { 'a/config.pbtxt': CONFIG.replace('[1]', '[2]'), 'a/2/weights.bin': 'a2' };
  test.each([
    {
      of: 'a served version',
      files: {} as Record<string, string>,
      hint: /^put the new files into a new version folder, a\/2; name 2 in version_policy, if the model has one; then restore a\/1, or delete a\/1 and a\/golden\/1;/,
    },
    {
      of: 'a traced version',
      files: { 'a/trace.py': '' },
      hint: /^npm run trace -- --models a --repo \S+repository --version 2; name 2 in .* delete a\/1 and a\/golden\/1;/,
    },
    {
      of: 'a version that version_policy no longer names',
      files: OF_VERSION_2,
      hint: /^restore or delete a\/1, which version_policy does not name;/,
    },
  ])('names the way out after a change of $of', async ({ files, hint }) => {
    writeRepository(repository, ONE_MODEL);
    await publishNow();
    writeRepository(repository, { ...files, ...record(files, 1, 'a') });
    await publishNow();
    writeRepository(repository, { 'a/1/weights.bin': 'A', ...record(files, 1, 'A') });
    await expect(publishNow()).rejects.toMatchObject({ hint: expect.stringMatching(hint) as string });
    // The way out: another version is named, and the changed one is deleted.
    rmSync(join(repository, 'a', '1'), { recursive: true });
    writeRepository(repository, { ...OF_VERSION_2, ...record(files, 2, 'a2') });
    expect((await publishNow()).release?.models['a']?.served).toEqual([2]);
  });

  test('replaces a version that a failed run uploaded and no release contains', async () => {
    writeRepository(repository, TWO_MODELS);
    await publishNow();
    await store.putBytes('models/a/2/weights.bin', Buffer.from('of a run that was killed'));
    await store.putBytes('models/a/2/more.bin', Buffer.from('of a run that was killed'));
    writeRepository(repository, { 'a/config.pbtxt': CONFIG.replace('[1]', '[1, 2]'), 'a/2/weights.bin': 'a2' });
    await publishNow();
    expect(await text('models/a/2/weights.bin')).toBe('a2');
    expect(await models()).not.toContain('a/2/more.bin');
  });

  test('uploads a new version and the configuration only; models that are not selected stay in the release', async () => {
    writeRepository(repository, TWO_MODELS);
    await publishNow();
    writeRepository(repository, { 'a/config.pbtxt': CONFIG.replace('[1]', '[1, 2]'), 'a/2/weights.bin': 'a2' });
    const { uploaded, release } = await publishNow({ models: ['a'] });
    expect(uploaded).toEqual(['a/2/weights.bin', 'a/config.pbtxt']);
    expect(release?.models['a']?.served).toEqual([1, 2]);
    expect(Object.keys(release?.models ?? {})).toEqual(['a', 'b']);
    expect(await head()).toEqual(release);
  });

  test('publishes a configuration with specific versions for every version policy', async () => {
    writeRepository(repository, { 'a/config.pbtxt': 'backend: "anything"\n', 'a/1/w.bin': '1', 'a/3/w.bin': '3' });
    await publishNow();
    expect(await text('models/a/config.pbtxt')).toMatch(/version_policy {\s+specific {\s+versions: 3\n/);
  });

  test('changes the configuration if a file beside the versions changed, so that replicas reload the model', async () => {
    writeRepository(repository, { ...TWO_MODELS, 'a/labels.txt': 'cat' });
    await publishNow();
    writeRepository(repository, { 'a/labels.txt': 'dog' });
    const { uploaded } = await publishNow();
    expect(uploaded).toEqual(['a/labels.txt', 'a/config.pbtxt']);
  });

  test('lists all problems of an invalid model and uploads nothing', async () => {
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
    expect((error as UserError).hint).toContain('--exclude A,B');
    expect(await keys()).toEqual([]);
  });

  test('fails if another program writes an object after it was listed, and keeps that object', async () => {
    writeRepository(repository, ONE_MODEL);
    const theirs = Buffer.from('theirs');
    const racing = Object.create(store) as S3Store;
    racing.putBytes = async (key, body, condition) => {
      if (key === 'models/a/config.pbtxt') await store.putBytes(key, theirs);
      return store.putBytes(key, body, condition);
    };
    const late = publisher(racing, LOCATION, repository).publish();
    await expect(late).rejects.toThrow(
      'cannot write a/config.pbtxt: another program changed the object while this publisher was running',
    );
    expect(await head()).toBeUndefined();
  });

  test('records a state that another program published, so that rollback can restore it', async () => {
    await store.putBytes('models/a/1/weights.bin', Buffer.from('a'));
    await store.putBytes('models/a/config.pbtxt', Buffer.from(CONFIG));
    writeRepository(repository, { 'a/config.pbtxt': CONFIG.replace('[1]', '[2]'), 'a/2/weights.bin': 'a2' });
    await publishNow();
    expect((await listReleases(store, LOCATION, 9)).map(({ changes }) => changes)).toEqual([['a 1 -> 2'], ['new a 1']]);
    await rollBack(undefined, bucket().options());
    expect(await text('models/a/config.pbtxt')).toBe(CONFIG);
  });

  test('keeps the release and frees the lock if interrupted before configurations are activated', async () => {
    writeRepository(repository, TWO_MODELS);
    const controller = new AbortController();
    const interrupted = publishNow({ signal: controller.signal, onBytes: () => controller.abort(new Error('Ctrl-C')) });
    await expect(interrupted).rejects.toThrow('Ctrl-C');
    expect((await models()).filter((key) => key.endsWith('config.pbtxt'))).toEqual([]);
    expect((await publishNow({ lockTimeoutMs: 0 })).isNew).toBe(true);
  });
});

describe('--prune', () => {
  const pruned = (options: Parameters<typeof publishNow>[0] = {}) => publishNow({ prune: true, ...options });

  test('deletes models and versions that the folder lacks, and no other objects', async () => {
    await store.putBytes('models/theirs/config.pbtxt', Buffer.from(CONFIG));
    await store.putBytes('models-2/a/1/weights.bin', Buffer.from('another prefix'));
    writeRepository(repository, { ...TWO_MODELS, 'a/2/weights.bin': 'a2' });
    await publishNow();
    rmSync(join(repository, 'a', '2'), { recursive: true });
    rmSync(join(repository, 'b'), { recursive: true });
    expect((await publishNow()).isNew).toBe(false); // Without --prune nothing is deleted.
    const { plan, release } = await pruned();
    expect(plan.prune.sort()).toEqual(['a/2/weights.bin', 'b/1/weights.bin', 'b/config.pbtxt']);
    expect(await models()).toEqual(['a/1/weights.bin', 'a/config.pbtxt', 'theirs/config.pbtxt']);
    expect(await keys('models-2')).toEqual(['models-2/a/1/weights.bin']);
    expect(Object.keys(release?.models ?? {})).toEqual(['a']);
    expect((await pruned()).isNew).toBe(false);
  });

  test('asks for confirmation and deletes nothing without it', async () => {
    writeRepository(repository, TWO_MODELS);
    await publishNow();
    rmSync(join(repository, 'b'), { recursive: true });
    await expect(pruned({ confirmPrune: () => Promise.resolve(false) })).rejects.toThrow(/not confirmed/);
    expect(await models()).toContain('b/1/weights.bin');
  });

  /** Publishes a (versions 1 and 2), b and c. Then the folder has c and only version 1 of a, and c is not ready. */
  async function publishedBefore(): Promise<void> {
    writeRepository(repository, {
      ...TWO_MODELS,
      'a/2/weights.bin': 'a2',
      'c/config.pbtxt': CONFIG,
      'c/1/weights.bin': 'c',
    });
    await publishNow();
    for (const gone of ['a/2', 'b', 'c/1']) rmSync(join(repository, gone), { recursive: true });
  }

  test.each([{ dryRun: true }, { dryRun: false }])(
    'with --exclude removes models that the folder lacks: %p',
    async (options) => {
      await publishedBefore();
      const stages: string[] = [];
      const { plan } = await pruned({ exclude: ['c'], onStage: (text) => stages.push(text), ...options });
      expect(plan.remove).toEqual(['b']);
      expect(plan.prune.sort()).toEqual(['a/2/weights.bin', 'b/1/weights.bin', 'b/config.pbtxt']);
      expect(stages.filter((text) => text.includes('--prune'))).toEqual([]);
      const left = ['a/1/weights.bin', 'a/config.pbtxt', 'c/1/weights.bin', 'c/config.pbtxt'];
      expect(await models()).toEqual(options.dryRun ? [...plan.prune, ...left].sort() : left);
    },
  );

  test('with --models deletes only versions of these models and reports it', async () => {
    await publishedBefore();
    const stages: string[] = [];
    const { plan } = await pruned({ models: ['a'], onStage: (text) => stages.push(text) });
    expect(plan).toMatchObject({ remove: [], prune: ['a/2/weights.bin'] });
    expect(stages).toContain('--prune keeps b, because --models removes no model');
    expect(await models()).toContain('b/1/weights.bin');
  });
});

describe('rollback and promote', () => {
  const CHANGED = { 'a/config.pbtxt': CONFIG.replace('[1]', '[2]'), 'a/2/weights.bin': 'a2' };

  test('rollback restores the previous release, the next one, and one given by a part of its name', async () => {
    writeRepository(repository, TWO_MODELS);
    const one = (await publishNow()).release as Release;
    const config = await text('models/a/config.pbtxt');
    writeRepository(repository, CHANGED);
    const two = (await publishNow()).release as Release;
    const back = await rollBack(undefined, bucket().options());
    expect(back.release?.origin).toBe(`rollback to ${one.id}`);
    expect(await text('models/a/config.pbtxt')).toBe(config);
    expect(await models()).toContain('a/2/weights.bin');
    await rollBack(two.id.slice(-8), bucket().options());
    expect((await head())?.models['a']?.served).toEqual([2]);
    await expect(rollBack('nope', bucket().options())).rejects.toThrow(/has no release whose id contains "nope"/);
  });

  test('rollback removes models that were added later, and restores them with their release', async () => {
    writeRepository(repository, ONE_MODEL);
    await publishNow();
    writeRepository(repository, TWO_MODELS);
    const two = (await publishNow()).release as Release;
    await rollBack(undefined, bucket().options());
    expect(await models()).toEqual(['a/1/weights.bin', 'a/config.pbtxt']);
    await rollBack(two.id, bucket().options());
    expect(await text('models/b/1/weights.bin')).toBe('b');
    expect(await models()).toContain('b/config.pbtxt');
  });

  test('rollback and list name permanently deleted versions; other models can be rolled back separately', async () => {
    writeRepository(repository, { ...TWO_MODELS, 'c/config.pbtxt': CONFIG, 'c/1/weights.bin': 'c' });
    const one = (await publishNow()).release as Release;
    writeRepository(repository, {
      ...CHANGED,
      'b/config.pbtxt': CONFIG.replace('[1]', '[2]'),
      'b/2/weights.bin': 'b2',
    });
    rmSync(join(repository, 'a', '1'), { recursive: true });
    rmSync(join(repository, 'c'), { recursive: true });
    const lost: string[] = [];
    await publishNow({ prune: true, onPlan: (plan) => lost.push(...plan.lost) });
    expect(lost.sort()).toEqual(['a 1', 'c 1']);
    expect((await listReleases(store, LOCATION, 9)).map((release) => release.lost)).toEqual([[], ['a 1', 'c 1']]);

    const before = await contents();
    const refusal = await rollBack(one.id, bucket().options()).catch((error: unknown) => error as UserError);
    expect(refusal).toMatchObject({
      message: `cannot restore release ${one.id}: --prune deleted a 1, c 1 (a/1/weights.bin, c/1/weights.bin)`,
      hint: expect.stringMatching(
        /nothing was changed; publish .* other models: npm run rollback -- \S+ --models b$/,
      ) as string,
    });
    expect(await contents()).toEqual(before);

    const back = await rollBack(one.id, { ...bucket().options(), models: ['b'] });
    expect(back.release?.origin).toBe(`rollback of b to ${one.id}`);
    const served = Object.entries((await head())?.models ?? {}).map(([name, model]) => [name, model.served]);
    expect(served).toEqual([
      ['a', [2]],
      ['b', [1]],
    ]);
    await expect(rollBack(one.id, { ...bucket().options(), models: ['z'] })).rejects.toThrow(/has no model "z"/);
  });

  test('rollback refuses releases whose versions "npm run local" replaced in place, and list marks them', async () => {
    writeRepository(repository, TWO_MODELS);
    const one = (await publishNow()).release as Release;
    writeRepository(repository, { 'a/1/weights.bin': 'A' });
    await publishNow({ replacePublished: true });
    expect((await listReleases(store, LOCATION, 9)).map(({ lost }) => lost)).toEqual([[], ['a 1']]);
    const before = await contents();
    const refusal = await rollBack(undefined, bucket().options()).catch((error: unknown) => error as UserError);
    expect(refusal).toBeInstanceOf(VersionConflictError);
    expect((refusal as UserError).hint).toMatch(
      /were replaced after.* other models: npm run rollback -- \S+ --models b$/,
    );
    expect(await contents()).toEqual(before);
    expect((await rollBack(one.id, { ...bucket().options(), models: ['b'] })).isNew).toBe(false);
  });

  test.each(['reports the model as failed', 'throws'])(
    'publish restores a version that it replaced in place if the activation %s',
    async (how) => {
      const large = (byte: number): Buffer => Buffer.alloc(PART_BYTES + 1, byte);
      writeRepository(repository, { ...TWO_MODELS, 'a/1/large.bin': large(1), 'a/1/gone.bin': 'gone' });
      const before = (await publishNow()).release as Release;
      const published = await contents();
      rmSync(join(repository, 'a', '1', 'gone.bin'));
      writeRepository(repository, { 'a/1/weights.bin': 'A', 'a/1/large.bin': large(2), 'a/1/added.bin': 'added' });
      writeRepository(repository, { 'c/config.pbtxt': CONFIG, 'c/1/weights.bin': 'c' });
      const activate = async (): Promise<string[]> => {
        expect(await text('models/a/1/weights.bin')).toBe('A');
        if (how === 'throws') throw new UserError('wrong');
        return ['a'];
      };
      const publishing = publishNow({ replacePublished: true, activate });
      if (how === 'throws') await expect(publishing).rejects.toThrow('wrong');
      else await publishing;
      const now = await head();
      expect(now?.models['a']).toEqual(before.models['a']);
      expect(Object.keys(now?.models ?? {})).toEqual(how === 'throws' ? ['a', 'b'] : ['a', 'b', 'c']);
      const ofModel = (all: string[]): string[] => all.filter((line) => line.startsWith('models/a/'));
      expect(ofModel(await contents())).toEqual(ofModel(published));
      // Only configurations stay archived.
      const copies = (await store.list('')).filter(({ key }) => key.includes('/kept/'));
      expect(copies.filter(({ bytes }) => bytes < 10 || bytes > PART_BYTES)).toEqual([]);
      expect((await publishNow({ replacePublished: true })).isNew).toBe(true);
      expect(await text('models/a/1/weights.bin')).toBe('A');
    },
  );

  test('publish removes a model whose activation fails from the release if its files did not change', async () => {
    writeRepository(repository, TWO_MODELS);
    await publishNow();
    const { release } = await publishNow({ replacePublished: true, activate: () => Promise.resolve(['a']) });
    expect(Object.keys(release?.models ?? {})).toEqual(['b']);
    expect(await models()).not.toContain('a/config.pbtxt');
  });

  describe('a manifest whose publisher was killed before it activated the release', () => {
    /** Publishes version 1, starts but does not finish version 2, and publishes version 3. @returns the manifests */
    async function publishTwoAndAHalf(): Promise<{ one: string; lost: string; three: string }> {
      const version = (n: number): void =>
        void writeRepository(repository, {
          'a/config.pbtxt': CONFIG.replace('[1]', `[${n}]`),
          [`a/${n}/weights.bin`]: `${n}`,
        });
      version(1);
      const one = (await publishNow()).release as Release;
      version(2);
      const dying = Object.create(store) as S3Store;
      dying.putBytes = (key, body, condition) =>
        key.endsWith('/head.json') ? Promise.reject(new Error('killed')) : store.putBytes(key, body, condition);
      await expect(publisher(dying, LOCATION, repository).publish()).rejects.toThrow('killed');
      version(3);
      const three = (await publishNow()).release as Release;
      const ids = (await keys('models.releases/2')).map((key) => /([^/]+)\.json$/.exec(key)?.[1] ?? '');
      const [lost = '', ...more] = ids.filter((id) => id !== one.id && id !== three.id);
      expect(more).toEqual([]);
      return { one: one.id, lost, three: three.id };
    }

    test('is not listed, and rollback and promote refuse it', async () => {
      const { one, lost, three } = await publishTwoAndAHalf();
      const listed = await listReleases(store, LOCATION, 9);
      expect(listed.map(({ id, isCurrent, changes }) => [id, isCurrent, changes])).toEqual([
        [three, true, ['a 1 -> 3']],
        [one, false, ['new a 1']],
      ]);
      expect((await listReleases(store, LOCATION, 1)).map(({ changes }) => changes)).toEqual([['a 1 -> 3']]);
      const before = await contents();
      const refusal = new RegExp(`^release ${lost} of s3://publish-test/models was never activated`);
      await expect(rollBack(lost, bucket().options())).rejects.toThrow(refusal);
      await expect(rollBack(lost.slice(-8), bucket().options())).rejects.toThrow(refusal);
      const to = publisher(store, { bucket: LOCATION.bucket, prefix: 'prod' }, repository);
      const promotion = { from: { store, location: LOCATION }, release: lost };
      await expect(promote({ ...to.options(), ...promotion })).rejects.toThrow(refusal);
      expect(await contents()).toEqual(before);
      expect((await rollBack(one, bucket().options())).release?.origin).toBe(`rollback to ${one}`);
    });
  });

  test('promote copies identical bytes to another repository', async () => {
    writeRepository(repository, TWO_MODELS);
    const { release } = await publishNow();
    const prod = { bucket: LOCATION.bucket, prefix: 'prod/models' };
    const from = { store, location: LOCATION };
    const to = publisher(store, prod, repository);
    await promote({ ...to.options(), from });
    expect(await keys('prod/models/')).toEqual((await models()).map((key) => `prod/models/${key}`));
    expect(await text('prod/models/a/config.pbtxt')).toBe(await text('models/a/config.pbtxt'));
    expect((await readHead(store, prod))?.release.origin).toBe(
      `promoted from s3://publish-test/models, release ${release?.id}`,
    );
    expect((await promote({ ...to.options(), from })).isNew).toBe(false);
    // Publishing from the folder gives the same release content.
    expect((await to.publish()).isNew).toBe(false);
  });
});

test('promote --require-pretrained refuses random weights and copies nothing', async () => {
  const trace = (kind: string, description: string): string => JSON.stringify({ weights: { kind, description } });
  writeRepository(repository, {
    ...TWO_MODELS,
    'a/1/weights.bin.trace.json': trace('random', 'seeded random weights (seed 0), not pretrained'),
    'b/1/weights.bin.trace.json': trace('pretrained', 'B, trained'),
  });
  const { release } = await publishNow();
  const run = (...flags: string[]): Promise<Finished> => {
    const to = ['--from', 's3://publish-test/models', '--to', 's3://publish-test/prod', '--endpoint-url', endpoint];
    return runCommandLine('promote', [...to, '--require-pretrained', ...flags], S3_ENVIRONMENT);
  };
  const { code, stderr } = await run();
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringContaining(
      `release ${release?.id} serves random weights, which --require-pretrained does not allow\n` +
        '  a 1: seeded random weights (seed 0), not pretrained\n' +
        '  -> set trained weights in model-repo/MODEL/weights.yaml',
    ) as string,
  });
  expect(await keys('prod')).toEqual([]);
  expect(await run('--models', 'b')).toMatchObject({ code: 0 });
  expect(await keys('prod/')).toEqual(expect.arrayContaining(['prod/b/1/weights.bin']));
});

test('promote copies small and large files to a bucket of another server', async () => {
  const second = await openBucket(scratch, (await testS3(scratch, 'second')).endpoint, 'prod');
  writeRepository(repository, { 'a/config.pbtxt': CONFIG, 'a/1/small.bin': 'a', 'a/labels.txt': 'l' });
  const large = randomBytes(PART_BYTES * 2 + 12_345);
  writeFileSync(join(repository, 'a', '1', 'weights.bin'), large);
  await publishNow();
  const prod = { bucket: 'prod', prefix: 'models' };
  await promote({ ...publisher(second, prod, repository).options(), from: { store, location: LOCATION } });
  expect((await second.get('models/a/1/weights.bin'))?.body.equals(large)).toBe(true);
  expect((await second.list('models/')).map(({ key }) => key)).toEqual(
    (await store.list('models/')).map(({ key }) => key),
  );
  // Publishing from the folder gives the same release content.
  expect((await publisher(second, prod, repository).publish()).isNew).toBe(false);
});

test('publish writes the placeholder of an empty repository once', async () => {
  await ensurePlaceholder(store, LOCATION);
  await ensurePlaceholder(store, LOCATION);
  expect(await keys()).toEqual(['models/.keep']);
});
