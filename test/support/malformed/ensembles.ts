import { configText, type ModelConfig } from '../../../src/model';
import { torchScript } from '../model-files';
import { begins, input, output, sound, type Fields, type Malformed, type MalformedCase } from './case';

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
const decoupled = { model_transaction_policy: { decoupled: true } };
const PARTS = {
  a: PART,
  b: PART,
  small: { ...PART, max_batch_size: 2 },
  ints: { ...PART, input: [input({ data_type: 'TYPE_INT32' })] },
  any: { ...PART, input: [input({ dims: [-1] })], output: [output({ dims: [-1] })] },
  five: { ...PART, input: [input({ dims: [5] })] },
  join: { ...PART, input: [input(), input({ name: 'input__1' })] },
  stream: { ...PART, ...decoupled },
  // Has a step with a decoupled model, so it is decoupled itself.
  nested: ensemble([step({ model_name: 'stream' })]),
};

const ENSEMBLES: [name: string, config: Fields, field: string, says: string][] = [
  ['no steps', ensemble([]), STEP, 'is empty: an ensemble has at least one step'],
  ['no scheduling', { ...ensemble([]), ensemble_scheduling: undefined }, 'ensemble_scheduling', 'is missing'],
  ['a backend', ensemble([step()], { backend: 'python' }), 'backend', 'an ensemble has none, got "python"'],
  [
    'instances',
    ensemble([step()], { instance_group: [{ count: 1 }] }),
    'instance_group',
    'cannot be given for an ensemble',
  ],
  [
    'optimisation',
    ensemble([step()], { optimization: { eager_batching: true } }),
    'optimization',
    'cannot be given for an ensemble',
  ],
  [
    'a warm-up',
    ensemble([step()], {
      model_warmup: [{ batch_size: 1, inputs: { x: { data_type: 'TYPE_FP32', dims: [3], zero_data: true } } }],
    }),
    'model_warmup',
    'cannot be given for an ensemble',
  ],
  ['a step without a model', ensemble([step({ model_name: undefined })]), `${STEP}[0].model_name`, 'is missing'],
  ['a step without inputs', ensemble([step({ input_map: undefined })]), `${STEP}[0].input_map`, 'is missing'],
  ['a step without outputs', ensemble([step({ output_map: undefined })]), `${STEP}[0].output_map`, 'is missing'],
  [
    'a model that is not there',
    ensemble([step({ model_name: 'nobody' })]),
    `${STEP}[0].model_name`,
    'is not in the repository, got "nobody"',
  ],
  [
    'a misspelt model',
    ensemble(chain({ model_name: 'smal' })),
    `${STEP}[1].model_name`,
    'is not in the repository, got "smal"',
  ],
  [
    'a version that is not there',
    ensemble([step({ model_version: 7 })]),
    `${STEP}[0].model_version`,
    'is not a version of a, got 7',
  ],
  [
    'version 0',
    ensemble([step({ model_version: undefined })]),
    `${STEP}[0].model_version`,
    'is not a version of a, got 0',
  ],
  ['version -2', ensemble([step({ model_version: -2 })]), `${STEP}[0].model_version`, 'is not a version of a, got -2'],
  [
    'itself',
    ensemble([step({ model_name: 'm', input_map: { x: 'x' }, output_map: { y: 'y' } })]),
    `${STEP}[0].model_name`,
    'leads back to this ensemble: m -> m',
  ],
  [
    'larger batches than a step',
    ensemble([step({ model_name: 'small' })]),
    `${STEP}[0].model_name`,
    'small takes batches of 2 at most, the ensemble 4',
  ],
  [
    'an input that the model has not',
    ensemble([step({ input_map: { input__7: 'x' } })]),
    `${STEP}[0].input_map.input__7`,
    'is not an input of a',
  ],
  [
    'an output that the model has not',
    ensemble([step({ output_map: { output__7: 'y' } })]),
    `${STEP}[0].output_map.output__7`,
    'is not an output of a',
  ],
  [
    'a tensor that nobody writes',
    ensemble(chain({ input_map: { input__0: 'betwen' } })),
    `${STEP}[1].input_map.input__0`,
    'reads "betwen", which neither a client nor a step writes',
  ],
  [
    'an output that nobody writes',
    ensemble([step()], { output: [tensor('y'), tensor('zzz')] }),
    'output[1]',
    'reads "zzz", which neither a client nor a step writes',
  ],
  [
    'an input that nobody reads',
    ensemble([step()], { input: [tensor('x'), tensor('zzz')] }),
    'input[1]',
    'writes "zzz", which nothing reads',
  ],
  [
    'a tensor that nobody reads',
    ensemble([step(), step({ model_name: 'b', output_map: { output__0: 'zzz' } })]),
    `${STEP}[1].output_map.output__0`,
    'writes "zzz", which nothing reads',
  ],
  [
    'a tensor with two writers',
    ensemble([step(), step({ model_name: 'b' })]),
    `${STEP}[1].output_map.output__0`,
    'writes "y", which output "output__0" of a writes already',
  ],
  [
    'another type between steps',
    ensemble(chain({ model_name: 'ints' })),
    `${STEP}[1].input_map.input__0`,
    '"between" is TYPE_FP32 from output "output__0" of a, but TYPE_INT32 for input "input__0" of ints',
  ],
  [
    'another type than the client’s',
    ensemble([step()], { input: [tensor('x', 'TYPE_INT64')] }),
    `${STEP}[0].input_map.input__0`,
    '"x" is TYPE_INT64 from the ensemble\'s input, but TYPE_FP32 for',
  ],
  [
    'another shape than the client’s',
    ensemble([step()], { input: [tensor('x', 'TYPE_FP32', [5])] }),
    `${STEP}[0].input_map.input__0`,
    '"x" is [-1, 5] from',
  ],
  [
    'another type for the client',
    ensemble([step()], { output: [tensor('y', 'TYPE_BOOL')] }),
    'output[0]',
    '"y" is TYPE_FP32 from output "output__0" of a, but TYPE_BOOL for',
  ],
  [
    'another shape for the client',
    ensemble([step()], { output: [tensor('y', 'TYPE_FP32', [3, 3])] }),
    'output[0]',
    '"y" is [-1, 3] from',
  ],
  [
    'a step that waits for itself',
    ensemble([step(), step({ model_name: 'b', input_map: { input__0: 'z' }, output_map: { output__0: 'z' } })]),
    `${STEP}[1].input_map`,
    'never runs: it waits for z',
  ],
  ['no inputs', ensemble([step()], { input: undefined }), 'input', 'at least one is needed'],
  ['no outputs', ensemble([step()], { output: undefined }), 'output', 'at least one is needed'],
  [
    'a version that is not served',
    ensemble([step({ model_name: 'old', model_version: 1 })]),
    `${STEP}[0].model_version`,
    'is not among the versions that old serves, got 1; allowed: -1 for the newest, 2',
  ],
  [
    'answers of a decoupled model beside the request',
    ensemble([
      step({ model_name: 'stream', output_map: { output__0: 's' } }),
      step({ model_name: 'join', input_map: { input__0: 's', input__1: 'x' } }),
    ]),
    `${STEP}[1].input_map`,
    'joins "s" and "x", which come from different decoupled models',
  ],
  [
    'answers of two decoupled models',
    ensemble([
      step({ model_name: 'stream', output_map: { output__0: 's' } }),
      step({ model_name: 'nested', input_map: { x: 'x' }, output_map: { y: 't' } }),
      step({ model_name: 'join', input_map: { input__0: 's', input__1: 't' } }),
    ]),
    `${STEP}[2].input_map`,
    'joins "s" and "t", which come from different decoupled models',
  ],
  [
    'outputs of which one is decoupled',
    ensemble([step(), step({ model_name: 'stream', output_map: { output__0: 'z' } })], {
      output: [tensor('y'), tensor('z')],
    }),
    'output',
    'joins "y" and "z", which come from different decoupled models',
  ],
  [
    'two readers of another shape, where the writer says none',
    ensemble(
      [
        step({ model_name: 'any', output_map: { output__0: 'between' } }),
        step({ model_name: 'five', input_map: { input__0: 'between' } }),
        step({ model_name: 'b', input_map: { input__0: 'between' }, output_map: { output__0: 'z' } }),
      ],
      { output: [tensor('between', 'TYPE_FP32', [5]), tensor('y'), tensor('z')] },
    ),
    `${STEP}[2].input_map.input__0`,
    '"between" is [-1, 5] for the ensemble\'s output, but [-1, 3] for input "input__0" of b',
  ],
];

/** Mistakes that necessarily cause two problems. */
const TWO_FOLLOW = new Set(['no inputs', 'no outputs']);

/** Ensembles with wrong connections, as model.yaml and as config.pbtxt. */
export const ENSEMBLE_CASES: readonly MalformedCase[] = ensembleCases();

function ensembleCases(): MalformedCase[] {
  const parts = Object.fromEntries(
    Object.entries(PARTS).flatMap(([name, config]) => [
      [`${name}/model.yaml`, JSON.stringify(config)],
      // The version folder of an ensemble has no model file.
      [`${name}/1/${name === 'nested' ? '.keep' : 'model.pt'}`, torchScript()],
    ]),
  ) as Record<string, Malformed>;
  for (const version of [1, 2]) parts[`old/${version}/model.pt`] = torchScript();
  parts['old/model.yaml'] = JSON.stringify(PART);
  return ENSEMBLES.flatMap(([name, config, field, says]) => {
    const given = Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined));
    const problems = TWO_FOLLOW.has(name) ? 2 : 1;
    return [
      {
        name: `an ensemble in model.yaml: ${name}`,
        files: { ...parts, 'm/model.yaml': JSON.stringify(given), 'm/1/.keep': '.' },
        problem: begins(`m/model.yaml: ${field}: ${says}`),
        problems,
      },
      {
        name: `an ensemble in config.pbtxt: ${name}`,
        files: {
          ...parts,
          'm/config.pbtxt': configText(JSON.parse(JSON.stringify(given)) as ModelConfig),
          'm/1/.keep': '.',
        },
        problem: begins(`m/config.pbtxt: ${field}: ${says}`),
        problems,
      },
    ];
  });
}
