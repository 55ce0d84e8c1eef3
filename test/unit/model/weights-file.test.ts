import type { Problem } from '../../../src/core/errors';
import { readWeightsFile } from '../../../src/model/weights-file';
import { folder, modelYaml, read, removeFolders, texts, torchScript } from '../../support/model-files';

afterAll(removeFolders);

const SHA = 'a'.repeat(64);

function getProblems(text: string, others: Record<string, string> = { 'm/trace.py': '' }): string[] {
  const root = folder({ 'm/weights.yaml': text, ...others });
  const problems: Problem[] = [];
  readWeightsFile(`${root}/m`, problems);
  return texts(problems, root);
}

test.each(['s3://my.bucket/a/b c.pth', 'https://example.org/w.pth?x=1', 'http://10.0.0.1:8080/w.pth'])(
  '%s is read',
  (url) => {
    const downloads = [
      { url, sha256: SHA },
      { url, sha256: SHA, file: '1/model.pt' },
    ];
    const root = folder({ 'm/weights.yaml': JSON.stringify(downloads), 'm/trace.py': '' });
    const problems: Problem[] = [];
    expect(readWeightsFile(`${root}/m`, problems)).toEqual(downloads);
    expect(problems).toEqual([]);
  },
);

test('a missing file yields no downloads', () => {
  expect(readWeightsFile(folder({ 'm/trace.py': '' }), [])).toEqual([]);
});

const ONE = { url: 's3://bucket/k', sha256: SHA };
const ADDRESSES = 'allowed: s3://BUCKET/KEY, https://HOST/FILE';

test.each<[what: string, content: unknown, problem: string]>([
  ['text that is not YAML', '[', 'm/weights.yaml: not valid YAML'],
  ['a mapping', { weights: ONE }, 'm/weights.yaml: must be a list of downloads, got a mapping'],
  ['an empty list', [], 'must be a list of downloads'],
  ['a text as entry', ['s3://b/k'], '[0]: must be a mapping, got "s3://b/k"'],
  [
    'an unknown field',
    [{ ...ONE, fil: 'x' }],
    '[0].fil: unknown field; allowed: url, sha256, file\n    -> did you mean',
  ],
  ['no address', [{ sha256: SHA }], `[0].url: is not an address, got nothing; ${ADDRESSES}`],
  ['another protocol', [{ ...ONE, url: 'ftp://h/f' }], `[0].url: is not an address, got "ftp://h/f"; ${ADDRESSES}`],
  ['a bucket alone', [{ ...ONE, url: 's3://bucket/' }], '[0].url: is not an address, got "s3://bucket/"'],
  ['a hub id', [{ ...ONE, url: 'owner/name@main' }], '[0].url: is not an address, got "owner/name@main"'],
  [
    'a wrong hash',
    [{ ...ONE, sha256: 'ABC' }],
    '[0].sha256: is not a SHA-256, got "ABC"; allowed: 64 hexadecimal digits',
  ],
  ['no hash', [{ url: ONE.url }], '[0].sha256: is not a SHA-256, got nothing'],
  ['a path outside', [{ ...ONE, file: '../x' }], '[0].file: is not a path in the model folder, got "../x"'],
  ['two files for trace.py', [ONE, ONE], 'has several downloads without file'],
])('%s is refused', (_, content, problem) => {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  expect(getProblems(text)).toEqual([expect.stringContaining(problem)]);
});

test('weights without a trace.py that reads them are refused', () => {
  expect(getProblems(JSON.stringify([ONE]), {})).toEqual([
    'm/weights.yaml: has a download without file, which is for a trace.py, but the folder has none\n' +
      '    -> name the artifact: file: 1/model.pt',
  ]);
});

describe('validate', () => {
  const files = JSON.stringify([{ ...ONE, file: '1/model.pt' }]);

  test('names the command that downloads a file', async () => {
    const root = folder({ 'm/model.yaml': modelYaml(), 'm/weights.yaml': files });
    expect((await read(root)).texts).toEqual(['m: has no version folder\n    -> npm run trace -- --models m --repo .']);
  });

  test('reports problems of the file', async () => {
    const root = folder({ 'm/model.yaml': modelYaml(), 'm/1/model.pt': torchScript(), 'm/weights.yaml': '{}' });
    expect((await read(root)).texts).toEqual([expect.stringContaining('m/weights.yaml: must be a list')]);
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
