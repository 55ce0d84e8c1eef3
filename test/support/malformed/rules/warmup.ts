import { input, type Fields, type RuleCase } from '../case';

export const warmup = (fields: Fields = {}, tensor: Fields = {}): Fields => ({
  model_warmup: [
    {
      name: 'w',
      batch_size: 1,
      inputs: { input__0: { data_type: 'TYPE_FP32', dims: [3], zero_data: true, ...tensor } },
      ...fields,
    },
  ],
});

/** The requests that Triton sends before it reports a model as READY. */
export const WARMUP: readonly RuleCase[] = [
  [
    warmup({ batch_size: undefined }),
    'model_warmup[0].batch_size: is 0, so Triton skips this warm-up\n    -> set batch_size: 1',
  ],
  [
    warmup({ batch_size: 9 }),
    'model_warmup[0].batch_size: is more than max_batch_size 8 allows, got 9; allowed: 1 to 8',
  ],
  [
    warmup({ count: 4_000_000_000 }),
    'model_warmup[0].count: repeats the warm-up too often, got 4000000000; allowed: 0 to 100000',
  ],
  [warmup({ inputs: undefined }), 'model_warmup[0].inputs: has no value for the input "input__0"'],
  [
    warmup({}, { data_type: 'TYPE_INT64' }),
    'model_warmup[0].inputs.input__0.data_type: differs from the data type of the input, got TYPE_INT64; allowed: TYPE_FP32',
  ],
  [
    warmup({}, { dims: [4] }),
    'model_warmup[0].inputs.input__0.dims: does not match the shape of the input, got [4]; allowed: [3]',
  ],
  [
    warmup({}, { dims: [-1] }),
    'model_warmup[0].inputs.input__0.dims: must contain sizes only, got [-1]; allowed: 1 or more each',
  ],
  [
    { input: [input({ dims: [-1] })], ...warmup({}, { dims: [2 ** 40] }) },
    'model_warmup[0].inputs.input__0.dims: is too large for the memory of a server, got [1099511627776]; allowed: at most 268435456 elements',
  ],
  [
    warmup({}, { zero_data: undefined }),
    'model_warmup[0].inputs.input__0: has no values; allowed: one of zero_data: true, random_data: true, input_data_file',
  ],
  [
    warmup({}, { zero_data: undefined, input_data_file: 'a.bin' }),
    'model_warmup[0].inputs.input__0.input_data_file: names a file that is not in the model folder: "warmup/a.bin"\n    -> put it at m/warmup/a.bin',
  ],
  [
    { max_batch_size: 0, ...warmup({ batch_size: 2 }) },
    'model_warmup[0].batch_size: is more than max_batch_size 0 allows, got 2; allowed: 1 to 1',
  ],
  [
    warmup({ inputs: { input_0: { data_type: 'TYPE_FP32', dims: [3], zero_data: true } } }),
    [
      'model_warmup[0].inputs.input_0: is not an input of the model; allowed: input__0\n    -> did you mean "input__0"?',
      'model_warmup[0].inputs: has no value for the input "input__0"',
    ],
  ],
];
