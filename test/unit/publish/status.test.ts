import { NO_INTENT } from '../../../src/publish/lock';
import { lockKey } from '../../../src/release/location';
import { newRelease, writeHead } from '../../../src/publish/release/release';
import { repositoryStatus } from '../../../src/publish/status';
import { withFailedSteps } from '../../../src/publish/apply/served';
import { describeStatus } from '../../../scripts/status';
import { MemoryStore } from '../../support/memory-store';

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
