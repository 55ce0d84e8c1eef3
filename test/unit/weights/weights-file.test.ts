import type { Problem } from '../../../src/core/errors';
import { readWeightsFile } from '../../../src/model/weights-file';
import { folder, modelYaml, read, removeFolders, texts, torchScript } from '../../support/model-files';

afterAll(removeFolders);

const SHA = 'a'.repeat(64);
const COMMIT = 'b'.repeat(40);

function getProblems(text: string, others: Record<string, string> = { 'm/trace.py': '' }): string[] {
  const root = folder({ 'm/weights.yaml': text, ...others });
  const problems: Problem[] = [];
  readWeightsFile(`${root}/m`, problems);
  return texts(problems, root);
}

const weights = (source: string, sha256: string | undefined = SHA): string =>
  JSON.stringify({ weights: { source, ...(sha256 === '' ? {} : { sha256 }) } });

test.each<[source: string, parsed: object, sha256: string]>([
  ['s3://my.bucket/a/b c.pth', { kind: 's3', bucket: 'my.bucket', key: 'a/b c.pth' }, SHA],
  ['https://example.org/w.pth?x=1', { kind: 'url' }, SHA],
  ['http://10.0.0.1:8080/w.pth', { kind: 'url' }, SHA],
  [
    'hf://o/n@v1.0/sub/m.safetensors',
    { kind: 'hub', repository: 'o/n', revision: 'v1.0', file: 'sub/m.safetensors' },
    SHA,
  ],
  [`hf://o/n@${COMMIT}`, { kind: 'hub', repository: 'o/n', revision: COMMIT, file: undefined }, ''],
  ['../shared/w.pth', { kind: 'path' }, SHA],
  ['w.pth', { kind: 'path' }, ''],
])('%s is read', (source, parsed, sha256) => {
  const root = folder({ 'm/weights.yaml': weights(source, sha256), 'm/trace.py': '' });
  const problems: Problem[] = [];
  const file = readWeightsFile(`${root}/m`, problems);
  expect(problems).toEqual([]);
  expect(file?.weights).toEqual({ source: { text: source, ...parsed }, sha256: sha256 === '' ? undefined : SHA });
});

test('a missing file yields no weights', () => {
  expect(readWeightsFile(folder({ 'm/trace.py': '' }), [])).toBeUndefined();
});

const PLACES = 's3://BUCKET/KEY, https://HOST/FILE';

test.each<[what: string, text: string, problem: string]>([
  ['no YAML', '[', 'm/weights.yaml: not valid YAML'],
  ['a list', '[]', 'm/weights.yaml: must be a mapping, got a list'],
  ['nothing in it', '{}', 'has neither weights nor files'],
  ['an unknown field', `weight: {}`, 'weight: unknown field; allowed: weights, files\n    -> did you mean "weights"?'],
  ['a text for weights', 'weights: s3://b/k', 'weights: must be a mapping, got "s3://b/k"'],
  [
    'no source',
    `weights: { sha256: ${SHA} }`,
    `weights.source: is not a source of weights, got nothing; allowed: ${PLACES}`,
  ],
  [
    'a source of another kind',
    weights('ftp://h/f'),
    `weights.source: is not a source of weights, got "ftp://h/f"; allowed: ${PLACES}`,
  ],
  [
    'a bucket alone',
    weights('s3://bucket/'),
    'weights.source: is not a source of weights, got "s3://bucket/"; allowed',
  ],
  [
    'a repository without a revision',
    weights('hf://o/n'),
    'weights.source: is not a source of weights, got "hf://o/n"; allowed',
  ],
  [
    'a hash that is none',
    weights('w.pth', 'ABC'),
    'weights.sha256: is not a SHA-256, got "ABC"; allowed: 64 hexadecimal digits',
  ],
  ['no hash', weights('s3://bucket/k', ''), 'weights.sha256: is missing; the content at an address can change'],
  ['a branch for a whole repository', weights('hf://o/n@main', ''), 'must pin a whole repository by its commit alone'],
  ['a hash for a whole repository', weights(`hf://o/n@${COMMIT}`), 'must pin a whole repository by its commit alone'],
  ['a path that leaves the folder', `files: { ../x: { source: w } }`, 'is not a path in the model folder'],
  ['a repository for a file', `files: { 1/model.pt: { source: "hf://o/n@${COMMIT}" } }`, 'must name one file'],
])('%s is refused', (_, text, problem) => expect(getProblems(text)).toEqual([expect.stringContaining(problem)]));

test('weights without a trace.py that reads them are refused', () => {
  expect(getProblems(weights('w.pth'), {})).toEqual([
    'm/weights.yaml: weights: requires a trace.py, which the folder does not have\n' +
      '    -> name the artifact itself: files: { 1/model.pt: { source: ..., sha256: ... } }',
  ]);
});

describe('validate', () => {
  const files = JSON.stringify({ files: { '1/model.pt': { source: 's3://bucket/m.pt', sha256: SHA } } });

  test('names the command that downloads a file', async () => {
    const root = folder({ 'm/model.yaml': modelYaml(), 'm/weights.yaml': files });
    expect((await read(root)).texts).toEqual(['m: has no version folder\n    -> npm run trace -- --models m --repo .']);
  });

  test('reports problems of the file', async () => {
    const root = folder({ 'm/model.yaml': modelYaml(), 'm/1/model.pt': torchScript(), 'm/weights.yaml': '{}' });
    expect((await read(root)).texts).toEqual([expect.stringContaining('m/weights.yaml: has neither')]);
  });

  test('the file is not published, not even beside a config.pbtxt', async () => {
    const root = folder({
      'm/config.pbtxt': 'backend: "python"',
      'm/1/model.py': 'x',
      'm/vocab.txt': 'x',
      'm/weights.yaml': files,
    });
    const { models } = await read(root);
    expect(models[0]?.extraFiles.map(({ key }) => key)).toEqual(['vocab.txt']);
  });
});
