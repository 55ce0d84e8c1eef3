import { join } from 'node:path';
import { NO_INTENT } from '../../../src/publish/lock';
import { lockKey } from '../../../src/release/location';
import { newRelease, writeHead } from '../../../src/publish/release/release';
import { isAsReleased, repositoryStatus } from '../../../src/publish/status';
import { withFailedSteps } from '../../../src/publish/apply/served';
import { describeStatus } from '../../../scripts/status';
import { fakeTriton } from '../../support/fake-triton';
import { MemoryStore } from '../../support/memory-store';
import { CONFIG, ONE_MODEL, publisher } from '../../support/publish';
import { writeRepository } from '../../support/repository';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const version = (model: string, state: string, reason = '') => ({ model, version: 1, state, reason });
const MODELS = [
  { name: 'step', composedOf: [] },
  { name: 'inner', composedOf: ['step'] },
  { name: 'outer', composedOf: ['other', 'inner'] },
  { name: 'loop', composedOf: ['loop'] },
];

test('withFailedSteps gives ensembles the reason of the innermost failed step', () => {
  const step = version('step', 'UNAVAILABLE', 'Internal: no\n\nAt:\n  /t/folderAb3dE9/1/model.py(4): execute\n');
  const reason = 'because its step step version 1 is UNAVAILABLE: Internal: no (step/1/model.py, line 4, in execute)';
  expect(withFailedSteps([step, version('inner', 'absent'), version('outer', 'UNAVAILABLE', 'x')], MODELS)).toEqual([
    step,
    { ...version('inner', 'absent', reason), failedStep: 'step' },
    { ...version('outer', 'UNAVAILABLE', reason), failedStep: 'step' },
  ]);
});

test.each([
  ['whose steps are served', [version('step', 'READY'), version('inner', 'UNAVAILABLE', 'no memory')]],
  ['that is served', [version('step', 'UNAVAILABLE', 'no'), version('inner', 'READY')]],
  ['that names itself as its step', [version('loop', 'UNAVAILABLE', 'no')]],
])('withFailedSteps leaves an ensemble %s as it is', (_, versions) => {
  expect(withFailedSteps(versions, MODELS)).toEqual(versions);
});

test('describeStatus prints the first line of an error in the table, and the whole error below', () => {
  const wrong = { ...version('m', 'UNAVAILABLE'), ok: false, verdict: 'first line\nsecond line' };
  const text = describeStatus(
    { name: 's3://b/p', replicas: undefined },
    {
      release: undefined,
      publishing: undefined,
      unfinished: [],
      drift: [],
      replicas: [
        { replica: 'one', versions: [wrong], answers: [{ model: 'm', ok: false, result: 'wrong\nby far' }] },
        { replica: 'two', versions: [], problem: 'cannot be read\nat all' },
      ],
    },
  );
  expect(text.split('\n').slice(3)).toEqual([
    'replica  model  version  state        against the release',
    '-------  -----  -------  -----------  -------------------',
    'one      m            1  UNAVAILABLE  first line',
    'two      -            -  -            cannot be read',
    '',
    'one, m version 1: first line',
    'second line',
    '',
    'one, m: wrong',
    'by far',
    '',
    'two: cannot be read',
    'at all',
    '',
    'replica  model  asked  result',
    '-------  -----  -----  ------',
    'one      m      WRONG  wrong',
  ]);
});

test.each([
  { title: 'reports drift', lock: undefined, drift: ['a/config.pbtxt is missing'] },
  { title: 'reports no drift of a model that a publisher is activating', lock: 'a', drift: [] },
  { title: 'reports drift of other models meanwhile', lock: 'b', drift: ['a/config.pbtxt is missing'] },
])('repositoryStatus $title', async ({ lock, drift }) => {
  const location = { bucket: 'bucket', prefix: 'models' };
  const { store } = new MemoryStore();
  const objects = { 'a/config.pbtxt': { bytes: 1, checksum: 'x', etag: 'x' } };
  const models = { a: { served: [1], digest: 'd', composedOf: [], weights: {}, objects } };
  await writeHead(store, location, newRelease({ previous: undefined, origin: 'test', models }), undefined);
  if (lock !== undefined) {
    const holder = { user: 'ana', host: 'build-7', pid: 1, place: 'elsewhere' };
    const body = { state: 'held', id: '1', holder, since: '2026', intent: { ...NO_INTENT, switching: [lock] } };
    await store.putBytes(lockKey(location), Buffer.from(JSON.stringify(body)));
  }
  expect((await repositoryStatus(store, location, undefined)).drift).toEqual(drift);
});

test('repositoryStatus compares checksums where ETags differ, as they do after a restore in a bucket with SSE-KMS', async () => {
  const location = { bucket: 'bucket', prefix: 'models' };
  const memory = new MemoryStore();
  memory.randomEtags = true;
  let isBroken = false;
  const triton = await fakeTriton(scratch, memory.store, () => {
    const how = isBroken ? 'refuse' : 'ok';
    isBroken = false;
    return how;
  });
  const write = (folder: string, files: Record<string, string>): string =>
    writeRepository(join(scratch.directory, folder), files);
  const bucket = publisher(memory.store, location, write('one', ONE_MODEL), () => [triton.url]);
  await bucket.publish();
  const before = (await memory.list('models/a/config.pbtxt'))[0]?.etag;
  isBroken = true;
  const next = { 'a/config.pbtxt': CONFIG.replace('[1]', '[2]'), 'a/2/weights.bin': 'b' };
  await expect(bucket.publish({ repository: write('two', next) })).rejects.toThrow('could not load a');
  expect((await memory.list('models/a/config.pbtxt'))[0]?.etag).not.toBe(before);
  const { replicas } = bucket.options();
  const restored = await repositoryStatus(memory.store, location, replicas);
  expect(restored.drift).toEqual([]);
  expect(isAsReleased(restored)).toBe(true);

  const { plan } = await bucket.publish({ dryRun: true });
  expect(plan.models.flatMap(({ objects, config }) => [...objects, config].map(({ action }) => action))).toEqual([
    'keep',
    'keep',
  ]);

  await memory.putBytes('models/a/1/weights.bin', 'x');
  expect((await repositoryStatus(memory.store, location, replicas)).drift).toEqual([
    'a/1/weights.bin differs from the release',
  ]);
});
