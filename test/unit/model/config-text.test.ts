import { configText, readRepository, type ModelConfig } from '../../../src/model';
import { configFromText } from '../../../src/model/config-text';
import { ProblemList } from '../../../src/core/problems';
import { MODELS, MODEL_REPO } from '../../support/model-files';

function parse(text: string): ModelConfig | undefined {
  const list = new ProblemList('f');
  const config = configFromText(text, list);
  expect(list.problems).toEqual([]);
  return config;
}

describe('the models that ship', () => {
  it('have no problems in their configurations, which are restored from their texts', async () => {
    const { models, problems } = await readRepository(MODEL_REPO, { models: MODELS, artifacts: false });
    expect(problems).toEqual([]);
    expect(models.map(({ name }) => name)).toEqual(MODELS);
    for (const model of models) expect(parse(model.configText)).toEqual(model.config);
  });
});

describe('configText', () => {
  it('writes fields in the order of their numbers and maps by key', () => {
    const config: ModelConfig = {
      backend: 'python',
      parameters: { b: { string_value: '2' }, a: {} },
      dynamic_batching: {},
      input: [{ dims: [-1, 3], name: 'x', optional: false }, {}],
      name: 'm',
      instance_group: [],
    };
    expect(configText(config)).toBe(
      [
        'name: "m"',
        'input {',
        '  name: "x"',
        '  dims: -1',
        '  dims: 3',
        '  optional: false',
        '}',
        'input {',
        '}',
        'dynamic_batching {',
        '}',
        'parameters {',
        '  key: "a"',
        '  value {',
        '  }',
        '}',
        'parameters {',
        '  key: "b"',
        '  value {',
        '    string_value: "2"',
        '  }',
        '}',
        'backend: "python"',
        '',
      ].join('\n'),
    );
  });

  it('keeps every character of a text', () => {
    const text = `a"b\\c'\n\t\r\0\x7f é 漢 😀 {}#`;
    const config: ModelConfig = { name: text, metric_tags: { [text]: text } };
    expect(configText(config).split('\n')[0]).toBe(
      String.raw`name: "a\"b\\c'\n\t\r\000\177 \303\251 \346\274\242 \360\237\230\200 {}#"`,
    );
    expect(parse(configText(config))).toEqual(config);
  });

  it.each([18446744073709551615n, 9007199254740991, 0])('keeps the number %s', (value) => {
    const config: ModelConfig = { name: 'm', dynamic_batching: { max_queue_delay_microseconds: value } };
    expect(parse(configText(config))).toEqual(config);
  });

  it.each([Infinity, -Infinity, NaN, 0.1, -1e-30])('keeps the fraction %s', (value) => {
    const config: ModelConfig = { name: 'm', sequence_batching: { direct: { minimum_slot_utilization: value } } };
    expect(parse(configText(config))).toEqual(config);
  });
});
