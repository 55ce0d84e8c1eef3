import { modelYaml, problemsOf, removeFolders } from '../../support/model-files';

afterAll(removeFolders);

type Fields = Record<string, unknown>;
const input = (fields: Fields = {}): Fields => ({ name: 'input__0', data_type: 'TYPE_FP32', dims: [3], ...fields });
const output = (fields: Fields = {}): Fields => ({ name: 'output__0', data_type: 'TYPE_FP32', dims: [4], ...fields });
const warmup = (fields: Fields = {}, tensor: Fields = {}): Fields => ({
  model_warmup: [
    {
      name: 'w',
      batch_size: 1,
      inputs: { input__0: { data_type: 'TYPE_FP32', dims: [3], zero_data: true, ...tensor } },
      ...fields,
    },
  ],
});

const PLATFORMS =
  'pytorch_libtorch, torch_aoti, tensorrt_plan, onnxruntime_onnx, tensorflow_savedmodel, tensorflow_graphdef, ensemble';
const TYPES =
  'TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, ' +
  'TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_STRING, TYPE_BF16';
const LIBTORCH_TYPES =
  'TYPE_BOOL, TYPE_UINT8, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_STRING';
const SIZES = '1 or more, or -1 for any size';
const DIMS_HINT =
  '\n    -> a single number has dims: [1]; the batch axis is not written where max_batch_size is more than 0';
const POSITIONS = (side: string): string =>
  `\n    -> TorchScript keeps no names: name them by position, ${side}__0, ${side}__1, ...`;

describe('rules for one model', () => {
  it.each<[title: string, fields: Fields, problems: string[]]>([
    // What it is called and what serves it.
    [
      'another name',
      { name: 'n' },
      ['name: must be the name of the folder, got "n"; allowed: "m"\n    -> leave the line out, or rename the folder'],
    ],
    [
      'no platform',
      { platform: undefined },
      [
        `platform: is missing; allowed: ${PLATFORMS}\n    -> or give a backend, for example pytorch, tensorrt, onnxruntime, python, openvino`,
      ],
    ],
    [
      'a misspelt platform',
      { platform: 'tensorrt_plam' },
      [
        `platform: is not a platform of Triton's, got "tensorrt_plam"; allowed: ${PLATFORMS}\n    -> did you mean "tensorrt_plan"?`,
      ],
    ],
    [
      'a backend as platform',
      { platform: 'pytorch' },
      [
        `platform: is not a platform of Triton's, got "pytorch"; allowed: ${PLATFORMS}\n    -> pytorch_libtorch is meant, or "backend: pytorch"`,
      ],
    ],
    [
      'a layout of TensorRT without three dims',
      {
        platform: 'tensorrt_plan',
        input: [input({ is_non_linear_format_io: true, dims: [1, 2, 3] })],
        output: [output({ is_non_linear_format_io: true, dims: [1] })],
      },
      ['output[0].dims: is_non_linear_format_io needs 3 of them, got 1'],
    ],
    [
      'a delay of one priority beside preserve_ordering',
      {
        dynamic_batching: {
          preserve_ordering: true,
          priority_levels: 1,
          default_priority_level: 1,
          priority_queue_policy: { 1: { timeout_action: 'DELAY', default_timeout_microseconds: 1 } },
        },
      },
      [
        'dynamic_batching.priority_queue_policy["1"].timeout_action: must not be DELAY beside preserve_ordering; allowed: REJECT',
      ],
    ],
    ...['onnx', 'ONNX', 'ort'].map((platform): [string, Record<string, unknown>, string[]] => [
      `a platform as people call it, ${platform}`,
      { platform },
      [
        `platform: is not a platform of Triton's, got "${platform}"; allowed: ${PLATFORMS}\n    -> onnxruntime_onnx is meant`,
      ],
    ]),
    [
      'a platform of nobody',
      { platform: 'caffe' },
      [
        `platform: is not a platform of Triton's, got "caffe"; allowed: ${PLATFORMS}\n    -> for a backend of your own, write its name as "backend"`,
      ],
    ],
    [
      'a backend of another platform',
      { backend: 'onnxruntime' },
      ['backend: does not serve the platform pytorch_libtorch, got "onnxruntime"; allowed: pytorch'],
    ],
    [
      'an unknown platform of a known backend',
      { platform: 'foo', backend: 'tensorrt' },
      ['platform: is not served by the backend tensorrt, got "foo"; allowed: tensorrt_plan'],
    ],
    [
      'an ensemble with a backend',
      { platform: 'ensemble', backend: 'python' },
      [
        'backend: an ensemble has none, got "python"\n    -> remove the line',
        'ensemble_scheduling: is missing: it names the steps of the ensemble',
      ],
    ],
    [
      'steps without the platform',
      { ensemble_scheduling: { step: [] } },
      [
        'ensemble_scheduling: is for platform ensemble alone, got "pytorch_libtorch"\n    -> write "platform: ensemble"',
      ],
    ],
    [
      'a file elsewhere',
      { default_model_filename: '../x.pt', cc_model_filenames: { '8.0': '/x' } },
      [
        'cc_model_filenames["8.0"]: must name a file in the version folder, got "/x"',
        'default_model_filename: must name a file in the version folder, got "../x.pt"',
      ],
    ],
    // Inputs and outputs.
    [
      'no tensors',
      { input: undefined, output: [] },
      [
        'input: at least one is needed: pytorch_libtorch does not tell them',
        'output: at least one is needed: pytorch_libtorch does not tell them',
      ],
    ],
    ['a tensor with no name', { input: [input({ name: undefined })] }, ['input[0].name: is missing']],
    [
      'a name twice',
      { platform: 'onnxruntime_onnx', input: [input({ name: 'a' }), input({ name: 'a' })] },
      ['input[1].name: is the name of input[0] too, got "a"'],
    ],
    [
      'no data type',
      { input: [input({ data_type: undefined })] },
      [`input[0].data_type: is missing; allowed: ${TYPES}`],
    ],
    [
      'the type of nothing',
      { output: [output({ data_type: 'TYPE_INVALID' })] },
      [`output[0].data_type: stands for no type at all; allowed: ${TYPES}`],
    ],
    [
      'no dims',
      { input: [input({ dims: undefined })], output: [output({ dims: [] })] },
      [`input[0].dims: is missing${DIMS_HINT}`, `output[0].dims: is missing${DIMS_HINT}`],
    ],
    [
      'a size of 0 and one below -1',
      { input: [input({ dims: [3, 0, -2] })] },
      [
        `input[0].dims[1]: is not a size, got 0; allowed: ${SIZES}`,
        `input[0].dims[2]: is not a size, got -2; allowed: ${SIZES}`,
      ],
    ],
    [
      'a reshape to another number of elements',
      { input: [input({ dims: [2, 3], reshape: { shape: [5] } })] },
      [
        'input[0].reshape.shape: holds another number of elements than dims, got [5]; allowed: any shape with as many as [2, 3]',
      ],
    ],
    [
      'a reshape across an axis that varies',
      { input: [input({ dims: [2, -1, 3], reshape: { shape: [3, -1, 2] } })] },
      [
        'input[0].reshape.shape: holds another number of elements than dims, got [3, -1, 2]; allowed: any shape with as many as [2, -1, 3]',
      ],
    ],
    [
      'a reshape to a size of 0',
      { input: [input({ dims: [1], reshape: { shape: [0] } })] },
      [`input[0].reshape.shape[0]: is not a size, got 0; allowed: ${SIZES}`],
    ],
    [
      'a reshape to nothing without a batch axis',
      { max_batch_size: 0, input: [input({ dims: [1], reshape: {} })] },
      ['input[0].reshape.shape: is empty, which needs a batch axis: max_batch_size is 0'],
    ],
    [
      'an image format for two axes',
      { input: [input({ dims: [3, 4], format: 'FORMAT_NCHW' })] },
      ['input[0].dims: FORMAT_NCHW needs 3 of them (the batch axis not counted), got 2'],
    ],
    [
      'a shape tensor outside TensorRT',
      { output: [output({ is_shape_tensor: true })] },
      ['output[0].is_shape_tensor: is for platform tensorrt_plan alone'],
    ],
    // Names and types of TorchScript.
    [
      'an output without position',
      { output: [output({ name: 'logits' })] },
      [`output[0].name: does not end in a position, got "logits"; allowed: output__0${POSITIONS('output')}`],
    ],
    [
      'an input without position beside one that has it',
      { input: [input(), input({ name: 'mask' })] },
      [`input[1].name: does not end in a position, got "mask"; allowed: input__0 to input__1${POSITIONS('input')}`],
    ],
    [
      'a position that counts from 1',
      { input: [input({ name: 'input__1' })] },
      [`input[0].name: leaves positions out, got "input__1"; allowed: input__0${POSITIONS('input')}`],
    ],
    [
      'a position twice',
      { output: [output(), output({ name: 'mask__0' })] },
      ['output[1].name: has the same position as output[0], got "mask__0"; allowed: output__0 to output__1'],
    ],
    [
      'a name with two positions',
      { output: [output({ name: 'a__b__0' })] },
      [`output[0].name: does not end in a position, got "a__b__0"; allowed: output__0${POSITIONS('output')}`],
    ],
    [
      'a control of a sequence that leaves a position out',
      { sequence_batching: { control_input: [{ name: 'START__2' }] } },
      [
        `sequence_batching.control_input[0].name: leaves positions out, got "START__2"; allowed: input__0 to input__1${POSITIONS('input')}`,
      ],
    ],
    [
      'a type that libtorch has not',
      { input: [input({ data_type: 'TYPE_UINT16' })] },
      [
        `input[0].data_type: is not a type of Triton's libtorch backend, got TYPE_UINT16; allowed: ${LIBTORCH_TYPES}\n    -> convert inside the model`,
      ],
    ],
    [
      'a text of two axes',
      { input: [input({ data_type: 'TYPE_STRING' })] },
      [
        'input[0].dims: a text input of libtorch has one axis in all, got 2; allowed: dims: [-1] with max_batch_size: 0, or dims: [1] with reshape: { shape: [] }',
      ],
    ],
    // How requests are queued and where they run.
    [
      'a negative batch size',
      { max_batch_size: -1 },
      ['max_batch_size: must not be negative, got -1; allowed: 0 for no batch axis, or the largest batch'],
    ],
    [
      'dynamic batching without a batch axis',
      { max_batch_size: 0, dynamic_batching: { max_queue_delay_microseconds: 5 } },
      [
        'dynamic_batching: has no effect: max_batch_size is 0, so that requests cannot be joined\n    -> set max_batch_size and take the batch axis out of dims, or remove dynamic_batching',
      ],
    ],
    [
      'a preferred size of 0 and one too large',
      { dynamic_batching: { preferred_batch_size: [0, 8, 9] } },
      [
        'dynamic_batching.preferred_batch_size[0]: does not fit max_batch_size 8, got 0; allowed: 1 to 8',
        'dynamic_batching.preferred_batch_size[2]: does not fit max_batch_size 8, got 9; allowed: 1 to 8',
      ],
    ],
    [
      'a preferred size without a batch axis',
      { max_batch_size: 0, sequence_batching: { oldest: { preferred_batch_size: [1] } } },
      [
        'sequence_batching.oldest.preferred_batch_size[0]: does not fit max_batch_size 0, got 1; allowed: none without a batch axis',
      ],
    ],
    [
      'no default priority',
      { dynamic_batching: { priority_levels: 2 } },
      ['dynamic_batching.default_priority_level: is not one of the priority_levels, got 0; allowed: 1 to 2'],
    ],
    [
      'a policy for no priority',
      { dynamic_batching: { priority_levels: 2, default_priority_level: 2, priority_queue_policy: { 3: {} } } },
      ['dynamic_batching.priority_queue_policy["3"]: is not one of the priority_levels; allowed: 1 to 2'],
    ],
    [
      'priorities that keep the order',
      { dynamic_batching: { preserve_ordering: true, priority_levels: 2, default_priority_level: 1 } },
      ['dynamic_batching.priority_levels: preserve_ordering allows one, got 2; allowed: 0 or 1'],
    ],
    [
      'delays that keep the order',
      {
        dynamic_batching: {
          preserve_ordering: true,
          default_queue_policy: { timeout_action: 'DELAY', default_timeout_microseconds: 1 },
        },
      },
      [
        'dynamic_batching.default_queue_policy.timeout_action: must not be DELAY beside preserve_ordering; allowed: REJECT',
      ],
    ],
    [
      'a use of slots above 1',
      { sequence_batching: { direct: { minimum_slot_utilization: 1.5 } } },
      ['sequence_batching.direct.minimum_slot_utilization: is not a fraction, got 1.5; allowed: 0 to 1'],
    ],
    [
      'a negative count and a negative GPU',
      { instance_group: [{ count: -1, gpus: [-2] }] },
      [
        'instance_group[0].count: must not be negative, got -1; allowed: 1 or more',
        "instance_group[0].gpus[0]: is no GPU's number, got -2; allowed: 0, 1, ...",
      ],
    ],
    [
      'GPUs of the CPU',
      { instance_group: [{ kind: 'KIND_CPU', gpus: [0] }] },
      ['instance_group[0].gpus: cannot stand beside KIND_CPU\n    -> write "kind: KIND_GPU", or remove gpus'],
    ],
    [
      'a profile outside TensorRT',
      { instance_group: [{ profile: ['0'] }] },
      ['instance_group[0].profile: is for platform tensorrt_plan alone\n    -> remove it'],
    ],
    // Which versions are served.
    [
      'the newest 0 versions',
      { version_policy: { latest: {} } },
      ['version_policy.latest.num_versions: must be at least 1, got 0'],
    ],
    [
      'no version in particular',
      { version_policy: { specific: {} } },
      ['version_policy.specific.versions: names no version'],
    ],
    // Warm-up.
    [
      'a warm-up that is skipped',
      warmup({ batch_size: undefined }),
      ['model_warmup[0].batch_size: is 0: Triton skips this warm-up\n    -> write "batch_size: 1"'],
    ],
    [
      'a warm-up in too large a batch',
      warmup({ batch_size: 9 }),
      ['model_warmup[0].batch_size: is more than max_batch_size 8 allows, got 9; allowed: 1 to 8'],
    ],
    [
      'a warm-up of two without a batch axis',
      { max_batch_size: 0, ...warmup({ batch_size: 2 }) },
      ['model_warmup[0].batch_size: is more than max_batch_size 0 allows, got 2; allowed: 1 to 1'],
    ],
    [
      'a warm-up of another tensor',
      warmup({ inputs: { input_0: { data_type: 'TYPE_FP32', dims: [3], zero_data: true } } }),
      [
        'model_warmup[0].inputs.input_0: is not an input of the model; allowed: input__0\n    -> did you mean "input__0"?',
        'model_warmup[0].inputs: gives no value for the input "input__0"',
      ],
    ],
    [
      'a warm-up of another type',
      warmup({}, { data_type: 'TYPE_INT8' }),
      ["model_warmup[0].inputs.input__0.data_type: differs from the input's, got TYPE_INT8; allowed: TYPE_FP32"],
    ],
    [
      'a warm-up of another shape',
      warmup({}, { dims: [4] }),
      ['model_warmup[0].inputs.input__0.dims: is no shape of the input, got [4]; allowed: [3]'],
    ],
    [
      'a warm-up of any size',
      warmup({}, { dims: [-1] }),
      ['model_warmup[0].inputs.input__0.dims: must be sizes, got [-1]; allowed: 1 or more each'],
    ],
    [
      'a warm-up of no values',
      warmup({}, { zero_data: undefined }),
      [
        'model_warmup[0].inputs.input__0: says no values; allowed: one of zero_data: true, random_data: true, input_data_file',
      ],
    ],
  ])('refuses %s', async (_title, fields, problems) => {
    expect(await problemsOf({ m: modelYaml(fields) })).toEqual(problems);
  });

  it.each<[title: string, fields: Fields]>([
    ['the model as it is', {}],
    ['its own name', { name: 'm' }],
    ['the backend of the platform', { backend: 'pytorch' }],
    ['a backend alone', { platform: undefined, backend: 'pytorch' }],
    [
      'a backend of one’s own, with any platform',
      { platform: 'foo', backend: 'bar', input: undefined, output: undefined },
    ],
    ['tensors left to ONNX', { platform: 'onnxruntime_onnx', input: undefined, output: undefined }],
    ['inputs with the names of arguments', { input: [input({ name: 'ids' }), input({ name: 'mask' })] }],
    ['positions in any order', { input: [input({ name: 'a__1' }), input({ name: 'b__0' })] }],
    ['any names for ONNX', { platform: 'onnxruntime_onnx', output: [output({ name: 'logits' })] }],
    [
      'a reshape that keeps the elements',
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
    ['a shape tensor of TensorRT', { platform: 'tensorrt_plan', input: [input({ is_shape_tensor: true })] }],
  ])('accepts %s', async (_title, fields) => {
    expect(await problemsOf({ m: modelYaml(fields) })).toEqual([]);
  });

  it.each(['a b', '-a', 'é', 'a+b', 'a%2e'])('refuses the folder name %j', async (name) => {
    expect(await problemsOf({ [name]: modelYaml() })).toEqual([
      `${name}/model.yaml: name: cannot be used as a name in S3 and in Triton's URLs, got "${name}"; ` +
        'allowed: letters, digits, "_", "-" and ".", not starting with "-" or "."\n    -> rename the folder',
    ]);
  });
});
