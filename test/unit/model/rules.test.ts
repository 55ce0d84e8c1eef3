import { input, output, type Fields } from '../../support/malformed/case';
import { warmup } from '../../support/malformed/rules/warmup';
import { modelYaml, getProblems, removeFolders } from '../../support/model-files';

// Configurations that break a rule: test/support/malformed.

afterAll(removeFolders);

const program = (takes: Fields[], gives: Fields[]): Fields => ({ platform: 'torch_aoti', input: takes, output: gives });

describe('the rules for one model accept', () => {
  it.each<[what: string, fields: Fields]>([
    ['the model as it is', {}],
    ['its own name', { name: 'm' }],
    ['the backend of the platform', { backend: 'pytorch' }],
    ['a backend alone', { platform: undefined, backend: 'pytorch' }],
    ['a custom backend, with any platform', { platform: 'foo', backend: 'bar', input: undefined, output: undefined }],
    ['an ONNX model without tensors', { platform: 'onnxruntime_onnx', input: undefined, output: undefined }],
    ['inputs with the names of arguments', { input: [input({ name: 'ids' }), input({ name: 'mask' })] }],
    ['positions in any order', { input: [input({ name: 'a__1' }), input({ name: 'b__0' })] }],
    ['any names for ONNX', { platform: 'onnxruntime_onnx', output: [output({ name: 'logits' })] }],
    [
      'a reshape that keeps the number of elements',
      { input: [input({ dims: [2, 4, -1, 6], reshape: { shape: [8, -1, 1, 6] } })] },
    ],
    ['a reshape to a scalar', { input: [input({ dims: [1], reshape: { shape: [] } })] }],
    ['a list of texts', { max_batch_size: 0, input: [input({ data_type: 'TYPE_STRING', dims: [-1] })] }],
    [
      'queue settings without a batch axis',
      { max_batch_size: 0, dynamic_batching: { default_queue_policy: { max_queue_size: 5 } } },
    ],
    [
      'sequences without a batch axis',
      { max_batch_size: 0, sequence_batching: { oldest: { max_candidate_sequences: 4 } } },
    ],
    ['a control of a sequence', { sequence_batching: { control_input: [{ name: 'START__1' }] } }],
    ['a warm-up', warmup()],
    // The kinds of configurations that NVIDIA's qa/common/gen_qa_models.py makes for torch_aoti.
    ...[
      [
        ['INPUT__0', 'INPUT__1'],
        ['OUTPUT__0', 'OUTPUT__1'],
      ],
      [['ARGS[0]', 'ARGS[1]'], ['RESULT']],
      [
        ['ARGS[0]', 'ARGS[1][option1]', 'INPUT__2'],
        ['RESULT[AAA]', 'RESULT[BBB][0]', 'RESULT[BBB][1]'],
      ],
    ].map(([takes = [], gives = []]): [string, Fields] => [
      `a program with ${takes.join(', ')}`,
      program(
        takes.map((name) => input({ name, data_type: 'TYPE_INT8', dims: [1, 16] })),
        gives.map((name) => output({ name })),
      ),
    ]),
    ...'BOOL UINT8 INT8 INT16 INT32 INT64 FP16 BF16 FP32 FP64'.split(' ').map((type): [string, Fields] => {
      const of = { data_type: `TYPE_${type}`, dims: [-1] };
      return [
        `a program of ${type}, in batches, with two instances`,
        {
          ...program([input({ name: 'ARGS[0]', ...of })], [output({ name: 'RESULT', ...of })]),
          backend: 'pytorch',
          instance_group: [{ count: 2, kind: 'KIND_GPU' }],
          dynamic_batching: { preferred_batch_size: [4, 8], max_queue_delay_microseconds: 1000 },
        },
      ];
    }),
    ['a shape tensor of TensorRT', { platform: 'tensorrt_plan', input: [input({ is_shape_tensor: true })] }],
  ])('%s', async (_, fields) => {
    expect(await getProblems({ m: modelYaml(fields) })).toEqual([]);
  });
});

describe('the rules for ensembles', () => {
  const tensor = (name: string, data_type = 'TYPE_FP32', dims = [3]): Fields => ({ name, data_type, dims });
  const step = (model_name: string, input_map: Fields, output_map: Fields, more: Fields = {}): Fields => ({
    model_name,
    model_version: -1,
    input_map,
    output_map,
    ...more,
  });
  const first = step('a', { input__0: 'x' }, { output__0: 'between' });
  const second = step('b', { input__0: 'between' }, { output__0: 'y' });
  const ensemble = (steps: Fields[], fields: Fields = {}): string =>
    JSON.stringify({
      platform: 'ensemble',
      max_batch_size: 8,
      input: [tensor('x')],
      output: [tensor('y', 'TYPE_INT64', [5])],
      ensemble_scheduling: { step: steps },
      ...fields,
    });
  /** a: FP32 [3] -> UINT8 [-1], b: UINT8 [4] -> INT64 [5], both in batches of 8. */
  const models = {
    a: modelYaml({ output: [output({ data_type: 'TYPE_UINT8', dims: [-1] })] }),
    b: modelYaml({
      input: [input({ data_type: 'TYPE_UINT8', dims: [4] })],
      output: [output({ data_type: 'TYPE_INT64', dims: [5] })],
    }),
    m: ensemble([first, second]),
  };

  it.each<[what: string, configs: Record<string, string>]>([
    [
      'a reshape of its own input',
      {
        m: ensemble([first, second], { input: [{ ...tensor('x', 'TYPE_FP32', [1, 3]), reshape: { shape: [3] } }] }),
      },
    ],
    [
      'a step whose tensors only the backend knows',
      {
        m: ensemble([step('a', { any: 'x' }, { thing: 'between' }), second]),
        a: 'platform: onnxruntime_onnx\nmax_batch_size: 8',
      },
    ],
    [
      'a model of another namespace',
      {
        m: ensemble([first, second, step('far', { x: 'x' }, { y: 'z' }, { model_namespace: 'there' })], {
          output: [tensor('y', 'TYPE_INT64', [5]), tensor('z')],
        }),
      },
    ],
    ['any fixed version if only configurations are read', { m: ensemble([{ ...first, model_version: 3 }, second]) }],
  ])('accept %s', async (_, configs) => {
    expect(await getProblems({ ...models, ...configs })).toEqual([]);
  });

  it('reject version 0 also if only configurations are read', async () => {
    const m = ensemble([{ ...first, model_version: undefined }, second]);
    expect(await getProblems({ ...models, m })).toEqual([
      'ensemble_scheduling.step[0].model_version: is not a version of a, got 0; allowed: -1 for the newest',
    ]);
  });

  it('find a way back over other ensembles', async () => {
    const around = (name: string): string => ensemble([step(name, { x: 'x' }, { y: 'y' })]);
    const problems = await getProblems({ k: around('l'), l: around('m'), m: around('k') });
    expect(problems.map((text) => text.replace(/^[a-z]\/model\.yaml: /, ''))).toEqual([
      'ensemble_scheduling.step[0].model_name: forms a cycle of ensembles: k -> l -> m -> k',
      'ensemble_scheduling.step[0].model_name: forms a cycle of ensembles: l -> m -> k -> l',
      'ensemble_scheduling.step[0].model_name: forms a cycle of ensembles: m -> k -> l -> m',
    ]);
  });
});
