import { NO_INTENT } from '../../../src/publish/lock';
import type { SeenRepository } from '../../../src/publish/plan/snapshot';
import { conflicts, isChanged, makePlan } from '../../../src/publish/plan/plan';
import type { Release } from '../../../src/publish/release/release';
import type { WantedModel, WantedObject } from '../../../src/publish/plan/desired';
import type { S3Store } from '../../../src/s3/store';

const LOCATION = { bucket: 'bucket', prefix: 'models' };

function object(key: string, content: string): WantedObject {
  return { key, bytes: content.length, checksum: content, source: { body: Buffer.from(content) } };
}

const MODEL: WantedModel = {
  name: 'm',
  served: [1],
  digest: 'd',
  composedOf: [],
  weights: {},
  objects: [
    object('m/1/model.pt', 'weights'),
    object('m/1/model.pt.trace.json', 'trace'),
    object('m/labels.txt', 'labels'),
  ],
  config: object('m/config.pbtxt', 'config'),
};

const RELEASED: Release = {
  format: 2,
  id: 'r',
  createdAt: '2026-11-20T00:00:00Z',
  origin: 'test',
  by: 'me@here',
  models: {
    m: {
      served: [1],
      digest: 'd',
      composedOf: [],
      weights: {},
      objects: { 'm/1/model.pt': { bytes: 7, checksum: 'weights', etag: 'known' } },
    },
  },
};

/** A bucket as key -> [content, etag]; the content stands for its own checksum. */
async function plan(
  contents: Record<string, [content: string, etag: string]>,
  options: { release?: Release; prune?: boolean; remove?: string[]; model?: WantedModel } = {},
) {
  const asked: string[] = [];
  const store = {
    checksum: (key: string) => {
      asked.push(key);
      return Promise.resolve(contents[key.slice('models/'.length)]?.[0]);
    },
  } as unknown as S3Store;
  const seen: SeenRepository = {
    lock: { etag: undefined, heldBy: undefined, unfinished: NO_INTENT },
    head: options.release === undefined ? undefined : { release: options.release, etag: 'head' },
    objects: new Map(
      Object.entries(contents).map(([key, [content, etag]]) => [key, { key, bytes: content.length, etag }]),
    ),
  };
  const { prune = false, remove = [], model = MODEL } = options;
  const made = await makePlan([model], seen, {
    store,
    location: LOCATION,
    prune,
    remove,
    keepRemoved: false,
    replacePublished: false,
  });
  const planned = made.models[0];
  const actions = planned === undefined ? [] : [...planned.objects, planned.config].map(({ action }) => action);
  return { plan: made, planned, asked, actions };
}

test('an empty bucket: everything is uploaded', async () => {
  const { plan: made, actions } = await plan({});
  expect(actions).toEqual(['upload', 'upload', 'upload', 'upload']);
  expect(made.models.map(isChanged)).toEqual([true]);
  expect(conflicts(made)).toEqual([]);
});

test('the same content: everything is kept, whatever the ETags are', async () => {
  const { plan: made, actions } = await plan({
    'm/1/model.pt': ['weights', 'x'],
    'm/1/model.pt.trace.json': ['trace', 't'],
    'm/labels.txt': ['labels', 'y'],
    'm/config.pbtxt': ['config', 'z'],
  });
  expect(actions).toEqual(['keep', 'keep', 'keep', 'keep']);
  expect(made.models.map(isChanged)).toEqual([false]);
});

test.each([
  ['of the same length', 'weightS'],
  ['of another length', 'weights!'],
])('other bytes %s in a published version are a conflict; the rest may be replaced', async (_, content) => {
  const { plan: made, actions } = await plan(
    {
      'm/1/model.pt': [content, 'x'],
      'm/1/model.pt.trace.json': ['tracE', 't'],
      'm/labels.txt': ['labelS', 'y'],
      'm/config.pbtxt': ['confiG', 'z'],
    },
    { release: RELEASED },
  );
  expect(actions).toEqual(['conflict', 'replace', 'replace', 'replace']);
  expect(conflicts(made)).toEqual([{ key: 'm/1/model.pt', reason: 'is in the bucket with other bytes' }]);
});

describe('what counts as published', () => {
  const other = { 'm/1/model.pt': ['weightS', 'x'], 'm/1/extra.bin': ['x', 'x'] } as const;
  const cases: [string, Record<string, [string, string]>, Release | undefined, string, number][] = [
    ['nothing without a configuration and a release', {}, undefined, 'replace', 1],
    ['a version that the release has', {}, RELEASED, 'conflict', 0],
    ['all versions of a model of somebody else', { 'm/config.pbtxt': ['config', 'z'] }, undefined, 'conflict', 0],
  ];
  test.each(cases)('%s', async (_, more, release, action, leftovers) => {
    const { actions, planned } = await plan(
      { ...(other as unknown as typeof more), ...more },
      release === undefined ? {} : { release },
    );
    expect(actions[0]).toBe(action);
    expect(planned?.leftovers.length).toBe(leftovers);
    expect(planned?.surplus.length).toBe(1 - leftovers);
  });

  test('a version that the release does not have is not published, whatever else the model has', async () => {
    const two = { ...MODEL, objects: [object('m/2/model.pt', 'weights')] };
    const { actions } = await plan({ 'm/2/model.pt': ['weightS', 'x'] }, { release: RELEASED, model: two });
    expect(actions[0]).toBe('replace');
  });
});

test('objects of other models and versions are not looked at', async () => {
  const { plan: made, asked } = await plan(
    { 'm/2/model.pt': ['x', 'x'], 'm_1/1/extra.bin': ['x', 'x'], 'm_1/config.pbtxt': ['x', 'x'] },
    { release: RELEASED },
  );
  expect(conflicts(made)).toEqual([]);
  expect(asked).toEqual([]);
  expect(made.prune).toEqual([]);
});

describe('with a release', () => {
  test('S3 is not asked for the checksum of an object that still has the ETag of the release', async () => {
    const { asked, actions } = await plan({ 'm/1/model.pt': ['weights', 'known'] }, { release: RELEASED });
    expect(actions[0]).toBe('keep');
    expect(asked).toEqual([]);
  });

  test('an object that somebody else overwrote is looked at', async () => {
    const { asked, actions } = await plan({ 'm/1/model.pt': ['wEights', 'other'] }, { release: RELEASED });
    expect(actions[0]).toBe('conflict');
    expect(asked).toEqual(['models/m/1/model.pt']);
  });

  test('an object of a release that is to be gone back to is told by its ETag', async () => {
    const model = { ...MODEL, objects: [{ key: 'm/1/model.pt', bytes: 7, etag: 'known', source: { stored: [] } }] };
    const { asked, actions } = await plan({ 'm/1/model.pt': ['wEights', 'known'] }, { model });
    expect(actions[0]).toBe('keep');
    expect(asked).toEqual([]);
  });
});

test('pruning takes what the model no longer has, and nothing of the versions it has', async () => {
  const contents: Record<string, [string, string]> = {
    'm/1/model.pt': ['weights', 'known'],
    'm/2/model.pt': ['x', 'x'],
    'm/old.txt': ['x', 'x'],
    'm/config.pbtxt': ['config', 'z'],
    'm2/1/model.pt': ['x', 'x'],
    'gone/config.pbtxt': ['x', 'x'],
  };
  const { plan: made } = await plan(contents, { release: RELEASED, prune: true, remove: ['gone'] });
  expect(made.prune).toEqual(['gone/config.pbtxt', 'm/2/model.pt', 'm/old.txt']);
});

test.each([
  { bucket: 'without versioning', kept: {}, lost: ['gone 1'] },
  { bucket: 'with versioning', kept: { versionId: 'v' }, lost: [] },
])('of a bucket $bucket a deletion loses $lost', async ({ kept, lost }) => {
  const object = { bytes: 1, checksum: 'x', etag: 'x' };
  const gone = {
    ...(RELEASED.models['m'] as Release['models'][string]),
    objects: { 'gone/config.pbtxt': object, 'gone/1/model.pt': { ...object, ...kept } },
  };
  const release = { ...RELEASED, models: { ...RELEASED.models, gone } };
  const contents = Object.fromEntries(
    ['gone/config.pbtxt', 'gone/1/model.pt', 'm/2/never-released.pt'].map((key) => [
      key,
      ['x', 'x'] as [string, string],
    ]),
  );
  expect((await plan(contents, { release, prune: true, remove: ['gone'] })).plan.lost).toEqual(lost);
});
