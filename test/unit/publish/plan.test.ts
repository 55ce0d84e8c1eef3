import { NO_INTENT } from '../../../src/publish/lock';
import type { RepositorySnapshot } from '../../../src/publish/plan/snapshot';
import { conflicts, isChanged, makePlan, type Action } from '../../../src/publish/plan/plan';
import type { Release } from '../../../src/publish/release/release';
import type { DesiredModel, DesiredObject } from '../../../src/publish/plan/desired';
import type { S3Store } from '../../../src/s3/store';

const LOCATION = { bucket: 'bucket', prefix: 'models' };

function object(key: string, content: string): DesiredObject {
  return { key, bytes: content.length, checksum: content, source: { body: Buffer.from(content) } };
}

const MODEL: DesiredModel = {
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

/** An object of the bucket. The content stands for its own checksum. */
interface Stored {
  content: string;
  etag: string;
}

/** An object that the release does not have. */
const unreleased = (content: string): Stored => ({ content, etag: 'new' });
/** An object with the ETag that the release has for it. */
const released = (content: string): Stored => ({ content, etag: 'known' });

/** The bucket after MODEL was published. */
const PUBLISHED: Record<string, Stored> = {
  'm/1/model.pt': unreleased('weights'),
  'm/1/model.pt.trace.json': unreleased('trace'),
  'm/labels.txt': unreleased('labels'),
  'm/config.pbtxt': unreleased('config'),
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

/** Plans MODEL for a bucket with these objects, by key under the repository prefix. */
async function plan(
  contents: Record<string, Stored>,
  options: {
    release?: Release;
    prune?: boolean;
    remove?: string[];
    model?: DesiredModel;
    replacePublished?: boolean;
  } = {},
) {
  const { release, prune = false, remove = [], model = MODEL, replacePublished = false } = options;
  /** Keys whose checksum S3 was asked for. */
  const compared: string[] = [];
  const store = {
    concurrency: 8,
    checksum: (key: string) => {
      compared.push(key);
      return Promise.resolve(contents[key.slice('models/'.length)]?.content);
    },
  } as unknown as S3Store;
  const seen: RepositorySnapshot = {
    lock: { etag: undefined, heldBy: undefined, unfinished: NO_INTENT },
    head: release && { release, etag: 'head' },
    objects: new Map(
      Object.entries(contents).map(([key, { content, etag }]) => [key, { key, bytes: content.length, etag }]),
    ),
  };
  const planOptions = { store, location: LOCATION, prune, remove, archiveRemoved: false, replacePublished };
  const made = await makePlan([model], seen, planOptions);
  const [planned] = made.models;
  if (planned === undefined) throw new Error('the plan has no model');
  const all = [...planned.objects, planned.config];
  const actions = Object.fromEntries(all.map(({ object: { key }, action }) => [key, action]));
  return { plan: made, planned, compared, actions };
}

/** The rows of the table of `Action` in plan.ts, in the same order and with the same words. */
const ROWS: {
  inTheBucket: 'no' | 'yes';
  content: '' | 'same' | 'other';
  kind: string;
  keys: string[];
  release?: Release;
  replacePublished?: boolean;
  action: Action;
}[] = [
  { inTheBucket: 'no', content: '', kind: 'any', keys: Object.keys(PUBLISHED), action: 'upload' },
  { inTheBucket: 'yes', content: 'same', kind: 'any', keys: Object.keys(PUBLISHED), action: 'keep' },
  {
    inTheBucket: 'yes',
    content: 'other',
    kind: 'config, labels, trace record',
    keys: ['m/config.pbtxt', 'm/labels.txt', 'm/1/model.pt.trace.json'],
    release: RELEASED,
    action: 'replace',
  },
  {
    inTheBucket: 'yes',
    content: 'other',
    kind: 'in a version that was never published',
    keys: ['m/1/model.pt'],
    action: 'replace',
  },
  {
    inTheBucket: 'yes',
    content: 'other',
    kind: 'in a published version',
    keys: ['m/1/model.pt'],
    release: RELEASED,
    action: 'conflict',
  },
  {
    inTheBucket: 'yes',
    content: 'other',
    kind: 'in a published version, with `replacePublished`',
    keys: ['m/1/model.pt'],
    release: RELEASED,
    replacePublished: true,
    action: 'replace',
  },
];

describe('makePlan follows the decision table', () => {
  test.each(ROWS)(
    'in the bucket: $inTheBucket | content: $content | kind: $kind | action: $action',
    async ({ inTheBucket, content, keys, release, replacePublished, action }) => {
      for (const key of keys) {
        const same = PUBLISHED[key] as Stored;
        // Contents of the same length are told apart by their checksums, the others by their sizes.
        const others = [unreleased(same.content.toUpperCase()), unreleased(`${same.content}!`)];
        const variants = inTheBucket === 'no' ? [undefined] : content === 'same' ? [same] : others;
        for (const stored of variants) {
          const { actions } = await plan(stored === undefined ? {} : { [key]: stored }, { release, replacePublished });
          expect({ key, stored, action: actions[key] }).toEqual({ key, stored, action });
        }
      }
    },
  );
});

test('isChanged is true for a model with an object to upload, and false if every object is kept', async () => {
  expect((await plan({})).plan.models.map(isChanged)).toEqual([true]);
  expect((await plan(PUBLISHED)).plan.models.map(isChanged)).toEqual([false]);
});

test('conflicts names the changed object of a published version', async () => {
  const { plan: made } = await plan({ 'm/1/model.pt': unreleased('weights!') }, { release: RELEASED });
  expect(conflicts(made)).toEqual([{ key: 'm/1/model.pt', reason: 'is in the bucket with other bytes' }]);
  expect(conflicts((await plan(PUBLISHED)).plan)).toEqual([]);
});

describe('makePlan takes a version as published', () => {
  const extra = { 'm/1/model.pt': unreleased('weightS'), 'm/1/extra.bin': unreleased('x') };

  test.each<{ title: string; more: Record<string, Stored>; release: Release | undefined; isPublished: boolean }>([
    { title: 'never without a release and a configuration', more: {}, release: undefined, isPublished: false },
    { title: 'if the release has it', more: {}, release: RELEASED, isPublished: true },
    {
      title: 'if another tool published the model',
      more: { 'm/config.pbtxt': unreleased('config') },
      release: undefined,
      isPublished: true,
    },
  ])('$title', async ({ more, release, isPublished }) => {
    const { actions, planned } = await plan({ ...extra, ...more }, { release });
    expect(actions['m/1/model.pt']).toBe(isPublished ? 'conflict' : 'replace');
    expect(planned.extraneous).toEqual(isPublished ? ['m/1/extra.bin'] : []);
    expect(planned.orphaned).toEqual(isPublished ? [] : ['m/1/extra.bin']);
  });

  test('not if the release has only other versions of the model', async () => {
    const model = { ...MODEL, objects: [object('m/2/model.pt', 'weights')] };
    const { actions } = await plan({ 'm/2/model.pt': unreleased('weightS') }, { release: RELEASED, model });
    expect(actions['m/2/model.pt']).toBe('replace');
  });
});

test('makePlan ignores objects of other models and of other versions', async () => {
  const others = {
    'm/2/model.pt': unreleased('x'),
    'm_1/1/extra.bin': unreleased('x'),
    'm_1/config.pbtxt': unreleased('x'),
  };
  const { plan: made, compared } = await plan(others, { release: RELEASED });
  expect(conflicts(made)).toEqual([]);
  expect(compared).toEqual([]);
  expect(made.prune).toEqual([]);
});

describe('makePlan compares an object', () => {
  test('by its ETag if the release has the same one', async () => {
    const { compared, actions } = await plan({ 'm/1/model.pt': released('weights') }, { release: RELEASED });
    expect(actions['m/1/model.pt']).toBe('keep');
    expect(compared).toEqual([]);
  });

  test('by its checksum if another tool overwrote it', async () => {
    const { compared, actions } = await plan({ 'm/1/model.pt': unreleased('wEights') }, { release: RELEASED });
    expect(actions['m/1/model.pt']).toBe('conflict');
    expect(compared).toEqual(['models/m/1/model.pt']);
  });

  test('by its ETag if a release that is rolled back to has the same one', async () => {
    const model = { ...MODEL, objects: [{ key: 'm/1/model.pt', bytes: 7, etag: 'known', source: { stored: [] } }] };
    const { compared, actions } = await plan({ 'm/1/model.pt': released('wEights') }, { model });
    expect(actions['m/1/model.pt']).toBe('keep');
    expect(compared).toEqual([]);
  });
});

test('makePlan with prune deletes versions and files that the model no longer has', async () => {
  const contents = {
    'm/1/model.pt': released('weights'),
    'm/2/model.pt': unreleased('x'),
    'm/old.txt': unreleased('x'),
    'm/config.pbtxt': unreleased('config'),
    'm2/1/model.pt': unreleased('x'),
    'gone/config.pbtxt': unreleased('x'),
  };
  const { plan: made } = await plan(contents, { release: RELEASED, prune: true, remove: ['gone'] });
  expect(made.prune).toEqual(['gone/config.pbtxt', 'm/2/model.pt', 'm/old.txt']);
});

test.each([
  { bucket: 'without versioning', versionId: undefined, lost: ['gone 1'] },
  { bucket: 'with versioning', versionId: 'v', lost: [] },
])('makePlan reports $lost as lost by a deletion from a bucket $bucket', async ({ versionId, lost }) => {
  const config = { bytes: 1, checksum: 'x', etag: 'x' };
  const gone = {
    ...(RELEASED.models['m'] as Release['models'][string]),
    objects: { 'gone/config.pbtxt': config, 'gone/1/model.pt': { ...config, versionId } },
  };
  const release = { ...RELEASED, models: { ...RELEASED.models, gone } };
  const contents = {
    'gone/config.pbtxt': unreleased('x'),
    'gone/1/model.pt': unreleased('x'),
    'm/2/never-released.pt': unreleased('x'),
  };
  expect((await plan(contents, { release, prune: true, remove: ['gone'] })).plan.lost).toEqual(lost);
});
