import { parseLocation, fileKey, sweepOf } from '../../../src/release/location';
import { topologicalOrder } from '../../../src/release/load-order';
import { changesBetween } from '../../../src/publish/list-releases';
import { getVersion, type Manifest, type ManifestModel } from '../../../src/release/manifest';

describe('parseLocation', () => {
  test.each([
    ['s3://models-prod/models', 'models-prod', 'models'],
    ['s3://models-prod/a/b.c_d-e/', 'models-prod', 'a/b.c_d-e'],
    ['s3://models.prod/models//', 'models.prod', 'models'],
  ])('parses %s', (text, bucket, prefix) => {
    expect(parseLocation(text)).toEqual({ bucket, prefix });
  });

  test.each([
    ['models-prod/models', /not an S3 location/],
    ['https://models-prod/models', /not an S3 location/],
    ['s3://Models/models', /"Models" cannot be a bucket name/],
    ['s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/a/models', /ARNs of access points are not supported/],
    ['s3://ab/models', /"ab" cannot be a bucket name/],
    ['s3://a..b/models', /"a..b" cannot be a bucket name/],
    ['s3://m--use1-az4--x-s3/models', /"m--use1-az4--x-s3" is a directory bucket/],
    ['s3:///models', /"" cannot be a bucket name/],
    ['s3://models-prod', /the prefix is missing/],
    ['s3://models-prod/', /the prefix is missing/],
    ['s3://models-prod/a//b', /prefix "a\/\/b" has an empty part/],
    ['s3://models-prod/a b', /prefix "a b" has an empty part or characters/],
    ['s3://models-prod/team*', /prefix "team\*" has an empty part or characters/],
  ])('rejects %s', (text, message) => {
    expect(() => parseLocation(text)).toThrow(message);
  });
});

test.each([
  ['1/model.pt', 1],
  ['12/a/b.bin', 12],
  ['labels/1/x.txt', undefined],
  ['01/model.pt', undefined],
  ['1', undefined],
])('getVersion of %s is %s', (path, version) => {
  expect(getVersion(path)).toBe(version);
});

test('fileKey has no characters that are special in a key', () => {
  const key = fileKey({ bucket: 'b', prefix: 'm' }, 'a+/b=-2', 17);
  expect([key, sweepOf(key)]).toEqual(['m.releases/files/a-_b-2.17', 17]);
});

test('topologicalOrder sorts steps before their ensembles and ends at a cycle', () => {
  const model = (name: string, ...composedOf: string[]) => ({ name, composedOf });
  const models = [model('e', 'd', 'b'), model('a'), model('d', 'c'), model('c'), model('b'), model('x', 'x')];
  expect(topologicalOrder(models).map(({ name }) => name)).toEqual(['c', 'd', 'b', 'e', 'a', 'x']);
});

test('changesBetween describes new, removed and changed models', () => {
  const release = (models: Record<string, ManifestModel>): Manifest => ({
    ...{ id: 'r', createdAt: '', origin: 't', by: '', base: 0, trialKey: '', models, former: [] },
  });
  const file = (path: string, checksum: string) => ({ path, checksum, key: '', bytes: 1 });
  /** @param contents by path */
  const model = (served: number[], { 'config.pbtxt': config = '', ...contents }: Record<string, string> = {}) => ({
    ...{ served, composedOf: [], config },
    files: Object.entries(contents).map((entry) => file(...entry)),
  });
  const before = release({ a: model([1]), b: model([1]), c: model([1], { 'config.pbtxt': 'x' }) });
  const after = release({ a: model([2]), c: model([1], { 'config.pbtxt': 'y' }), d: model([1, 2]) });
  expect(changesBetween(before, after)).toEqual(['a 1 -> 2', 'removed b', 'c: config.pbtxt', 'new d 1 2']);
  const old = { 'config.pbtxt': 'a', '1/model.py': 'a', '1/data.bin': 'a' };
  const changed: [Record<string, string>, string[], string?][] = [
    [old, []],
    [{ ...old, 'config.pbtxt': 'b' }, ['m: config.pbtxt']],
    [{ ...old, '1/model.py': 'b' }, ['m: 1/model.py']],
    [{ ...old, '1/model.py': 'b', '1/data.bin': 'b' }, ['m: 1/data.bin and 1/model.py']],
    [{ ...old, 'config.pbtxt': 'b', '2/model.py': 'b' }, ['m: 2/model.py and config.pbtxt']],
    [{ ...old, 'labels.txt': 'b' }, ['m: labels.txt and golden requests'], 'g'],
    [{ 'config.pbtxt': 'b', '2/model.py': 'b' }, ['m: 4 files']],
    [{ 'config.pbtxt': 'a' }, ['m: 1/data.bin and 1/model.py']],
  ];
  for (const [contents, changes, golden] of changed) {
    const now = {
      ...model([1], contents),
      golden: golden === undefined ? undefined : file('golden.json', golden),
    };
    expect(changesBetween(release({ m: model([1], old) }), release({ m: now }))).toEqual(changes);
  }
});
