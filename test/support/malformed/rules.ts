import { configText, type ModelConfig } from '../../../scripts/lib/model';
import { torchScript } from '../../unit/model/helpers';
import { ARTIFACT, begins, input, output, sound, type Fields, type MalformedCase } from './case';

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
const sequence = (fields: Fields): Fields => ({ sequence_batching: { direct: {}, ...fields } });
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

/** Fields in place of the sound ones, the field that is named, and what is said of it. */
const RULES: [name: string, fields: Fields, field: string, says: string][] = [
  ['another name', { name: 'n' }, 'name', 'must be the name of the folder, got "n"'],
  ['an unknown platform', { platform: 'caffe' }, 'platform', 'is not a platform of Triton\'s, got "caffe"'],
  ['a backend as platform', { platform: 'pytorch' }, 'platform', "is not a platform of Triton's"],
  ['a misspelt platform', { platform: 'onnxruntime_onxx' }, 'platform', "is not a platform of Triton's"],
  ['an empty platform', { platform: '', backend: '', default_model_filename: 'x' }, 'platform', 'is missing'],
  [
    'a backend of another platform',
    { backend: 'onnxruntime' },
    'backend',
    'does not serve the platform pytorch_libtorch, got "onnxruntime"',
  ],
  [
    'a file above',
    { default_model_filename: '../model.pt' },
    'default_model_filename',
    'must name a file in the version folder',
  ],
  [
    'a file elsewhere',
    { default_model_filename: '/etc/passwd' },
    'default_model_filename',
    'must name a file in the version folder',
  ],
  [
    'a file above for one GPU',
    { cc_model_filenames: { '8.0': '../x' } },
    'cc_model_filenames["8.0"]',
    'must name a file in the version folder',
  ],
  [
    'steps of no ensemble',
    {
      ensemble_scheduling: {
        step: [
          {
            model_name: 'm',
            model_version: -1,
            input_map: { input__0: 'input__0' },
            output_map: { output__0: 'output__0' },
          },
        ],
      },
    },
    'ensemble_scheduling',
    'is for platform ensemble alone',
  ],
  ['no agents', { model_repository_agents: {} }, 'model_repository_agents', 'names no agent'],
  [
    'an agent without a name',
    { model_repository_agents: { agents: [{}] } },
    'model_repository_agents.agents[0].name',
    'is missing',
  ],
  ['no inputs', { input: undefined }, 'input', 'at least one is needed'],
  ['no outputs', { output: undefined }, 'output', 'at least one is needed'],
  ['an input without a name', { input: [input({ name: undefined })] }, 'input[0].name', 'is missing'],
  ['an output with an empty name', { output: [output({ name: '' })] }, 'output[0].name', 'is missing'],
  [
    'a name twice',
    { backend: 'python', platform: undefined, input: [input(), input()] },
    'input[1].name',
    'is the name of input[0] too',
  ],
  [
    'an output name twice',
    { backend: 'python', platform: undefined, output: [output(), output()] },
    'output[1].name',
    'is the name of output[0] too',
  ],
  ['no data type', { input: [input({ data_type: undefined })] }, 'input[0].data_type', 'is missing'],
  [
    'the type of nothing',
    { output: [output({ data_type: 'TYPE_INVALID' })] },
    'output[0].data_type',
    'stands for no type at all',
  ],
  ['no dims', { input: [input({ dims: undefined })] }, 'input[0].dims', 'is missing'],
  ['a size of 0', { input: [input({ dims: [3, 0] })] }, 'input[0].dims[1]', 'is not a size, got 0'],
  ['a size below -1', { output: [output({ dims: [-2] })] }, 'output[0].dims[0]', 'is not a size, got -2'],
  [
    'a reshape to fewer',
    { input: [input({ dims: [2, 3], reshape: { shape: [5] } })] },
    'input[0].reshape.shape',
    'holds another number of elements than dims',
  ],
  [
    'a reshape across any size',
    { input: [input({ dims: [2, -1, 3], reshape: { shape: [3, -1, 2] } })] },
    'input[0].reshape.shape',
    'holds another number',
  ],
  [
    'a reshape that loses any size',
    { output: [output({ dims: [-1, 2], reshape: { shape: [2] } })] },
    'output[0].reshape.shape',
    'holds another number',
  ],
  [
    'a reshape to a size of 0',
    { input: [input({ dims: [1], reshape: { shape: [0] } })] },
    'input[0].reshape.shape[0]',
    'is not a size, got 0',
  ],
  [
    'a reshape to nothing',
    { max_batch_size: 0, input: [input({ dims: [1], reshape: {} })] },
    'input[0].reshape.shape',
    'is empty, which needs a batch axis',
  ],
  [
    'an image of two axes',
    { input: [input({ dims: [3, 4], format: 'FORMAT_NCHW' })] },
    'input[0].dims',
    'FORMAT_NCHW needs 3 of them',
  ],
  [
    'an image of four axes',
    { input: [input({ dims: [1, 3, 4, 4], format: 'FORMAT_NHWC' })] },
    'input[0].dims',
    'FORMAT_NHWC needs 3 of them',
  ],
  [
    'a shape tensor',
    { input: [input({ is_shape_tensor: true })] },
    'input[0].is_shape_tensor',
    'is for platform tensorrt_plan alone',
  ],
  [
    'a format of TensorRT',
    { output: [output({ is_non_linear_format_io: true })] },
    'output[0].is_non_linear_format_io',
    'is for platform tensorrt_plan alone',
  ],
  [
    'a type that libtorch has not',
    { input: [input({ data_type: 'TYPE_UINT16' })] },
    'input[0].data_type',
    "is not a type of Triton's libtorch backend",
  ],
  [
    'texts in two axes',
    { input: [input({ data_type: 'TYPE_STRING' })] },
    'input[0].dims',
    'a text input of libtorch has one axis in all',
  ],
  ['a position that is left out', { input: [input({ name: 'input__1' })] }, 'input[0].name', 'leaves positions out'],
  [
    'a position twice',
    { output: [output(), output({ name: 'mask__0' })] },
    'output[1].name',
    'has the same position as output[0]',
  ],
  ['a negative batch size', { max_batch_size: -1 }, 'max_batch_size', 'must not be negative, got -1'],
  [
    'dynamic batching without a batch axis',
    { max_batch_size: 0, dynamic_batching: {} },
    'dynamic_batching',
    'has no effect: max_batch_size is 0',
  ],
  [
    'a preferred size of 0',
    { dynamic_batching: { preferred_batch_size: [0] } },
    'dynamic_batching.preferred_batch_size[0]',
    'does not fit max_batch_size 8, got 0',
  ],
  [
    'a preferred size above the largest',
    { dynamic_batching: { preferred_batch_size: [4, 9] } },
    'dynamic_batching.preferred_batch_size[1]',
    'does not fit max_batch_size 8, got 9',
  ],
  [
    'a negative preferred size',
    { dynamic_batching: { preferred_batch_size: [-4] } },
    'dynamic_batching.preferred_batch_size[0]',
    'does not fit',
  ],
  [
    'no default priority',
    { dynamic_batching: { priority_levels: 2 } },
    'dynamic_batching.default_priority_level',
    'is not one of the priority_levels, got 0',
  ],
  [
    'a default priority above all',
    { dynamic_batching: { priority_levels: 2, default_priority_level: 3 } },
    'dynamic_batching.default_priority_level',
    'is not one of the priority_levels, got 3',
  ],
  [
    'a policy for no priority',
    { dynamic_batching: { priority_levels: 2, default_priority_level: 1, priority_queue_policy: { 3: {} } } },
    'dynamic_batching.priority_queue_policy["3"]',
    'is not one of the priority_levels',
  ],
  [
    'priorities in order',
    { dynamic_batching: { preserve_ordering: true, priority_levels: 2, default_priority_level: 1 } },
    'dynamic_batching.priority_levels',
    'preserve_ordering allows one',
  ],
  [
    'delays in order',
    {
      dynamic_batching: {
        preserve_ordering: true,
        default_queue_policy: { timeout_action: 'DELAY', default_timeout_microseconds: 1 },
      },
    },
    'dynamic_batching.default_queue_policy.timeout_action',
    'must not be DELAY',
  ],
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
  [
    'cached answers of a decoupled model',
    { model_transaction_policy: { decoupled: true }, response_cache: { enable: true } },
    'response_cache.enable',
    'cannot stand beside a decoupled',
  ],
  [
    'a metric without a family',
    { model_metrics: { metric_control: [{ histogram_options: { buckets: [1] } }] } },
    'model_metrics.metric_control[0].metric_identifier.family',
    'is missing',
  ],
  [
    'a metric without buckets',
    { model_metrics: { metric_control: [{ metric_identifier: { family: 'f' } }] } },
    'model_metrics.metric_control[0].histogram_options.buckets',
    'is missing',
  ],
  [
    'a batch input of another type',
    { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', data_type: 'TYPE_INT64', source_input: ['input__0'] }] },
    'batch_input[0].data_type',
    'is no type of a batch input, got TYPE_INT64',
  ],
  [
    'a batch input without a type',
    { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', source_input: ['input__0'] }] },
    'batch_input[0].data_type',
    'is missing',
  ],
  [
    'a batch input of nothing',
    { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', data_type: 'TYPE_FP32' }] },
    'batch_input[0].source_input',
    'must name one input, got 0',
  ],
  [
    'a batch input of two',
    { batch_input: [{ data_type: 'TYPE_FP32', source_input: ['input__0', 'input__0'] }] },
    'batch_input[0].source_input',
    'must name one input, got 2',
  ],
  [
    'a batch input of no input',
    { batch_input: [{ data_type: 'TYPE_FP32', source_input: ['input__9'] }] },
    'batch_input[0].source_input[0]',
    'is not an input of the model, got "input__9"',
  ],
  [
    'a batch output of no input',
    { batch_output: [{ source_input: ['x'], target_name: ['output__0'] }] },
    'batch_output[0].source_input[0]',
    'is not an input of the model',
  ],
  [
    'a batch output to no output',
    { batch_output: [{ source_input: ['input__0'], target_name: ['x'] }] },
    'batch_output[0].target_name[0]',
    'is not an output of the model',
  ],
  [
    'a batch output twice',
    { batch_output: [{ source_input: ['input__0'], target_name: ['output__0', 'output__0'] }] },
    'batch_output[0].target_name[1]',
    'is named twice',
  ],
  ['a negative count', { instance_group: [{ count: -1 }] }, 'instance_group[0].count', 'must not be negative, got -1'],
  [
    'a million instances',
    { instance_group: [{ count: 1_000_000 }] },
    'instance_group[0].count',
    'is more than any server can run',
  ],
  [
    'GPUs of the CPU',
    { instance_group: [{ kind: 'KIND_CPU', gpus: [0] }] },
    'instance_group[0].gpus',
    'cannot stand beside KIND_CPU',
  ],
  [
    'GPUs of the model',
    { instance_group: [{ kind: 'KIND_MODEL', gpus: [0] }] },
    'instance_group[0].gpus',
    'cannot stand beside KIND_MODEL',
  ],
  [
    'a negative GPU',
    { instance_group: [{ kind: 'KIND_GPU', gpus: [0, -1] }] },
    'instance_group[0].gpus[1]',
    "is no GPU's number, got -1",
  ],
  [
    'a profile outside TensorRT',
    { instance_group: [{ profile: ['0'] }] },
    'instance_group[0].profile',
    'is for platform tensorrt_plan alone',
  ],
  [
    'the newest 0 versions',
    { version_policy: { latest: {} } },
    'version_policy.latest.num_versions',
    'must be at least 1, got 0',
  ],
  [
    'no version in particular',
    { version_policy: { specific: {} } },
    'version_policy.specific.versions',
    'names no version',
  ],
  [
    'a version that is not there',
    { version_policy: { specific: { versions: [1, 2] } } },
    'version_policy.specific.versions[1]',
    'has no version folder, got 2',
  ],
  [
    'version 0',
    { version_policy: { specific: { versions: [0] } } },
    'version_policy.specific.versions[0]',
    'has no version folder, got 0',
  ],
  [
    'version -1',
    { version_policy: { specific: { versions: [-1] } } },
    'version_policy.specific.versions[0]',
    'has no version folder, got -1',
  ],
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
  [
    'labels that are not there',
    { output: [output({ label_filename: 'labels.txt' })] },
    'output[0].label_filename',
    'names a file that is not in the model folder',
  ],
  [
    'labels elsewhere',
    { output: [output({ label_filename: '../labels.txt' })] },
    'output[0].label_filename',
    'leaves the model folder',
  ],
  [
    'a parameter that leaves the folder',
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/../x' } } },
    'parameters.p.string_value',
    'leaves the model folder',
  ],
  [
    'a parameter that names no file',
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/x' } } },
    'parameters.p.string_value',
    'names a file that is not in the model folder',
  ],
];

/** What Triton refuses of a configuration that can be read, in both languages. */
export const RULE_CASES: readonly MalformedCase[] = RULES.flatMap(([name, fields, field, says]) => {
  const config = sound(fields);
  const artifacts = { ...ARTIFACT, 'm/1/model.py': 'x', 'm/1/x': torchScript() };
  return [
    {
      name: `model.yaml: ${name}`,
      files: { ...artifacts, 'm/model.yaml': JSON.stringify(config) },
      problem: begins(`m/model.yaml: ${field}: ${says}`),
    },
    {
      name: `config.pbtxt: ${name}`,
      files: { ...artifacts, 'm/config.pbtxt': configText(config as unknown as ModelConfig) },
      problem: begins(`m/config.pbtxt: ${field}: ${says}`),
    },
  ];
});
