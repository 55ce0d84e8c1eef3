import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  promises,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { main } from '../../scripts/export';
import { exportModels, type ExportedModel } from '../../src/model/export';
import { writeRepository } from '../support/repository';
import { tracedModel } from '../support/model-files';

let scratch: string;
let out: string;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'export-'));
  out = join(scratch, 'out');
});

afterEach(() => rmSync(scratch, { recursive: true, force: true }));

/** A model with these files: path in its folder -> content. */
function model(name: string, files: Record<string, string>, configText = `name: "${name}"\n`): ExportedModel {
  const written = Object.entries(files).map(([key, content]) => {
    const path = join(scratch, 'source', name, key);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    chmodSync(path, 0o644);
    return { key, path, bytes: content.length };
  });
  const versions = [...new Set(written.map(({ key }) => Number(key.split('/')[0])).filter(Number.isInteger))];
  return {
    name,
    configText,
    versions: versions.map((version) => ({
      version,
      files: written.filter(({ key }) => key.startsWith(`${version}/`)),
    })),
    extraFiles: written.filter(({ key }) => !/^\d/.test(key)),
  };
}

/** Path -> content of all that lies in a folder; a folder without anything ends in a slash. */
function tree(folder: string, at = ''): Record<string, string> {
  const entries = readdirSync(join(folder, at), { withFileTypes: true });
  if (entries.length === 0) return { [`${at}/`]: '' };
  return Object.assign(
    {},
    ...entries.map((entry) => {
      const path = at === '' ? entry.name : `${at}/${entry.name}`;
      return entry.isDirectory() ? tree(folder, path) : { [path]: readFileSync(join(folder, path), 'utf8') };
    }),
  ) as Record<string, string>;
}

const marker = (...models: string[]): string => `${JSON.stringify({ models }, null, 2)}\n`;
const permissions = (path: string): number => statSync(path).mode & 0o777;

test('writes configuration, versions and extra files, and a version without files with a placeholder', async () => {
  const ensemble: ExportedModel = {
    name: 'ens',
    configText: 'platform: "ensemble"\n',
    versions: [{ version: 1, files: [] }],
    extraFiles: [],
  };
  const resnet = model('resnet', {
    '1/model.pt': 'one',
    '2/model.pt': 'two',
    '2/data/weights.bin': 'big',
    'labels.txt': 'cat\n',
  });

  const result = await exportModels([resnet, ensemble], out);

  expect(tree(out)).toEqual({
    '.export.json': marker('ens', 'resnet'),
    'ens/1/.keep': 'An empty version folder.\n',
    'ens/config.pbtxt': 'platform: "ensemble"\n',
    'resnet/1/model.pt': 'one',
    'resnet/2/model.pt': 'two',
    'resnet/2/data/weights.bin': 'big',
    'resnet/config.pbtxt': 'name: "resnet"\n',
    'resnet/labels.txt': 'cat\n',
  });
  expect(result).toEqual({ files: 6, bytes: 3 + 3 + 3 + 4 + 15 + 21, removed: [] });
  expect(readdirSync(scratch).sort()).toEqual(['out', 'source']);
});

test('links weights instead of copying them', async () => {
  const resnet = model('resnet', { '1/model.pt': 'one' });
  await exportModels([resnet], out);
  expect(statSync(join(out, 'resnet/1/model.pt')).ino).toBe(statSync(join(scratch, 'source/resnet/1/model.pt')).ino);
});

test('exported files are readable by the user of a container, for any umask and any modes of the sources', async () => {
  const before = process.umask(0o077);
  try {
    const resnet = model('resnet', { '1/model.pt': 'one' });
    chmodSync(join(scratch, 'source/resnet/1/model.pt'), 0o600);
    await exportModels([resnet], out);
  } finally {
    process.umask(before);
  }
  for (const folder of ['', 'resnet', 'resnet/1'])
    expect([folder, permissions(join(out, folder))]).toEqual([folder, 0o755]);
  for (const file of ['.export.json', 'resnet/config.pbtxt', 'resnet/1/model.pt']) {
    expect([file, permissions(join(out, file))]).toEqual([file, 0o644]);
  }
  expect(permissions(join(scratch, 'source/resnet/1/model.pt'))).toBe(0o600);
});

test('a linked source becomes a file', async () => {
  const resnet = model('resnet', { '1/weights.pt': 'one' });
  const link = join(scratch, 'source/resnet/1/model.pt');
  symlinkSync('weights.pt', link);
  await exportModels(
    [{ ...resnet, versions: [{ version: 1, files: [{ key: '1/model.pt', path: link, bytes: 3 }] }] }],
    out,
  );
  expect(lstatSync(join(out, 'resnet/1/model.pt')).isFile()).toBe(true);
});

test('a later export replaces the former one, and keeps files of others', async () => {
  await exportModels([model('resnet', { '1/model.pt': 'one' }), model('bert', { '1/model.pt': 'old' })], out);
  writeFileSync(join(out, 'notes.txt'), 'mine');

  const result = await exportModels([model('resnet', { '2/model.pt': 'two' }, 'new\n')], out);

  expect(result.removed).toEqual(['bert']);
  expect(tree(out)).toEqual({
    '.export.json': marker('resnet'),
    'notes.txt': 'mine',
    'resnet/2/model.pt': 'two',
    'resnet/config.pbtxt': 'new\n',
  });
  expect(readdirSync(scratch).sort()).toEqual(['out', 'source']);
});

test('accepts an empty folder, and leaves what is beside it', async () => {
  mkdirSync(join(scratch, 'out.partial'));
  mkdirSync(out);
  await exportModels([model('resnet', { '1/model.pt': 'one' })], out);
  expect(Object.keys(tree(out)).sort()).toEqual(['.export.json', 'resnet/1/model.pt', 'resnet/config.pbtxt']);
  expect(readdirSync(scratch).sort()).toEqual(['out', 'out.partial', 'source']);
});

test.each<[what: string, files: Record<string, string>]>([
  ['files of others', { 'thesis.txt': 'mine' }],
  ['a damaged list of models', { '.export.json': '{', 'bert/config.pbtxt': '' }],
  ['a list of another kind', { '.export.json': '{"models": "resnet"}' }],
  ['a model of others', { '.export.json': marker('bert'), 'resnet/config.pbtxt': 'by hand' }],
])('refuses a folder that has %s', async (_, files) => {
  writeRepository(out, files);
  await expect(exportModels([model('resnet', { '1/model.pt': 'one' })], out)).rejects.toThrow(
    `${out} contains files that "npm run export" did not create; nothing was written`,
  );
  expect(tree(out)).toEqual(files);
});

test('a failure leaves the former export as it was', async () => {
  await exportModels([model('resnet', { '1/model.pt': 'one' })], out);
  const before = tree(out);
  const bert = model('bert', { '1/model.pt': 'new' });
  rmSync(join(scratch, 'source/bert/1/model.pt'));
  await expect(exportModels([model('resnet', { '1/model.pt': 'two' }, 'new\n'), bert], out)).rejects.toThrow(
    `cannot export to ${out}: bert/1/model.pt: no such file or folder`,
  );
  // The weights are linked: only the configuration shows which export it is.
  expect(tree(out)['resnet/config.pbtxt']).toBe(before['resnet/config.pbtxt']);
  expect(Object.keys(tree(out))).toEqual(Object.keys(before));
  expect(readdirSync(scratch).sort()).toEqual(['out', 'source']);
});

test('the next run completes a run that was killed while it renamed models', async () => {
  await exportModels([model('old', { '1/model.pt': 'old' })], out);
  const models = [model('bert', { '1/model.pt': 'bert' }), model('resnet', { '1/model.pt': 'resnet' })];
  const rename = promises.rename;
  jest.spyOn(promises, 'rename').mockImplementation(async (from, to) => {
    if (to === join(out, 'resnet')) throw Object.assign(new Error('cut'), { code: 'EIO' });
    await rename(from, to);
  });
  await expect(exportModels(models, out)).rejects.toThrow(`cannot export to ${out}: the disk reports an error`);
  jest.restoreAllMocks();
  expect(Object.keys(tree(out)).sort()).toEqual([
    '.export.json',
    'bert/1/model.pt',
    'bert/config.pbtxt',
    'old/1/model.pt',
    'old/config.pbtxt',
  ]);

  expect((await exportModels(models, out)).removed).toEqual(['old']);
  expect(tree(out)).toMatchObject({ '.export.json': marker('bert', 'resnet'), 'resnet/1/model.pt': 'resnet' });
});

test('names the file that is in the place of a folder', async () => {
  writeFileSync(out, '');
  await expect(exportModels([], out)).rejects.toThrow(`cannot export to ${out}: it is not a folder`);
});

describe('npm run export', () => {
  let printed: string[];
  const config =
    'backend: "python"\nmax_batch_size: 0\ninput { name: "x" data_type: TYPE_FP32 dims: -1 }\noutput { name: "y" data_type: TYPE_FP32 dims: -1 }\n';

  beforeEach(() => {
    printed = [];
    const record = (text: unknown): boolean => printed.push(String(text)) > 0;
    jest.spyOn(process.stdout, 'write').mockImplementation(record);
    jest.spyOn(process.stderr, 'write').mockImplementation(record);
    for (const name of ['a', 'b'])
      writeRepository(join(scratch, 'repo', name), { 'config.pbtxt': config, '1/model.py': '# a model\n' });
  });

  afterEach(() => {
    jest.restoreAllMocks();
  });

  test('writes nothing when a model is not valid', async () => {
    rmSync(join(scratch, 'repo/b/1'), { recursive: true });
    expect(await main(['--repo', join(scratch, 'repo'), '--out', out])).toBe(1);
    expect(printed.join('')).toContain('is not ready to be exported; nothing was written');
    expect(readdirSync(scratch)).toEqual(['repo']);
  });

  test('warns of a model whose files changed since its trace', async () => {
    writeRepository(join(scratch, 'repo'), { ...tracedModel('m'), 'm/net.py': 'LAYERS = 4\n' });
    expect(await main(['--repo', join(scratch, 'repo'), '--out', out])).toBe(0);
    expect(printed.join('')).toContain('/m/1/model.pt: is stale; since the trace: net.py changed\n');
    expect(printed.join('')).toContain('Exported 3 models (');
  });

  test.each(['out', 'repo', 'models', 'exclude'])(
    'refuses --agent with --%s, because it exports no models',
    async (flag) => {
      expect(await main(['--agent', `--${flag}`, 'a'])).toBe(2);
      expect(printed.join('')).toContain(`--agent and --${flag} cannot be combined`);
    },
  );

  test('refuses a folder in the repository', async () => {
    expect(await main(['--repo', join(scratch, 'repo'), '--out', join(scratch, 'repo', 'out')])).toBe(2);
    expect(readdirSync(join(scratch, 'repo')).sort()).toEqual(['a', 'b']);
  });
});
