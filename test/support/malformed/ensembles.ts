import { torchScript } from '../model-files';
import {
  inBothLanguages,
  input,
  output,
  sound,
  type Fields,
  type Malformed,
  type MalformedCase,
  type RuleCase,
} from './case';

const tensor = (name: string, data_type = 'TYPE_FP32', dims = [3]): Fields => ({ name, data_type, dims });
const STEP = 'ensemble_scheduling.step';
const step = (fields: Fields = {}): Fields => ({
  ...{ model_name: 'a', model_version: -1, input_map: { input__0: 'x' }, output_map: { output__0: 'y' } },
  ...fields,
});
const ensemble = (steps: Fields[], fields: Fields = {}): Fields => ({
  ...{ platform: 'ensemble', max_batch_size: 4, input: [tensor('x')], output: [tensor('y')] },
  ensemble_scheduling: { step: steps },
  ...fields,
});
/** Two steps, one after the other. */
const chain = (second: Fields = {}, first: Fields = {}): Fields[] => [
  step({ output_map: { output__0: 'between' }, ...first }),
  step({ model_name: 'b', input_map: { input__0: 'between' }, ...second }),
];

const PART = sound({ output: [output({ dims: [3] })] });
const PARTS = {
  a: PART,
  b: PART,
  small: { ...PART, max_batch_size: 2 },
  ints: { ...PART, input: [input({ data_type: 'TYPE_INT32' })] },
  any: { ...PART, input: [input({ dims: [-1] })], output: [output({ dims: [-1] })] },
  five: { ...PART, input: [input({ dims: [5] })] },
  join: { ...PART, input: [input(), input({ name: 'input__1' })] },
};

const ENSEMBLES: readonly RuleCase[] = [
  [ensemble([]), `${STEP}: is empty; an ensemble needs at least one step`],
  [
    { ...ensemble([]), ensemble_scheduling: undefined },
    'ensemble_scheduling: is missing; it lists the steps of the ensemble',
  ],
  [
    ensemble([step()], { backend: 'python' }),
    'backend: must not be set for an ensemble, got "python"\n    -> remove the line',
  ],
  [
    ensemble([step()], { instance_group: [{ count: 1 }] }),
    'instance_group: cannot be set for an ensemble\n    -> set it in the models of its steps',
  ],
  [
    ensemble([step()], {
      model_warmup: [{ batch_size: 1, inputs: { x: { data_type: 'TYPE_FP32', dims: [3], zero_data: true } } }],
    }),
    'model_warmup: cannot be set for an ensemble\n    -> set it in the models of its steps',
  ],
  [
    ensemble(chain({ model_name: 'smal' })),
    `${STEP}[1].model_name: is not a model of the repository, got "smal"; allowed: a, any, b, five, ints, join, m, old, small\n    -> did you mean "small"?`,
  ],
  [
    ensemble([step({ model_version: 7 })]),
    `${STEP}[0].model_version: is not a version of a, got 7; allowed: -1 for the newest, 1`,
  ],
  [
    ensemble([step({ model_version: undefined })]),
    `${STEP}[0].model_version: is not a version of a, got 0; allowed: -1 for the newest, 1`,
  ],
  [
    ensemble([step({ model_name: 'm', input_map: { x: 'x' }, output_map: { y: 'y' } })]),
    `${STEP}[0].model_name: forms a cycle of ensembles: m -> m`,
  ],
  [
    ensemble([step({ model_name: 'small' })]),
    `${STEP}[0].model_name: small accepts batches of at most 2, but the ensemble accepts 4\n    -> set max_batch_size: 2 in the ensemble, or raise it in small`,
  ],
  [
    ensemble([step({ input_map: { input__7: 'x' } })]),
    `${STEP}[0].input_map.input__7: is not an input of a; allowed: input__0\n    -> did you mean "input__0"?`,
  ],
  [
    ensemble([step({ output_map: { output__7: 'y' } })]),
    `${STEP}[0].output_map.output__7: is not an output of a; allowed: output__0\n    -> did you mean "output__0"?`,
  ],
  [
    ensemble(chain({ input_map: { input__0: 'betwen' } })),
    `${STEP}[1].input_map.input__0: reads "betwen", which neither a client nor a step writes; allowed: x, y, between\n    -> did you mean "between"?`,
  ],
  [
    ensemble([step()], { output: [tensor('y'), tensor('zzz')] }),
    'output[1]: reads "zzz", which neither a client nor a step writes; allowed: x, y',
  ],
  [
    ensemble([step()], { input: [tensor('x'), tensor('zzz')] }),
    'input[1]: writes "zzz", which no step and no output reads\n    -> remove the entry',
  ],
  [
    ensemble([step(), step({ model_name: 'b', output_map: { output__0: 'zzz' } })]),
    `${STEP}[1].output_map.output__0: writes "zzz", which no step and no output reads\n    -> remove the entry`,
  ],
  [
    ensemble([step(), step({ model_name: 'b' })]),
    `${STEP}[1].output_map.output__0: writes "y", which output "output__0" of a already writes`,
  ],
  [
    ensemble(chain({ model_name: 'ints' })),
    `${STEP}[1].input_map.input__0: "between" is TYPE_FP32 from output "output__0" of a, but TYPE_INT32 for input "input__0" of ints`,
  ],
  [
    ensemble([step()], { input: [tensor('x', 'TYPE_INT64')] }),
    `${STEP}[0].input_map.input__0: "x" is TYPE_INT64 from the ensemble's input, but TYPE_FP32 for input "input__0" of a`,
  ],
  [
    ensemble([step()], { output: [tensor('y', 'TYPE_FP32', [3, 3])] }),
    'output[0]: "y" is [-1, 3] from output "output__0" of a, but [-1, 3, 3] for the ensemble\'s output',
  ],
  [
    ensemble([step()], { input: undefined }),
    [
      'input: is missing; for ensemble, the configuration must list the inputs',
      `${STEP}[0].input_map.input__0: reads "x", which neither a client nor a step writes; allowed: y`,
    ],
  ],
  [
    ensemble([step({ model_name: 'old', model_version: 1 })]),
    `${STEP}[0].model_version: is not among the versions that old serves, got 1; allowed: -1 for the newest, 2`,
  ],
  [
    ensemble(
      [
        step({ model_name: 'any', output_map: { output__0: 'between' } }),
        step({ model_name: 'five', input_map: { input__0: 'between' } }),
        step({ model_name: 'b', input_map: { input__0: 'between' }, output_map: { output__0: 'z' } }),
      ],
      { output: [tensor('between', 'TYPE_FP32', [5]), tensor('y'), tensor('z')] },
    ),
    `${STEP}[2].input_map.input__0: "between" is [-1, 5] for the ensemble's output, but [-1, 3] for input "input__0" of b`,
  ],
  [
    ensemble([step(), {}]),
    [
      `${STEP}[1].model_name: is missing`,
      `${STEP}[1].input_map: is missing`,
      `${STEP}[1].output_map: is missing`,
      `${STEP}[1].model_version: is not a version, got 0; allowed: -1 for the newest`,
    ],
  ],
  [ensemble([step({ model_name: 'join' })]), `${STEP}[0].input_map: does not map the input "input__1" of join`],
  [
    ensemble([
      ...chain(),
      step({ model_name: 'b', input_map: { input__0: 'between' }, output_map: { output__0: 'x' } }),
    ]),
    [
      `${STEP}[2].output_map.output__0: writes "x", which the ensemble's input already writes`,
      `${STEP}[0].input_map: never runs, because it waits for x\n    -> break the cycle: steps that wait for each other never start`,
      `${STEP}[1].input_map: never runs, because it waits for between\n    -> break the cycle: steps that wait for each other never start`,
      `${STEP}[2].input_map: never runs, because it waits for between\n    -> break the cycle: steps that wait for each other never start`,
    ],
  ],
  [
    ensemble([
      step({ input_map: { input__0: 'p' }, output_map: { output__0: 'q' } }),
      step({ model_name: 'five', input_map: { input__0: 'q' }, output_map: { output__0: 'p' } }),
      step(),
    ]),
    [
      `${STEP}[0].input_map: never runs, because it waits for p\n    -> break the cycle: steps that wait for each other never start`,
      `${STEP}[1].input_map: never runs, because it waits for q\n    -> break the cycle: steps that wait for each other never start`,
      `${STEP}[1].input_map.input__0: "q" is [-1, 3] from output "output__0" of a, but [-1, 5] for input "input__0" of five`,
    ],
  ],
];

/** Ensembles with wrong connections, as model.yaml and as config.pbtxt. */
export const ENSEMBLE_CASES: readonly MalformedCase[] = ensembleCases();

function ensembleCases(): MalformedCase[] {
  const parts = Object.fromEntries(
    Object.entries(PARTS).flatMap(([name, config]) => [
      [`${name}/model.yaml`, JSON.stringify(config)],
      [`${name}/1/model.pt`, torchScript()],
    ]),
  ) as Record<string, Malformed>;
  for (const version of [1, 2]) parts[`old/${version}/model.pt`] = torchScript();
  parts['old/model.yaml'] = JSON.stringify(PART);
  return ENSEMBLES.flatMap((one) => inBothLanguages('an ensemble in ', one, { ...parts, 'm/1/.keep': '.' }));
}
