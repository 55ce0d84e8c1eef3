import fs, { mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { folder, modelYaml, read, removeFolders, torchScript } from '../../support/model-files';

afterEach(removeFolders);

describe('files that cannot be published', () => {
  const sound = { 'm/model.yaml': modelYaml(), 'm/1/model.pt': torchScript() };

  it('follows links inside the model folder and refuses the others', async () => {
    const outside = folder({ 'secret.pt': torchScript() });
    const root = folder(sound);
    mkdirSync(path.join(root, 'm/2'));
    symlinkSync('../1/model.pt', path.join(root, 'm/2/model.pt'));
    expect((await read(root)).texts).toEqual([]);
    symlinkSync(path.join(outside, 'secret.pt'), path.join(root, 'm/1/other.pt'));
    symlinkSync('nowhere', path.join(root, 'm/1/gone'));
    symlinkSync('self', path.join(root, 'm/1/self'));
    symlinkSync('..', path.join(root, 'm/1/up'));
    symlinkSync('.', path.join(root, 'm/1/here'));
    expect((await read(root)).texts.sort()).toEqual([
      'm/1/gone: cannot be read: no such file or folder',
      'm/1/here: is a link to a folder that contains it\n    -> remove it',
      `m/1/other.pt: is a link to ${outside}/secret.pt, outside the model folder\n    -> copy the file here instead`,
      'm/1/self: cannot be read: its links form a cycle',
      'm/1/up: is a link to a folder that contains it\n    -> remove it',
    ]);
  });

  it('names a dangling artifact once', async () => {
    const root = folder({ 'm/model.yaml': modelYaml(), 'm/1/': '' });
    symlinkSync('nowhere', path.join(root, 'm/1/model.pt'));
    expect((await read(root)).texts).toEqual(['m/1/model.pt: cannot be read: no such file or folder']);
  });

  it('refuses a model folder that links to another place', async () => {
    const outside = folder(sound);
    const root = folder(sound);
    symlinkSync(path.join(outside, 'm'), path.join(root, 'n'));
    expect((await read(root)).texts).toEqual([
      `n: is a link to ${outside}/m, outside the repository\n    -> copy the folder here instead`,
    ]);
  });

  it('refuses a path that is too long for S3', async () => {
    const long = `${'a'.repeat(200)}/${'b'.repeat(200)}/${'c'.repeat(200)}/${'d'.repeat(200)}`;
    const { texts } = await read(folder({ ...sound, [`m/1/${long}`]: 'x' }));
    expect(texts).toEqual([`m/1/${long}: has a path of 805 bytes\n    -> shorten it to at most 700 bytes`]);
  });

  it.each(['600', '640', '604', '044'])('reports unreadable files, of mode %s', async (mode) => {
    const root = folder(sound);
    fs.chmodSync(path.join(root, 'm/1/model.pt'), parseInt(mode, 8));
    const denied = Object.assign(new Error('EACCES'), { code: 'EACCES' });
    // Tests may run as root, whom no permission stops.
    const access = jest.spyOn(fs, 'accessSync').mockImplementation((file) => {
      if (file === path.join(root, 'm/1/model.pt')) throw denied;
    });
    try {
      expect((await read(root)).texts).toEqual(['m/1/model.pt: cannot be read: permission denied']);
    } finally {
      access.mockRestore();
    }
  });
});

describe('configuration files that cannot be read', () => {
  it.each([
    ['m/1/labels.txt', 'create one of them'],
    ['m/1/model.onnx', 'npm run init -- --from m/1/model.onnx m --repo . writes model.yaml'],
    ['m/1/model.pt', 'npm run init -- --from m/1/model.pt m --input TYPE:DIMS --repo . writes model.yaml'],
    ['m/model.yml', 'rename model.yml to model.yaml', 'm/1/labels.txt'],
    ['m/1/config.pbtxt', 'move m/1/config.pbtxt to m/config.pbtxt'],
  ])('requires a configuration beside version folders, with %s', async (file, hint, other = file) => {
    const root = folder({ [file]: 'x', [other]: 'x' });
    expect((await read(root)).texts).toEqual([`m: has neither model.yaml nor config.pbtxt\n    -> ${hint}`]);
  });
});

describe('a configuration with mistakes of form', () => {
  it('is not compared with the ensembles that use it', async () => {
    const broken = modelYaml({ input: [{ name: 'input__0', data_type: 'FP32', dims: [3] }], max_batch_size: 'x' });
    const io = { data_type: 'TYPE_FP32', dims: [7] };
    const ensemble = JSON.stringify({
      platform: 'ensemble',
      max_batch_size: 99,
      input: [{ name: 'x', ...io }],
      output: [{ name: 'y', ...io }],
      ensemble_scheduling: {
        step: [{ model_name: 'm', model_version: -1, input_map: { input__0: 'x' }, output_map: { output__0: 'y' } }],
      },
    });
    const { texts } = await read(folder({ 'm/model.yaml': broken, 'e/model.yaml': ensemble }), { artifacts: false });
    expect(texts.map((text) => text.split(': ').slice(0, 2).join(': '))).toEqual([
      'm/model.yaml: max_batch_size',
      'm/model.yaml: input[0].data_type',
    ]);
  });
});
