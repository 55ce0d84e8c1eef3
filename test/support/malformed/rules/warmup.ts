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
  {
    name: 'a warm-up that is skipped',
    fields: warmup({ batch_size: undefined }),
    problems: 'model_warmup[0].batch_size: is 0, so Triton skips this warm-up\n    -> set batch_size: 1',
  },
  {
    name: 'a warm-up in too large a batch',
    fields: warmup({ batch_size: 9 }),
    problems: 'model_warmup[0].batch_size: is more than max_batch_size 8 allows, got 9; allowed: 1 to 8',
  },
  {
    name: 'a warm-up without end',
    fields: warmup({ count: 4_000_000_000 }),
    problems: 'model_warmup[0].count: repeats the warm-up too often, got 4000000000; allowed: 0 to 100000',
  },
  {
    name: 'a warm-up of no input',
    fields: warmup({ inputs: undefined }),
    problems: 'model_warmup[0].inputs: has no value for the input "input__0"',
  },
  {
    name: 'a warm-up of another type',
    fields: warmup({}, { data_type: 'TYPE_INT64' }),
    problems:
      'model_warmup[0].inputs.input__0.data_type: differs from the data type of the input, got TYPE_INT64; allowed: TYPE_FP32',
  },
  {
    name: 'a warm-up of another shape',
    fields: warmup({}, { dims: [4] }),
    problems: 'model_warmup[0].inputs.input__0.dims: does not match the shape of the input, got [4]; allowed: [3]',
  },
  {
    name: 'a warm-up of any size',
    fields: warmup({}, { dims: [-1] }),
    problems: 'model_warmup[0].inputs.input__0.dims: must contain sizes only, got [-1]; allowed: 1 or more each',
  },
  {
    name: 'a warm-up of a terabyte',
    fields: { input: [input({ dims: [-1] })], ...warmup({}, { dims: [2 ** 40] }) },
    problems:
      'model_warmup[0].inputs.input__0.dims: is too large for the memory of a server, got [1099511627776]; allowed: at most 268435456 elements',
  },
  {
    name: 'a warm-up without values',
    fields: warmup({}, { zero_data: undefined }),
    problems:
      'model_warmup[0].inputs.input__0: has no values; allowed: one of zero_data: true, random_data: true, input_data_file',
  },
  {
    name: 'a warm-up file that is not there',
    fields: warmup({}, { zero_data: undefined, input_data_file: 'a.bin' }),
    problems:
      'model_warmup[0].inputs.input__0.input_data_file: names a file that is not in the model folder: "warmup/a.bin"\n    -> put it at m/warmup/a.bin',
  },
  {
    name: 'a warm-up of two without a batch axis',
    fields: { max_batch_size: 0, ...warmup({ batch_size: 2 }) },
    problems: 'model_warmup[0].batch_size: is more than max_batch_size 0 allows, got 2; allowed: 1 to 1',
  },
  {
    name: 'a warm-up of a misspelt input',
    fields: warmup({ inputs: { input_0: { data_type: 'TYPE_FP32', dims: [3], zero_data: true } } }),
    problems: [
      'model_warmup[0].inputs.input_0: is not an input of the model; allowed: input__0\n    -> did you mean "input__0"?',
      'model_warmup[0].inputs: has no value for the input "input__0"',
    ],
  },
];
