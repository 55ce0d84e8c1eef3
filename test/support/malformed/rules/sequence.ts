import { positionHint, type Fields, type RuleCase } from '../case';

const sequence = (fields: Fields): Fields => ({ sequence_batching: { direct: {}, ...fields } });
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

/** Sequences: their number and their state between requests. */
export const SEQUENCE: readonly RuleCase[] = [
  [
    sequence({ direct: undefined, oldest: { preferred_batch_size: [9] } }),
    'sequence_batching.oldest.preferred_batch_size[0]: does not fit max_batch_size 8, got 9; allowed: 1 to 8',
  ],
  [state({}, { name: undefined }), 'sequence_batching.state[0].initial_state[0].name: is missing'],
  [
    state({}, { data_type: 'TYPE_INT32' }),
    'sequence_batching.state[0].initial_state[0].data_type: differs from the data type of the state, got TYPE_INT32; allowed: TYPE_FP32',
  ],
  [
    state({}, { dims: [3] }),
    'sequence_batching.state[0].initial_state[0].dims: does not match the shape of the state, got [3]; allowed: [2]',
  ],
  [
    state({}, { dims: [-1] }),
    'sequence_batching.state[0].initial_state[0].dims: must contain sizes only, got [-1]; allowed: 1 or more each',
  ],
  [
    state({ dims: [-1] }, { dims: [2 ** 40] }),
    'sequence_batching.state[0].initial_state[0].dims: is too large for the memory of a server, got [1099511627776]; allowed: at most 268435456 elements',
  ],
  [
    state({}, { zero_data: undefined }),
    'sequence_batching.state[0].initial_state[0]: has no values; allowed: one of zero_data: true, data_file',
  ],
  [
    state({}, { zero_data: undefined, data_file: 'zeros' }),
    'sequence_batching.state[0].initial_state[0].data_file: names a file that is not in the model folder: "initial_state/zeros"\n    -> put it at m/initial_state/zeros',
  ],
  [
    state({ initial_state: Array(2).fill({ name: 'z', data_type: 'TYPE_FP32', dims: [2], zero_data: true }) }),
    'sequence_batching.state[0].initial_state: must have one entry, got 2',
  ],
  [
    sequence({ direct: undefined, oldest: { max_candidate_sequences: 1_000_000 } }),
    'sequence_batching.oldest.max_candidate_sequences: allows too many concurrent sequences, got 1000000; allowed: at most 100000 with sequence_batching',
  ],
  [
    { max_batch_size: 1_000_000, ...sequence({}) },
    'max_batch_size: allows too many concurrent sequences, got 1000000; allowed: at most 100000 with sequence_batching',
  ],
  [
    { max_batch_size: 0, sequence_batching: { oldest: { preferred_batch_size: [1] } } },
    'sequence_batching.oldest.preferred_batch_size[0]: does not fit max_batch_size 0, got 1; allowed: none without a batch axis',
  ],
  [
    { sequence_batching: { control_input: [{ name: 'START__2' }] } },
    `sequence_batching.control_input[0].name: skips a position, got "START__2"; allowed: input__0 to input__1${positionHint('input')}`,
  ],
];
