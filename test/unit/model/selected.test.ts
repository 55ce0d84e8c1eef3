import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { stepModels, type Repository } from '../../../src/model';
import { folder, modelYaml, read, removeFolders, torchScript } from '../../support/model-files';

afterEach(removeFolders);

describe('selection', () => {
  const step = (model_name: string, from: string, to: string): object => ({
    model_name,
    model_version: -1,
    input_map: { input__0: from },
    output_map: { output__0: to },
  });
  const tensor = (name: string): object => ({ name, data_type: 'TYPE_FP32', dims: [3] });
  const same = modelYaml({ output: [tensor('output__0')] });
  const repository = {
    'a/model.yaml': same,
    'a/1/model.pt': torchScript(),
    'b/model.yaml': same,
    'b/1/model.pt': torchScript(),
    'broken/model.yaml': '[',
    'ens/model.yaml': JSON.stringify({
      platform: 'ensemble',
      input: [tensor('x')],
      output: [tensor('y')],
      ensemble_scheduling: {
        step: [step('a', 'x', 'z'), step('b', 'z', 'y'), step('a', 'z', 'u'), step('b', 'u', 'v')],
      },
    }).replace('"output":[', '"output":[{"name":"v","data_type":"TYPE_FP32","dims":[3]},'),
    'ens/1/.keep': '',
  };
  const names = ({ models }: Repository): string[] => models.map(({ name }) => name);

  it('selects all models by default', async () => {
    const result = await read(folder(repository));
    expect(names(result)).toEqual(['a', 'b', 'ens']);
    expect(result.texts).toEqual([expect.stringMatching(/^broken\/model\.yaml: not valid YAML: line 1, column 2: /)]);
  });

  it('adds the models of an ensemble, and reports them', async () => {
    const result = await read(folder(repository), { models: ['ens', 'b'] });
    expect(names(result)).toEqual(['a', 'b', 'ens']);
    expect(result.added).toEqual(['a']);
    expect(result.texts).toEqual([]);
    expect(stepModels(result.models[2]?.config ?? { name: '' })).toEqual(['a', 'b']);
    expect(stepModels(result.models[0]?.config ?? { name: '' })).toEqual([]);
  });

  it('omits excluded models', async () => {
    const result = await read(folder(repository), { exclude: ['broken', 'ens', 'a'] });
    expect(names(result)).toEqual(['b']);
    expect(result.texts).toEqual([]);
  });

  it.each([[{ models: ['a'], exclude: ['a'] }], [{ exclude: ['a', 'b', 'broken', 'ens'] }]])(
    'refuses an empty selection: %p',
    async (selection) => {
      const result = await read(folder(repository), selection);
      expect(result.texts).toEqual(['.: has no model left, because --exclude removes all selected models']);
    },
  );

  it('refuses to omit a model that an ensemble needs', async () => {
    const result = await read(folder(repository), { models: ['ens'], exclude: ['b'] });
    expect(result.texts).toEqual([
      'ens/model.yaml: ensemble_scheduling.step[1].model_name: names b, which is excluded\n    -> exclude ens too',
      'ens/model.yaml: ensemble_scheduling.step[3].model_name: names b, which is excluded\n    -> exclude ens too',
    ]);
  });

  it('names the existing models after an unknown name', async () => {
    const { texts } = await read(folder(repository), { models: ['a', 'brocken', 'zzz'], exclude: ['Ens'] });
    expect(texts).toEqual([
      '.: has no model "brocken"; allowed: a, b, broken, ens\n    -> did you mean broken?',
      '.: has no model "zzz"; allowed: a, b, broken, ens',
      '.: has no model "Ens"; allowed: a, b, broken, ens\n    -> did you mean ens?',
    ]);
  });

  it('reports an empty repository', async () => {
    const empty = folder({ 'docs/a.md': '' });
    expect((await read(empty)).texts).toEqual([
      '.: contains no model\n    -> a model is a folder with a model.yaml or a config.pbtxt; give the folder that contains the models',
    ]);
    const gone = path.join(empty, 'gone');
    expect((await read(gone)).texts).toEqual([`.: cannot be read: no such file or folder`]);
    writeFileSync(path.join(empty, 'file'), '');
    expect((await read(path.join(empty, 'file'))).texts).toEqual(['.: cannot be read: it is not a folder']);
  });
});
