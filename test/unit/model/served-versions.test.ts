import { configText, readRepository, servedVersions, withServedVersions, type ModelConfig } from '../../../src/model';
import { folder, modelYaml, removeFolders, torchScript } from '../../support/model-files';

afterAll(removeFolders);

const config = (version_policy?: ModelConfig['version_policy']): ModelConfig => ({
  name: 'm',
  backend: 'python',
  ...(version_policy === undefined ? {} : { version_policy }),
});

describe('the versions that are served', () => {
  it.each<[title: string, policy: ModelConfig['version_policy'], versions: number[], served: number[]]>([
    ['by default the newest', undefined, [2, 10, 9], [10]],
    ['of an empty policy the newest', {}, [2, 10, 9], [10]],
    ['the newest one', { latest: { num_versions: 1 } }, [2, 10, 9], [10]],
    ['the newest two', { latest: { num_versions: 2 } }, [2, 10, 9], [9, 10]],
    ['the newest of fewer', { latest: { num_versions: 5 } }, [2, 10], [2, 10]],
    ['all', { all: {} }, [2, 10, 9], [2, 9, 10]],
    ['certain ones', { specific: { versions: [10, 2, 10] } }, [2, 3, 10], [2, 10]],
    ['none of no folders', { all: {} }, [], []],
    // What the rules refuse is not to become "all".
    ['none of the newest 0', { latest: {} }, [1, 2], []],
  ])('are %s', (_title, policy, versions, served) => {
    expect(servedVersions(config(policy), versions)).toEqual(served);
    const named = served.length === 0 ? config(policy) : config({ specific: { versions: served } });
    expect(withServedVersions(config(policy), versions)).toEqual(named);
  });

  it('are written into the text that is published, also of an ensemble', async () => {
    const tensor = (name: string): object => ({ name, data_type: 'TYPE_FP32', dims: [3] });
    const root = folder({
      'm/model.yaml': modelYaml({
        output: [{ ...tensor('output__0') }],
        version_policy: { latest: { num_versions: 2 } },
      }),
      'm/1/model.pt': torchScript(),
      'm/2/model.pt': torchScript(),
      'm/3/model.pt': torchScript(),
      'e/model.yaml': JSON.stringify({
        platform: 'ensemble',
        input: [tensor('x')],
        output: [tensor('y')],
        ensemble_scheduling: {
          step: [{ model_name: 'm', model_version: -1, input_map: { input__0: 'x' }, output_map: { output__0: 'y' } }],
        },
      }),
      'e/4/': '',
    });
    const { models, problems } = await readRepository(root);
    expect(problems).toEqual([]);
    expect(models.map(({ name, served }) => [name, served])).toEqual([
      ['e', [4]],
      ['m', [2, 3]],
    ]);
    for (const { config: own, configText: text, served } of models)
      expect(text).toBe(configText({ ...own, version_policy: { specific: { versions: served } } }));
    expect(models[1]?.configText).toContain(
      'version_policy {\n  specific {\n    versions: 2\n    versions: 3\n  }\n}\n',
    );
  });
});
