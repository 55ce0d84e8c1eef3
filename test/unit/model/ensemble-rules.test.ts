import { modelYaml, problemsOf, removeFolders } from '../../support/model-files';

afterAll(removeFolders);

type Fields = Record<string, unknown>;
const input = (fields: Fields = {}): Fields => ({ name: 'input__0', data_type: 'TYPE_FP32', dims: [3], ...fields });
const output = (fields: Fields = {}): Fields => ({ name: 'output__0', data_type: 'TYPE_FP32', dims: [4], ...fields });

describe('rules for ensembles', () => {
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
  };
  const STEP = 'ensemble_scheduling.step';
  const inverse = [second, first];

  it.each<[title: string, m: string, problems: string[]]>([
    ['no steps', ensemble([]), [`${STEP}: is empty: an ensemble has at least one step`]],
    [
      'a step that says nothing',
      ensemble([first, second, {}]),
      [
        `${STEP}[2].model_name: is missing`,
        `${STEP}[2].input_map: is missing`,
        `${STEP}[2].output_map: is missing`,
        `${STEP}[2].model_version: is not a version of undefined, got 0; allowed: -1 for the newest`,
      ],
    ],
    [
      'a model that is not there',
      ensemble([step('aa', { input__0: 'x' }, { output__0: 'between' }), second]),
      [`${STEP}[0].model_name: is not in the repository, got "aa"; allowed: a, b, m`],
    ],
    [
      'no version',
      ensemble([{ ...first, model_version: undefined }, second]),
      [`${STEP}[0].model_version: is not a version of a, got 0; allowed: -1 for the newest`],
    ],
    [
      'an input that the model has not',
      ensemble([step('a', { input__1: 'x' }, { output__0: 'between' }), second]),
      [`${STEP}[0].input_map.input__1: is not an input of a; allowed: input__0\n    -> did you mean "input__0"?`],
    ],
    [
      'an output that the model has not',
      ensemble([first, step('b', { input__0: 'between' }, { out: 'y' })]),
      [`${STEP}[1].output_map.out: is not an output of b; allowed: output__0`],
    ],
    [
      'a tensor written twice',
      ensemble([first, second, step('b', { input__0: 'between' }, { output__0: 'y' })]),
      [`${STEP}[2].output_map.output__0: writes "y", which output "output__0" of b writes already`],
    ],
    [
      'a step that writes the input',
      ensemble([first, second, step('b', { input__0: 'between' }, { output__0: 'x' })]),
      [
        `${STEP}[2].output_map.output__0: writes "x", which the ensemble's input writes already`,
        `${STEP}[0].input_map: never runs: it waits for x\n    -> steps that wait for each other cannot begin`,
        `${STEP}[1].input_map: never runs: it waits for between\n    -> steps that wait for each other cannot begin`,
        `${STEP}[2].input_map: never runs: it waits for between\n    -> steps that wait for each other cannot begin`,
      ],
    ],
    [
      'a tensor that nobody writes',
      ensemble([first, step('b', { input__0: 'betwen' }, { output__0: 'y' })]),
      [
        `${STEP}[1].input_map.input__0: reads "betwen", which neither a client nor a step writes; allowed: x, y, between\n    -> did you mean "between"?`,
      ],
    ],
    [
      'an output that nobody writes',
      ensemble([first, second], { output: [tensor('y', 'TYPE_INT64', [5]), tensor('zzzz')] }),
      ['output[1]: reads "zzzz", which neither a client nor a step writes; allowed: x, y, between'],
    ],
    [
      'an input that nobody reads',
      ensemble([first, second], { input: [tensor('x'), tensor('zzzz')] }),
      ['input[1]: writes "zzzz", which nothing reads\n    -> remove the entry'],
    ],
    [
      'steps that wait for each other',
      ensemble([
        step('a', { input__0: 'p' }, { output__0: 'q' }),
        step('b', { input__0: 'q' }, { output__0: 'p' }),
        first,
        second,
      ]),
      [
        `${STEP}[0].input_map: never runs: it waits for p\n    -> steps that wait for each other cannot begin`,
        `${STEP}[1].input_map: never runs: it waits for q\n    -> steps that wait for each other cannot begin`,
        `${STEP}[0].input_map.input__0: "p" is TYPE_INT64 from output "output__0" of b, but TYPE_FP32 for input "input__0" of a`,
        `${STEP}[0].input_map.input__0: "p" is [-1, 5] from output "output__0" of b, but [-1, 3] for input "input__0" of a`,
      ],
    ],
    [
      'types that differ',
      ensemble([first, second], { input: [tensor('x', 'TYPE_FP16')] }),
      [
        `${STEP}[0].input_map.input__0: "x" is TYPE_FP16 from the ensemble's input, but TYPE_FP32 for input "input__0" of a`,
      ],
    ],
    [
      'types that differ at the end',
      ensemble([first, second], { output: [tensor('y', 'TYPE_FP32', [5])] }),
      [`output[0]: "y" is TYPE_INT64 from output "output__0" of b, but TYPE_FP32 for the ensemble's output`],
    ],
    [
      'shapes that differ',
      ensemble([first, second], { input: [tensor('x', 'TYPE_FP32', [2])] }),
      [
        `${STEP}[0].input_map.input__0: "x" is [-1, 2] from the ensemble's input, but [-1, 3] for input "input__0" of a`,
      ],
    ],
    [
      'shapes of different length',
      ensemble([first, second], { output: [tensor('y', 'TYPE_INT64', [5, 1])] }),
      [`output[0]: "y" is [-1, 5] from output "output__0" of b, but [-1, 5, 1] for the ensemble's output`],
    ],
    [
      'a larger batch than its steps',
      ensemble([first, second], { max_batch_size: 9 }),
      [
        `${STEP}[0].model_name: a takes batches of 8 at most, the ensemble 9\n    -> set max_batch_size: 8 here, or more there`,
        `${STEP}[1].model_name: b takes batches of 8 at most, the ensemble 9\n    -> set max_batch_size: 8 here, or more there`,
      ],
    ],
    [
      'itself as a step',
      ensemble([first, second, step('m', { x: 'x' }, { y: 'z' })], {
        output: [tensor('y', 'TYPE_INT64', [5]), tensor('z', 'TYPE_INT64', [5])],
      }),
      [`${STEP}[2].model_name: leads back to this ensemble: m -> m`],
    ],
    [
      'instances and the like',
      ensemble([first, second], {
        instance_group: [{ count: 1 }],
        optimization: {},
        model_warmup: [{ batch_size: 1 }],
      }),
      [
        'instance_group: cannot be given for an ensemble\n    -> give it in the models of its steps',
        'optimization: cannot be given for an ensemble\n    -> give it in the models of its steps',
        'model_warmup: cannot be given for an ensemble\n    -> give it in the models of its steps',
        'model_warmup[0].inputs: gives no value for the input "x"',
      ],
    ],
  ])('refuse %s', async (_title, m, problems) => {
    expect(await problemsOf({ ...models, m })).toEqual(problems);
  });

  it.each<[title: string, configs: Record<string, string>]>([
    ['two steps', { m: ensemble([first, second]) }],
    ['steps in any order', { m: ensemble(inverse) }],
    ['a smaller batch than its steps', { m: ensemble([first, second], { max_batch_size: 4 }) }],
    [
      'a step that takes the batch axis as its own',
      {
        m: ensemble([first, second]),
        a: modelYaml({
          max_batch_size: 0,
          input: [input({ dims: [-1, 3] })],
          output: [output({ data_type: 'TYPE_UINT8', dims: [-1, 4] })],
        }),
      },
    ],
    [
      'an output that is not used',
      {
        m: ensemble([first, second]),
        b: modelYaml({
          input: [input({ data_type: 'TYPE_UINT8', dims: [4] })],
          output: [output({ data_type: 'TYPE_INT64', dims: [5] }), output({ name: 'output__1' })],
        }),
      },
    ],
    [
      'an optional input that is not mapped',
      {
        m: ensemble([first, second]),
        b: modelYaml({
          ...{ platform: undefined, backend: 'python' },
          input: [input({ data_type: 'TYPE_UINT8', dims: [4] }), input({ name: 'input__1', optional: true })],
          output: [output({ data_type: 'TYPE_INT64', dims: [5] })],
        }),
      },
    ],
    [
      'a reshape of its own input',
      { m: ensemble([first, second], { input: [{ ...tensor('x', 'TYPE_FP32', [1, 3]), reshape: { shape: [3] } }] }) },
    ],
    [
      'a step whose tensors are left to the backend',
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
  ])('accept %s', async (_title, configs) => {
    expect(await problemsOf({ ...models, ...configs })).toEqual([]);
  });

  it.each([
    [false, [`${STEP}[0].input_map: does not map the input "input__1" of two`]],
    [true, []],
  ])('find an input that no step maps, unless it is optional (%s)', async (optional, problems) => {
    const two = modelYaml({
      ...{ platform: undefined, backend: 'python' },
      input: [input(), input({ name: 'input__1', optional })],
    });
    const m = ensemble([step('two', { input__0: 'x' }, { output__0: 'y' })], {
      output: [tensor('y', 'TYPE_FP32', [4])],
    });
    expect(await problemsOf({ m, two })).toEqual(problems);
  });

  it('accept a fixed version where only configurations are read', async () => {
    const fixed = { ...first, model_version: 3 };
    expect(await problemsOf({ ...models, m: ensemble([fixed, second]) })).toEqual([]);
  });

  it('find a way back over other ensembles', async () => {
    const around = (name: string): string => ensemble([step(name, { x: 'x' }, { y: 'y' })]);
    const problems = await problemsOf({ k: around('l'), l: around('m'), m: around('k') });
    expect(problems.map((text) => text.replace(/^[a-z]\/model\.yaml: /, ''))).toEqual([
      `${STEP}[0].model_name: leads back to this ensemble: k -> l -> m -> k`,
      `${STEP}[0].model_name: leads back to this ensemble: l -> m -> k -> l`,
      `${STEP}[0].model_name: leads back to this ensemble: m -> k -> l -> m`,
    ]);
  });
});
