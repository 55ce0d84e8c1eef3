import { isReplaceable, getModelName, getVersion } from '../../../src/publish/keys';
import { archiveKey } from '../../../src/release/location';
import { changesBetween } from '../../../src/publish/release/list';
import { newRelease, type ReleasedModel } from '../../../src/publish/release/release';
import { topologicalOrder } from '../../../src/publish/plan/desired';

test.each([
  { key: 'resnet/1/model.pt', model: 'resnet', version: 1, replaceable: false },
  { key: 'resnet/12/a/b.bin', model: 'resnet', version: 12, replaceable: false },
  { key: 'resnet/1/model.pt.trace.json', model: 'resnet', version: 1, replaceable: true },
  { key: 'resnet/config.pbtxt', model: 'resnet', version: undefined, replaceable: true },
  { key: 'resnet/labels/1/x.txt', model: 'resnet', version: undefined, replaceable: true },
  { key: 'resnet/01/model.pt', model: 'resnet', version: undefined, replaceable: true },
  { key: 'resnet/1', model: 'resnet', version: undefined, replaceable: true },
  { key: '.keep', model: '', version: undefined, replaceable: true },
])('getModelName, getVersion and isReplaceable read $key', ({ key, model, version, replaceable }) => {
  expect(getModelName(key)).toBe(model);
  expect(getVersion(key)).toBe(version);
  expect(isReplaceable(key)).toBe(replaceable);
});

test('archiveKey replaces the characters of base64 that are special in a key', () => {
  expect(archiveKey({ bucket: 'b', prefix: 'm' }, 'a+/b=')).toBe('m.releases/kept/a-_b');
});

test('topologicalOrder sorts steps before their ensembles and ends at a cycle', () => {
  const model = (name: string, ...composedOf: string[]) => ({ name, composedOf });
  const names = topologicalOrder([
    model('e', 'd', 'b'),
    model('a'),
    model('d', 'c'),
    model('c'),
    model('b'),
    model('x', 'x'),
  ]);
  expect(names.map(({ name }) => name)).toEqual(['c', 'd', 'b', 'e', 'a', 'x']);
});

test('changesBetween describes new, removed and changed models', () => {
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
  const released = (checksums: Record<string, string>, golden?: string) =>
    newRelease({
      previous: undefined,
      origin: 't',
      models: {
        m: {
          ...model([1], ''),
          ...(golden !== undefined && { golden: { sha256: golden, bytes: 1, requests: 1 } }),
          objects: Object.fromEntries(
            Object.entries(checksums).map(([path, checksum]) => [`m/${path}`, { bytes: 1, checksum, etag: '' }]),
          ),
        },
      },
    });
  // A published configuration contains a digest of the files.
  const old = { 'config.pbtxt': 'a', '1/model.py': 'a', '1/data.bin': 'a', '1/trace.json': 'a' };
  const changed: [Record<string, string>, string[], string?][] = [
    [old, []],
    [{ ...old, 'config.pbtxt': 'b' }, ['m: configuration']],
    [{ ...old, 'config.pbtxt': 'b', '1/model.py': 'b' }, ['m: 1/model.py changed']],
    [{ ...old, 'config.pbtxt': 'b', '1/model.py': 'b', '1/data.bin': 'b' }, ['m: files of 1 replaced']],
    [{ ...old, 'config.pbtxt': 'b', '2/model.py': 'b' }, ['m: version 2 added']],
    [{ ...old, 'config.pbtxt': 'b', 'labels.txt': 'b' }, ['m: labels.txt changed and golden requests'], 'g'],
    [{ 'config.pbtxt': 'a' }, ['m: version 1 deleted']],
  ];
  for (const [checksums, changes, golden] of changed) {
    expect(changesBetween(released(old), released(checksums, golden))).toEqual(changes);
  }
  expect(before.id < after.id || before.id.slice(0, 19) === after.id.slice(0, 19)).toBe(true);
});
