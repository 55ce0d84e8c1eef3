import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { makeRelease } from '../../../src/publish/make-release';
import type { ReleaseResult } from '../../../src/publish/options';
import { promote } from '../../../src/publish/promote';
import { VersionConflictError, type PublishOptions } from '../../../src/publish/publish';
import { Releases } from '../../../src/publish/releases';
import { rollBack } from '../../../src/publish/rollback';
import { headKey, releaseKey } from '../../../src/release/location';
import { publisher, TWO_MODELS } from '../../support/publish';
import { addingEnsemble, addingModel, writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';
import { MemoryBucket, MemoryStore } from '../../support/memory-store';
import { recorded } from '../../support/model-files';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const LOCATION = { bucket: 'bucket', prefix: 'models' };
const ALL = 'backend: "anything"\nversion_policy { all {} }\n';
type Files = Record<string, string | Buffer>;

/** A folder of models, and a repository in memory without replicas. */
function start(files: Files) {
  const repository = mkdtempSync(join(scratch.directory, 'r'));
  const bucket = new MemoryBucket();
  const { store } = new MemoryStore(bucket);
  const { options, publish } = publisher(store, LOCATION, repository);
  const write = (more: Files): unknown => writeRepository(repository, more);
  write(files);
  return {
    ...{ repository, bucket, store, options, publish, write },
    remove: (path: string): void => rmSync(join(repository, path), { recursive: true }),
    rollBack: (id?: string, models?: string[]) => rollBack(id, { ...options(), models }),
    /** Makes a release without models, as a new `npm run local` does. */
    publishNothing: (): Promise<ReleaseResult> =>
      makeRelease(
        ({ current }) => Promise.resolve({ models: [], remove: Object.keys(current?.models ?? {}), origin: 'test' }),
        options(),
      ),
    served: async () =>
      Object.entries((await Releases.read({ store, location: LOCATION })).current?.models ?? {}).map(
        ([name, { served }]) => `${name} ${served.join(' ')}`,
      ),
  };
}

const FILES = { 'a/config.pbtxt': ALL, 'a/1/weights.bin': 'a', 'a/1/more.bin': 'm', 'a/labels.txt': 'l' };

describe('a plan compares files by content', () => {
  test.each<{
    title: string;
    write?: Files;
    remove?: string;
    options?: Partial<PublishOptions>;
    upload?: string[];
    conflict?: string[];
    missing?: string[];
    isChanged?: boolean;
  }>([
    { title: 'the same files', isChanged: false },
    { title: 'another version', write: { 'a/3/weights.bin': 'a3' }, upload: ['3/weights.bin'] },
    { title: 'a file beside the versions', write: { 'a/labels.txt': 'other' }, upload: ['labels.txt'] },
    { title: 'only the configuration', write: { 'a/config.pbtxt': `${ALL}max_batch_size: 2\n` } },
    { title: 'a file of a version', write: { 'a/1/weights.bin': 'A' }, conflict: ['1/weights.bin'] },
    {
      title: 'the same, with replacePublished',
      ...{ write: { 'a/1/weights.bin': 'A' }, options: { replacePublished: true }, upload: ['1/weights.bin'] },
    },
    { title: 'a missing file of a version', remove: 'a/1/more.bin', missing: ['1/more.bin'] },
    { title: 'a version of a former release', write: { 'a/2/weights.bin': 'a2' } },
    { title: 'the same with other bytes', write: { 'a/2/weights.bin': 'A2' }, conflict: ['2/weights.bin'] },
  ])('$title', async ({ write = {}, remove, options, upload = [], conflict = [], missing = [], isChanged = true }) => {
    const at = start({ ...FILES, 'a/2/weights.bin': 'a2' });
    await at.publish();
    at.remove('a/2');
    await at.publish();
    at.write(write);
    if (remove !== undefined) at.remove(remove);
    const before = [...at.bucket.objects.keys()];
    const plans: PublishOptions['onPlan'] extends ((plan: infer P) => void) | undefined ? P[] : never = [];
    const planning = at.publish({ dryRun: true, onPlan: (plan) => plans.push(plan), ...options });
    if (conflict.length + missing.length === 0) await planning;
    else await expect(planning).rejects.toThrow(VersionConflictError);
    const [planned] = plans[0]?.models ?? [];
    const ofAction = (wanted: string): string[] | undefined =>
      planned?.files.filter(({ action }) => action === wanted).map(({ file }) => file.path);
    expect({ upload: ofAction('upload'), conflict: ofAction('conflict'), missing: planned?.missing }).toEqual({
      ...{ upload, conflict, missing },
    });
    expect(planned?.isChanged).toBe(isChanged);
    expect([...at.bucket.objects.keys()]).toEqual(before);
  });
});

/** The record of a trace; nothing for a model without trace.py. */
function record(isTraced: boolean, version: number, content: string): Files {
  const artifact = recorded(`${version}/weights.bin`, content);
  const text = JSON.stringify({ artifact, checked: 'thorough', max_batch_size: 0, input_dims: [] });
  return isTraced ? { 'a/trace.py': '', [`a/${artifact.path}.trace.json`]: text } : {};
}

test.each([
  [
    'a version',
    false,
    /^put the new files into a new version folder, a\/2; name 2 in .*; then restore a\/1, or delete a\/1 and a\/golden\/1; nothing was uploaded$/,
  ],
  [
    'a traced version',
    true,
    /^npm run trace -- --models a --repo \S+ --version 2; name 2 in .* delete a\/1 and a\/golden\/1;/,
  ],
])('after a change of %s the error names the way out, which succeeds', async (_, isTraced, hint) => {
  const at = start({ 'a/config.pbtxt': ALL, 'a/1/weights.bin': 'a', ...record(isTraced, 1, 'a') });
  await at.publish();
  at.write({ 'a/1/weights.bin': 'A', ...record(isTraced, 1, 'A') });
  await expect(at.publish()).rejects.toMatchObject({
    message: 'cannot change published versions:\n  a/1/weights.bin is in the bucket with other bytes',
    hint: expect.stringMatching(hint) as string,
  });
  at.remove('a/1');
  at.write({ 'a/2/weights.bin': 'A', ...record(isTraced, 2, 'A') });
  await at.publish();
  expect(await at.served()).toEqual(['a 2']);
});

test('a conflict with another retained release names a version that neither has', async () => {
  const at = start({ 'a/config.pbtxt': ALL, 'a/1/weights.bin': 'a', 'a/2/weights.bin': 'a2' });
  await at.publish();
  at.remove('a/1');
  await at.publish();
  at.write({ 'a/1/weights.bin': 'A' });
  await expect(at.publish()).rejects.toMatchObject({ hint: expect.stringContaining('folder, a/3;') as string });
});

test('with replacePublished an edited version is another object, and a rollback restores the former one', async () => {
  const at = start(FILES);
  const first = await at.publish();
  at.write({ 'a/1/weights.bin': 'edited' });
  const second = await at.publish({ replacePublished: true });
  const newestFirst = await (await Releases.read({ store: at.store, location: LOCATION })).readAll();
  expect(
    newestFirst.map(({ id, models }) => [id, models['a']?.files.find(({ path }) => path === '1/weights.bin')?.bytes]),
  ).toEqual([
    [second.release?.id, 'edited'.length],
    [first.release?.id, 'a'.length],
  ]);
  expect(await at.publish()).toMatchObject({ isNew: false });
  const { release } = await at.rollBack();
  expect(release?.models).toEqual(first.release?.models);
});

test('an ensemble with an empty version folder is published once, and its step cannot be removed alone', async () => {
  const at = start({ ...addingModel('step', { 1: 10 }), ...addingEnsemble('whole', 'step') });
  at.remove('whole/1/.keep');
  writeRepository(join(at.repository, 'whole', '1'), {});
  const { release } = await at.publish();
  expect(release?.models['whole']?.files.map(({ path }) => path)).toEqual(['1/.keep']);
  expect(await at.publish()).toMatchObject({ isNew: false, uploaded: [] });
  const removal = makeRelease(() => Promise.resolve({ models: [], remove: ['step'], origin: 'test' }), at.options());
  await expect(removal).rejects.toThrow('cannot remove step, because ensemble whole contains it');
});

test.each<{ options: Partial<PublishOptions>; remove: string[]; stage?: string; warning?: string }>([
  { options: {}, remove: [], warning: 'no longer has these models, which stay served: b' },
  { options: { prune: true }, remove: ['b'] },
  { options: { prune: true, exclude: ['c'] }, remove: ['b'] },
  { options: { prune: true, models: ['a'] }, remove: [], stage: '--prune keeps b, because --models removes no model' },
  { options: { models: ['a'] }, remove: [] },
])('with $options the models $remove are removed', async ({ options, remove, stage, warning }) => {
  const at = start({ ...TWO_MODELS, 'c/config.pbtxt': ALL, 'c/1/weights.bin': 'c' });
  await at.publish();
  renameSync(join(at.repository, 'b'), join(at.repository, 'd'));
  const said: string[] = [];
  const warned: string[] = [];
  const { plan } = await at.publish({
    ...{ dryRun: true, onStage: (text) => said.push(text), onWarning: ({ message }) => warned.push(message) },
    ...options,
  });
  expect(plan.remove).toEqual(remove);
  expect({ said, warned }).toEqual({
    said: stage === undefined ? [] : [stage],
    warned: warning === undefined ? [] : [warning],
  });
});

describe('rollback', () => {
  const version = (n: number): Files => ({
    'a/config.pbtxt': ALL.replace('all {}', `specific { versions: [${n}] }`),
    [`a/${n}/weights.bin`]: `${n}`,
  });

  test('without an id restores older and older releases, and with a part of an id that one', async () => {
    const at = start(version(1));
    await at.publish();
    at.write(version(2));
    const { release } = await at.publish({ message: 'second' });
    at.write({ ...version(3), ...TWO_MODELS, ...version(3) });
    await at.publish();
    expect((await at.rollBack()).release).toMatchObject({ origin: `rollback to ${release?.id}`, message: 'second' });
    expect(await at.served()).toEqual(['a 2']);
    await at.rollBack();
    expect(await at.served()).toEqual(['a 1']);
    await expect(at.rollBack()).rejects.toThrow(/there is no release before/);
    await at.rollBack(release?.id.slice(-8));
    expect(await at.served()).toEqual(['a 2']);
    await expect(at.rollBack('nothing')).rejects.toMatchObject({
      message: 's3://bucket/models retains no release whose id contains "nothing"',
      hint: expect.stringContaining(release?.id ?? '-') as string,
    });
  });

  test('of one model leaves the others as they are', async () => {
    const at = start({ ...version(1), ...addingModel('step', { 1: 10 }), ...addingEnsemble('whole', 'step') });
    const { release } = await at.publish();
    at.write({ ...version(2), ...addingModel('step', { 2: 20 }) });
    await at.publish();
    const back = await at.rollBack(release?.id, ['a']);
    expect(back.release?.origin).toBe(`rollback of a to ${release?.id}`);
    expect(await at.served()).toEqual(['a 1', 'step 2', 'whole 1']);
    await expect(at.rollBack(release?.id, ['z'])).rejects.toThrow(/has no model "z"/);
    await expect(at.rollBack(release?.id, ['whole'])).rejects.toThrow('ensemble whole contains step, which --models');
  });

  test('--no-ask does not need the golden requests of a model that stays as it is', async () => {
    const golden = JSON.stringify({ inputs: [{ name: 'x', data: [1] }], outputs: [{ name: 'y', data: [11] }] });
    const at = start({ ...version(1), ...addingModel('step', { 1: 10 }), 'step/golden/one.json': golden });
    const { release } = await at.publish();
    at.write(version(2));
    await at.publish();
    expect(at.bucket.objects.delete(release?.models['step']?.golden?.key ?? '')).toBe(true);
    await rollBack(undefined, { ...at.options(), noAsk: true });
    expect(await at.served()).toEqual(['a 1', 'step 1']);
  });

  test('skips releases without models', async () => {
    const at = start(version(1));
    const { isNew, release: empty } = await at.publishNothing();
    expect({ isNew, models: empty?.models }).toEqual({ isNew: true, models: {} });
    expect(await at.publishNothing()).toMatchObject({ isNew: false, release: { id: empty?.id } });
    await expect(at.rollBack()).rejects.toThrow(/there is no release before/);
    const { release: first } = await at.publish();
    await expect(at.rollBack()).rejects.toThrow(`there is no release before ${first?.id}`);
    for (const goBack of [at.publishNothing, () => at.rollBack(empty?.id)]) {
      await goBack();
      at.write(version(2));
      await at.publish();
      await at.rollBack();
      expect(await at.served()).toEqual(['a 1']);
    }
  });
});

test('a missing manifest is reported with its id, and needed only if it is read', async () => {
  const at = start(TWO_MODELS);
  await expect(at.rollBack()).rejects.toThrow('the repository has no release');
  const { release: first } = await at.publish();
  at.write({ 'a/labels.txt': 'x' });
  const { release: second } = await at.publish();
  const { release: third } = await at.rollBack(first?.id);
  at.bucket.objects.delete(releaseKey(LOCATION, first?.id ?? ''));
  await expect(at.rollBack()).rejects.toMatchObject({
    message: `cannot determine the release before ${third?.id}: it restored ${first?.id}, and s3://bucket/${releaseKey(LOCATION, first?.id ?? '')} is missing`,
    hint: 'choose the release yourself: npm run rollback -- ID; "npm run releases" lists the ids',
  });
  const promotion = {
    ...at.options(),
    ...{ location: { bucket: 'bucket', prefix: 'prod' }, from: { store: at.store, location: LOCATION } },
  };
  expect((await promote({ ...promotion, release: second?.id })).isNew).toBe(true);
  at.bucket.objects.delete(releaseKey(LOCATION, third?.id ?? ''));
  const message = `cannot read release ${third?.id} of s3://bucket/models: its manifest is missing`;
  await expect(promote(promotion)).rejects.toThrow(message);
  await expect(at.publish()).rejects.toThrow(message);
});

test('promote refuses an empty repository, a model that the release lacks, and an ensemble without its step', async () => {
  const at = start({ ...addingModel('step', { 1: 1 }), ...addingEnsemble('whole', 'step') });
  const to = { bucket: 'bucket', prefix: 'prod' };
  const attempt = (models?: string[]): Promise<ReleaseResult> =>
    promote({ ...at.options(), location: to, from: { store: at.store, location: LOCATION }, models });
  await expect(attempt()).rejects.toThrow('cannot promote from s3://bucket/models: the repository has no release');
  const { release } = await at.publish();
  await expect(attempt(['step', 'hole'])).rejects.toThrow(/has no model "hole"/);
  await expect(attempt(['whole'])).rejects.toThrow('ensemble whole contains step, which --models does not name');
  expect(at.bucket.objects.has(headKey(to))).toBe(false);
  expect((await attempt(['step'])).release?.origin).toBe(`promoted from s3://bucket/models, release ${release?.id}`);
});

test('a server that ignores conditions is refused, each time', async () => {
  const at = start(TWO_MODELS);
  jest.spyOn(at.bucket, 'put').mockImplementation((key, body) => MemoryBucket.prototype.put.call(at.bucket, key, body));
  for (let tries = 1; tries <= 2; tries += 1) {
    await expect(at.publish()).rejects.toMatchObject({
      message: expect.stringMatching(/^the S3 server at memory: lacks conditional writes/) as string,
      hint: expect.stringMatching(/^use a server that supports If-None-Match and If-Match/) as string,
    });
    expect(at.bucket.objects.has(headKey(LOCATION))).toBe(false);
  }
});
