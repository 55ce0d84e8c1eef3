import { input, type Fields, type RuleRow } from '../case';

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
export const WARMUP: readonly RuleRow[] = [
  [
    'a warm-up that is skipped',
    warmup({ batch_size: undefined }),
    'model_warmup[0].batch_size',
    'is 0: Triton skips this warm-up',
  ],
  [
    'a warm-up in too large a batch',
    warmup({ batch_size: 9 }),
    'model_warmup[0].batch_size',
    'is more than max_batch_size 8 allows, got 9',
  ],
  [
    'a warm-up without end',
    warmup({ count: 4_000_000_000 }),
    'model_warmup[0].count',
    'would keep the model from being served',
  ],
  [
    'a warm-up of no input',
    warmup({ inputs: undefined }),
    'model_warmup[0].inputs',
    'gives no value for the input "input__0"',
  ],
  [
    'a warm-up of another type',
    warmup({}, { data_type: 'TYPE_INT64' }),
    'model_warmup[0].inputs.input__0.data_type',
    "differs from the input's, got TYPE_INT64",
  ],
  [
    'a warm-up of another shape',
    warmup({}, { dims: [4] }),
    'model_warmup[0].inputs.input__0.dims',
    'is no shape of the input, got [4]',
  ],
  [
    'a warm-up of any size',
    warmup({}, { dims: [-1] }),
    'model_warmup[0].inputs.input__0.dims',
    'must be sizes, got [-1]',
  ],
  [
    'a warm-up of a terabyte',
    { input: [input({ dims: [-1] })], ...warmup({}, { dims: [2 ** 40] }) },
    'model_warmup[0].inputs.input__0.dims',
    'is larger than a server has memory for',
  ],
  [
    'a warm-up without values',
    warmup({}, { zero_data: undefined }),
    'model_warmup[0].inputs.input__0',
    'says no values',
  ],
  [
    'a warm-up file that is not there',
    warmup({}, { zero_data: undefined, input_data_file: 'a.bin' }),
    'model_warmup[0].inputs.input__0.input_data_file',
    'names a file that is not in the model folder',
  ],
];
