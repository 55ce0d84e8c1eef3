import { formatProblem } from '../../../src/core/errors';
import { configFromYaml } from '../../../src/model/from-yaml';
import { ProblemList } from '../../../src/core/problems';

function read(text: string): { config: unknown; problems: string[] } {
  const list = new ProblemList('f');
  const config = configFromYaml(text, list);
  return { config, problems: list.problems.map((problem) => formatProblem(problem).replace(/^f: /, '')) };
}

test.each<[yaml: string, problem: string]>([
  ['platform: 5', 'platform: must be a string, got 5\n    -> put it in quotes: "5"'],
  ['platform: true', 'platform: must be a string, got true\n    -> put it in quotes: "true"'],
  ['platform: [a]', 'platform: must be a string, got a list'],
  ['platform: {a: 1}', 'platform: must be a string, got a mapping'],
  ['max_batch_size: many', 'max_batch_size: must be a whole number, got "many"'],
  ['max_batch_size: 1.5', 'max_batch_size: must be a whole number, got 1.5'],
  ['max_batch_size: [1]', 'max_batch_size: must be a whole number, got a list'],
  ['max_batch_size: 1.0e+25', 'max_batch_size: is out of range, got 1e+25; allowed: -2147483648 to 2147483647'],
  ['model_metrics: {metric_control: [{histogram_options: {buckets: [half]}}]}', 'must be a number, got "half"'],
  ['sequence_batching: {direct: {minimum_slot_utilization: true}}', 'must be a number, got true'],
  ['optimization: {eager_batching: yes}', 'optimization.eager_batching: must be true or false, got "yes"'],
  ['optimization: {eager_batching: 1}', 'optimization.eager_batching: must be true or false, got 1'],
  ['instance_group: [{kind: 1}]', 'instance_group[0].kind: is not one of the values of Kind, got 1'],
  ['instance_group: [{kind: [KIND_CPU]}]', 'instance_group[0].kind: is not one of the values of Kind, got a list'],
  ['dynamic_batching: x', 'dynamic_batching: must be a mapping, got "x"'],
  ['dynamic_batching: [1]', 'dynamic_batching: must be a mapping, got a list'],
  ['input: x', 'input: must be a list, got "x"'],
  ['input: {a: 1}', 'input: must be a list, got a mapping\n    -> write it as [ ... ], or each item after "- "'],
  ['input: [7]', 'input[0]: must be a mapping, got 7'],
  ['input: [{dims: [x]}]', 'input[0].dims[0]: must be a whole number, got "x"'],
  ['parameters: x', 'parameters: must be a mapping, got "x"'],
  ['parameters: [x]', 'parameters: must be a mapping, got a list'],
  ['input: [{no_such_field: 0}]', 'input[0].no_such_field: unknown field of ModelInput; allowed: name, '],
  ['parameters: {a: {no_such_field: 0}}', 'parameters.a.no_such_field: unknown field of ModelParameter; allowed: '],
])('configFromYaml refuses %s', (yaml, problem) => {
  expect(read(yaml).problems).toEqual([expect.stringContaining(problem)]);
});

const DATA_TYPES =
  'TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, ' +
  'TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_STRING, TYPE_BF16';

const dataType = (value: string, meant: string): [string, string, string] => [
  `data type ${value}`,
  `input: [{data_type: ${value}}]`,
  `input[0].data_type: is not one of the values of DataType, got "${value}"; ` +
    `allowed: ${DATA_TYPES}\n    -> did you mean "${meant}"?`,
];

describe('configFromYaml', () => {
  it.each<[title: string, yaml: string, ...problems: string[]]>([
    [
      'a key twice, and what else is wrong',
      'name: a\nname: b\nmax_batch_size: x',
      'not valid YAML: line 2, column 1: duplicated mapping key',
      'max_batch_size: must be a whole number, got "x"',
    ],
    ['a list item without a value', 'input: [~]', 'input[0]: must be a mapping, got nothing'],
    [
      'a message without a value',
      'dynamic_batching:',
      "dynamic_batching: has no value\n    -> write {} for Triton's defaults, or remove the line",
    ],
    ['a field without a value', 'platform:', 'platform: has no value\n    -> give it a value, or remove the line'],
    ['a map entry without a value', 'parameters: {a: ~}', 'parameters.a: must be a value, got nothing'],
    [
      'uint32 below',
      'model_warmup: [{batch_size: -1}]',
      'model_warmup[0].batch_size: is out of range, got -1; allowed: 0 to 4294967295',
    ],
    [
      'uint64 above',
      'dynamic_batching: {priority_levels: 18446744073709551616}',
      'dynamic_batching.priority_levels: is out of range, got 18446744073709551616; allowed: 0 to 18446744073709551615',
    ],
    [
      'a number as the key of a map of texts',
      'metric_tags: {1: a}',
      'metric_tags["1"]: must be a string, got 1\n    -> put it in quotes: "1"',
    ],
    [
      'a word as the key of a map of numbers',
      'dynamic_batching: {priority_queue_policy: {high: {}}}',
      'dynamic_batching.priority_queue_policy.high: must be a whole number, got "high"',
    ],
    [
      'two kinds of scheduling',
      'dynamic_batching: {}\nensemble_scheduling: {}',
      'ensemble_scheduling: cannot be combined with dynamic_batching; allowed: one of dynamic_batching, sequence_batching, ensemble_scheduling',
    ],
    [
      'a value of another enum',
      'instance_group: [{kind: GPU}]',
      'instance_group[0].kind: is not one of the values of Kind, got "GPU"; allowed: KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL\n    -> did you mean "KIND_GPU"?',
    ],
    dataType('FP32', 'TYPE_FP32'),
    dataType('int64', 'TYPE_INT64'),
  ])('refuses %s', (_title, yaml, ...problems) => {
    expect(read(yaml).problems).toEqual(problems);
  });

  it('suggests no field for a name that resembles none', () => {
    expect(read('zebra: 1').problems[0]).toMatch(/^zebra: unknown field of ModelConfig; allowed: [^\n]*$/);
  });

  it('collects every problem, and keeps the valid fields', () => {
    const { config, problems } = read('platform: 5\nmax_batch_size: 8\ninput: [{dims: [a, 3]}]\nfoo: 1');
    expect(problems.map((problem) => problem.split(':')[0])).toEqual(['platform', 'input[0].dims[0]', 'foo']);
    expect(config).toEqual({ max_batch_size: 8, input: [{ dims: [3] }] });
  });

  it('reads anchors, merge keys and numbers of 64 bits', () => {
    const yaml = `
input:
  - &tensor { name: input__0, data_type: TYPE_FP32, dims: [0x10, -1] }
  - { <<: *tensor, name: input__1 }
dynamic_batching: { max_queue_delay_microseconds: 18446744073709551615, priority_queue_policy: { 2: {} } }
`;
    expect(read(yaml)).toEqual({
      problems: [],
      config: {
        input: [
          { name: 'input__0', data_type: 'TYPE_FP32', dims: [16, -1] },
          { name: 'input__1', data_type: 'TYPE_FP32', dims: [16, -1] },
        ],
        dynamic_batching: { max_queue_delay_microseconds: 18446744073709551615n, priority_queue_policy: { 2: {} } },
      },
    });
  });

  it('keeps names of JavaScript’s own objects as plain keys', () => {
    const { config, problems } = read('parameters: {__proto__: {string_value: a}, constructor: {string_value: b}}');
    expect(problems).toEqual([]);
    expect(Object.entries((config as { parameters: object }).parameters)).toEqual([
      ['__proto__', { string_value: 'a' }],
      ['constructor', { string_value: 'b' }],
    ]);
    expect(read('__proto__: 1\nconstructor: 2').problems.map((text) => text.split(';')[0])).toEqual([
      '__proto__: unknown field of ModelConfig',
      'constructor: unknown field of ModelConfig',
    ]);
  });

  it.each([
    ['0o17', 15],
    ['0x1F', 31],
    ['+8', 8],
    ['010', 10],
  ])('reads the number %s', (text, value) => {
    expect(read(`max_batch_size: ${text}`)).toEqual({ config: { max_batch_size: value }, problems: [] });
  });

  it('is quick with a number of a million digits', () => {
    expect(read(`max_batch_size: ${'9'.repeat(1_000_000)}`).problems).toEqual([
      'max_batch_size: must be a whole number, got Infinity',
    ]);
  });
});
