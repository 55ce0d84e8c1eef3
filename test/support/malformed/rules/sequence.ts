import { type Fields, type RuleRow } from '../case';

export const sequence = (fields: Fields): Fields => ({ sequence_batching: { direct: {}, ...fields } });
const control = (...controls: Fields[]): Fields => sequence({ control_input: [{ name: 'c__1', control: controls }] });
const start = { kind: 'CONTROL_SEQUENCE_START', int32_false_true: [0, 1] };
export const state = (fields: Fields = {}, initial: Fields = {}): Fields =>
  sequence({
    state: [
      {
        ...{ input_name: 's__1', output_name: 't__1', data_type: 'TYPE_FP32', dims: [2] },
        initial_state: [{ name: 'z', data_type: 'TYPE_FP32', dims: [2], zero_data: true, ...initial }],
        ...fields,
      },
    ],
  });

/** Sequences: their controls and their state between requests. */
export const SEQUENCE: readonly RuleRow[] = [
  [
    'a preferred size of sequences',
    sequence({ direct: undefined, oldest: { preferred_batch_size: [9] } }),
    'sequence_batching.oldest.preferred_batch_size[0]',
    'does not fit',
  ],
  [
    'a use of slots above 1',
    sequence({ direct: { minimum_slot_utilization: 1.5 } }),
    'sequence_batching.direct.minimum_slot_utilization',
    'is not a fraction, got 1.5',
  ],
  [
    'a use of slots below 0',
    sequence({ direct: { minimum_slot_utilization: -0.5 } }),
    'sequence_batching.direct.minimum_slot_utilization',
    'is not a fraction, got -0.5',
  ],
  [
    'a control without a name',
    sequence({ control_input: [{ control: [start] }] }),
    'sequence_batching.control_input[0].name',
    'is missing',
  ],
  [
    'a control twice',
    control(start, start),
    'sequence_batching.control_input[0].control[1].kind',
    'is given by sequence_batching.control_input[0].control[0] too',
  ],
  [
    'a control without values',
    control({ kind: 'CONTROL_SEQUENCE_END' }),
    'sequence_batching.control_input[0].control[0]',
    'says no values for false and true',
  ],
  [
    'a control with one value',
    control({ kind: 'CONTROL_SEQUENCE_READY', fp32_false_true: [0] }),
    'sequence_batching.control_input[0].control[0].fp32_false_true',
    'must be the value for false and the one for true, got 1',
  ],
  [
    'a control of two types',
    control({ ...start, bool_false_true: [false, true] }),
    'sequence_batching.control_input[0].control[0].bool_false_true',
    'cannot stand beside int32_false_true',
  ],
  [
    'a correlation id without a type',
    control({ kind: 'CONTROL_SEQUENCE_CORRID' }),
    'sequence_batching.control_input[0].control[0].data_type',
    'is no type of a correlation id, got nothing',
  ],
  [
    'a correlation id that is a fraction',
    control({ kind: 'CONTROL_SEQUENCE_CORRID', data_type: 'TYPE_FP32' }),
    'sequence_batching.control_input[0].control[0].data_type',
    'is no type of a correlation id, got TYPE_FP32',
  ],
  [
    'a correlation id with values',
    control({ kind: 'CONTROL_SEQUENCE_CORRID', data_type: 'TYPE_UINT64', int32_false_true: [0, 1] }),
    'sequence_batching.control_input[0].control[0].int32_false_true',
    'cannot be given for a correlation id',
  ],
  [
    'an initial state without a name',
    state({}, { name: undefined }),
    'sequence_batching.state[0].initial_state[0].name',
    'is missing',
  ],
  [
    'an initial state of another type',
    state({}, { data_type: 'TYPE_INT32' }),
    'sequence_batching.state[0].initial_state[0].data_type',
    "differs from the state's, got TYPE_INT32",
  ],
  [
    'an initial state of another shape',
    state({}, { dims: [3] }),
    'sequence_batching.state[0].initial_state[0].dims',
    'is no shape of the state, got [3]',
  ],
  [
    'an initial state of any size',
    state({}, { dims: [-1] }),
    'sequence_batching.state[0].initial_state[0].dims',
    'must be sizes, got [-1]',
  ],
  [
    'an initial state of a terabyte',
    state({ dims: [-1] }, { dims: [2 ** 40] }),
    'sequence_batching.state[0].initial_state[0].dims',
    'is larger than a server has memory for',
  ],
  [
    'an initial state without values',
    state({}, { zero_data: undefined }),
    'sequence_batching.state[0].initial_state[0]',
    'says no values',
  ],
  [
    'an initial state that is not there',
    state({}, { zero_data: undefined, data_file: 'zeros' }),
    'sequence_batching.state[0].initial_state[0].data_file',
    'names a file that is not in the model folder',
  ],
  [
    'two initial states',
    state({ initial_state: Array(2).fill({ name: 'z', data_type: 'TYPE_FP32', dims: [2], zero_data: true }) }),
    'sequence_batching.state[0].initial_state',
    'must be one, got 2',
  ],
  [
    'too many sequences',
    sequence({ direct: undefined, oldest: { max_candidate_sequences: 1_000_000 } }),
    'sequence_batching.oldest.max_candidate_sequences',
    'is the number of sequences that are kept at a time',
  ],
  [
    'too many slots',
    { max_batch_size: 1_000_000, ...sequence({}) },
    'max_batch_size',
    'is the number of sequences that are kept at a time',
  ],
  [
    'a batching library beside sequences',
    { ...sequence({}), parameters: { TRITON_BATCH_STRATEGY_PATH: { string_value: '/x.so' } } },
    'parameters.TRITON_BATCH_STRATEGY_PATH',
    'cannot stand beside sequence_batching',
  ],
  [
    'cached answers of sequences',
    { ...sequence({}), response_cache: { enable: true } },
    'response_cache.enable',
    'cannot stand beside sequence_batching',
  ],
];
