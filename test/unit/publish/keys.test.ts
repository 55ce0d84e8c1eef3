import { isReplaceable, modelOf, versionOf } from '../../../src/publish/keys';
import { keptKey } from '../../../src/publish/location';
import { changesBetween } from '../../../src/publish/release/list';
import { newRelease, type ReleasedModel } from '../../../src/publish/release/release';
import { composingFirst } from '../../../src/publish/plan/desired';

test.each([
  ['resnet/1/model.pt', 'resnet', 1, false],
  ['resnet/12/a/b.bin', 'resnet', 12, false],
  ['resnet/1/model.pt.trace.json', 'resnet', 1, true],
  ['resnet/config.pbtxt', 'resnet', undefined, true],
  ['resnet/labels/1/x.txt', 'resnet', undefined, true],
  ['resnet/01/model.pt', 'resnet', undefined, true],
  ['resnet/1', 'resnet', undefined, true],
  ['.keep', '', undefined, true],
])('%s', (key, model, version, replaceable) => {
  expect(modelOf(key)).toBe(model);
  expect(versionOf(key)).toBe(version);
  expect(isReplaceable(key)).toBe(replaceable);
});

test('the name of a kept copy is safe in a key', () => {
  expect(keptKey({ bucket: 'b', prefix: 'm' }, 'a+/b=')).toBe('m.releases/kept/a-_b');
});

test('models are ordered so that each comes after what it is made of, and a loop ends', () => {
  const model = (name: string, ...composedOf: string[]) => ({ name, composedOf });
  const names = composingFirst([
    model('e', 'd', 'b'),
    model('a'),
    model('d', 'c'),
    model('c'),
    model('b'),
    model('x', 'x'),
  ]);
  expect(names.map(({ name }) => name)).toEqual(['c', 'd', 'b', 'e', 'a', 'x']);
});

test('what a release changed, in words', () => {
  const model = (served: number[], checksum: string): ReleasedModel => ({
    served,
    digest: checksum,
    composedOf: [],
    weights: {},
    objects: { 'c/config.pbtxt': { bytes: 1, checksum, etag: '' } },
  });
  const before = newRelease({
    previous: undefined,
    origin: 't',
    models: { a: model([1], ''), b: model([1], ''), c: model([1], 'x') },
  });
  const after = newRelease({
    previous: before.id,
    origin: 't',
    models: { a: model([2], ''), c: model([1], 'y'), d: model([1, 2], '') },
  });
  expect(changesBetween(before, after)).toEqual(['a 1 -> 2', 'removed b', 'c: configuration', 'new d 1 2']);
  expect(before.id < after.id || before.id.slice(0, 19) === after.id.slice(0, 19)).toBe(true);
});
