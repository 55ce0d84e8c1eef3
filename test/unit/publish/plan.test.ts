import { conflicts, isChanged, makePlan } from '../../../scripts/lib/publish/plan';
import type { Release } from '../../../scripts/lib/publish/manifest';
import type { S3Store } from '../../../scripts/lib/publish/s3-store';
import type { WantedModel, WantedObject } from '../../../scripts/lib/publish/wanted';

const LOCATION = { bucket: 'bucket', prefix: 'models' };

/** A bucket as a list of key -> [content, etag]; the content stands for its own checksum. */
function bucket(objects: Record<string, [content: string, etag: string]>) {
  const asked: string[] = [];
  const store = {
    list: async (prefix: string) =>
      Object.entries(objects)
        .map(([key, [content, etag]]) => ({ key: `models/${key}`, bytes: content.length, etag }))
        .filter(({ key }) => key.startsWith(prefix)),
    sha256: async (key: string) => {
      asked.push(key);
      return objects[key.slice('models/'.length)]?.[0];
    },
  } as unknown as S3Store;
  return { store, asked };
}

function object(key: string, content: string, immutable: boolean): WantedObject {
  return { key, bytes: content.length, sha256: content, source: { body: Buffer.from(content) }, immutable };
}

const MODEL: WantedModel = {
  name: 'm',
  served: [1],
  composedOf: [],
  weights: {},
  objects: [object('m/1/model.pt', 'weights', true), object('m/labels.txt', 'labels', false)],
  config: object('m/config.pbtxt', 'config', false),
};

const actions = async (objects: Parameters<typeof bucket>[0], release?: Release) => {
  const { store, asked } = bucket(objects);
  const plan = await makePlan([MODEL], store, LOCATION, release);
  const planned = plan.models[0];
  return {
    plan,
    asked,
    actions: [...(planned?.objects ?? []), ...(planned === undefined ? [] : [planned.config])].map(
      ({ action }) => action,
    ),
  };
};

test('an empty bucket: everything is uploaded', async () => {
  const { plan, actions: all } = await actions({});
  expect(all).toEqual(['upload', 'upload', 'upload']);
  expect(plan.models.map(isChanged)).toEqual([true]);
  expect(conflicts(plan)).toEqual([]);
});

test('the same content: everything is kept, whatever the ETags are', async () => {
  const { plan, actions: all } = await actions({
    'm/1/model.pt': ['weights', 'x'],
    'm/labels.txt': ['labels', 'y'],
    'm/config.pbtxt': ['config', 'z'],
  });
  expect(all).toEqual(['keep', 'keep', 'keep']);
  expect(plan.models.map(isChanged)).toEqual([false]);
});

test.each([
  ['of the same length', 'weightS'],
  ['of another length', 'weights!'],
])('other bytes %s in a version folder are a conflict; labels and config are replaced', async (_, content) => {
  const { plan, actions: all } = await actions({
    'm/1/model.pt': [content, 'x'],
    'm/labels.txt': ['labelS', 'y'],
    'm/config.pbtxt': ['confiG', 'z'],
  });
  expect(all).toEqual(['conflict', 'replace', 'replace']);
  expect(conflicts(plan)).toEqual(['m/1/model.pt is in the bucket with other bytes']);
});

test('a file that the published version has and ours has not is a conflict; other models and versions are not looked at', async () => {
  const { plan } = await actions({
    'm/1/extra.bin': ['x', 'x'],
    'm/2/model.pt': ['x', 'x'],
    'm_1/1/extra.bin': ['x', 'x'],
  });
  expect(conflicts(plan)).toEqual(['m/1/extra.bin is in the bucket, but not in the folder that is published']);
});

describe('with a release manifest', () => {
  const release: Release = {
    format: 1,
    id: 'r',
    createdAt: '2026-11-20T00:00:00Z',
    models: {
      m: { served: [1], weights: {}, objects: { 'm/1/model.pt': { bytes: 7, sha256: 'weights', etag: 'known' } } },
    },
  };

  test('S3 is not asked for the checksum of an object that still has the ETag of the release', async () => {
    const { asked, actions: all } = await actions({ 'm/1/model.pt': ['weights', 'known'] }, release);
    expect(all).toEqual(['keep', 'upload', 'upload']);
    expect(asked).toEqual([]);
  });

  test('an object that somebody else overwrote is looked at', async () => {
    const { asked, actions: all } = await actions({ 'm/1/model.pt': ['wEights', 'other'] }, release);
    expect(all).toEqual(['conflict', 'upload', 'upload']);
    expect(asked).toEqual(['models/m/1/model.pt']);
  });
});
