import { describe } from '../../core/problems';
import type { CheckedModel, ModelRule } from './rule';

/*
 * Lines of triton-inference-server: pt is src/pt/model_instance_state.cc of pytorch_backend at 266fd38, ort is
 * src/onnxruntime.cc of onnxruntime_backend at 00fd3e8, be is src/ of backend at 3f57fb9.
 */
const isLibtorch = ({ facts, config }: CheckedModel): boolean => facts?.label === 'pytorch_libtorch' && !config.runtime;
const isOnnx = ({ facts }: CheckedModel): boolean => facts?.label === 'onnxruntime_onnx';

/** be backend_model.cc:142, ort :1694 and :1743. */
const optionalInputsAreSupported: ModelRule = (model) => {
  (model.config.input ?? []).forEach(({ optional, allow_ragged_batch: isRagged }, index) => {
    if (optional !== true) return;
    const field = `input[${index}].optional`;
    if (isLibtorch(model)) {
      model.problems.add(field, "is not supported by Triton's libtorch backend", {
        hint: 'require the input in every request, for example as an empty tensor',
      });
    } else if (isOnnx(model) && (model.config.max_batch_size ?? 0) > 0) {
      model.problems.add(field, 'needs max_batch_size: 0 with ONNX Runtime', {
        hint: 'set max_batch_size: 0, or require the input in every request',
      });
    } else if (isOnnx(model) && isRagged === true) {
      model.problems.add(field, 'cannot be combined with allow_ragged_batch in ONNX Runtime');
    }
  });
};

/** Whether everything after the first `__` is digits, as pt :451 reads names. */
const hasPosition = (name: string): boolean => /^(?:(?!__).)*__\d+$/s.test(name);

/** pt :1279 for controls; pt :502 for states, which also require positions in the names of all inputs and outputs. */
const libtorchSequencesHavePositions: ModelRule = (model) => {
  const { sequence_batching: batching, input = [], output = [] } = model.config;
  if (!isLibtorch(model) || batching === undefined) return;
  const names: [field: string, name: string][] = (batching.control_input ?? []).map(({ name = '' }, index) => [
    `sequence_batching.control_input[${index}].name`,
    name,
  ]);
  const states = batching.state ?? [];
  states.forEach(({ input_name: from = '', output_name: to = '' }, index) => {
    names.push([`sequence_batching.state[${index}].input_name`, from]);
    names.push([`sequence_batching.state[${index}].output_name`, to]);
  });
  if (states.length > 0) {
    input.forEach(({ name = '' }, index) => names.push([`input[${index}].name`, name]));
    output.forEach(({ name = '' }, index) => names.push([`output[${index}].name`, name]));
  }
  const known = model.problems.problems.map(({ field }) => field);
  for (const [field, name] of names) {
    if (name === '' || hasPosition(name) || known.includes(field)) continue;
    model.problems.add(field, `does not end in a position, got ${describe(name)}`, {
      allowed: 'a name such as x__1',
      hint: "Triton's libtorch backend identifies the tensors of sequences by their position among the arguments of forward()",
    });
  }
};

const FLAG = { pattern: /^(true|on|1|false|off|0)$/i, allowed: 'true, false' };
const COUNT = { pattern: /^\s*[+-]?\d/, allowed: 'a whole number' };

/** pt model_state.cc:271, ort :239 to :301. */
const PARAMETERS: Readonly<Record<string, Readonly<Record<string, typeof FLAG>>>> = {
  pytorch_libtorch: {
    DISABLE_OPTIMIZED_EXECUTION: FLAG,
    ENABLE_CACHE_CLEANING: FLAG,
    INFERENCE_MODE: FLAG,
    DISABLE_CUDNN: FLAG,
    ENABLE_TENSOR_FUSER: FLAG,
    ENABLE_WEIGHT_SHARING: FLAG,
    ENABLE_JIT_PROFILING: FLAG,
    ENABLE_JIT_EXECUTOR: FLAG,
    INTRA_OP_THREAD_COUNT: COUNT,
    INTER_OP_THREAD_COUNT: COUNT,
  },
  onnxruntime_onnx: {
    intra_op_thread_count: COUNT,
    inter_op_thread_count: COUNT,
    execution_mode: { pattern: /^\s*\+?0*[01](?!\d)/, allowed: '0, 1' },
  },
};

const parametersAreReadable: ModelRule = ({ facts, config, problems }) => {
  if (config.runtime) return;
  for (const [name, { pattern, allowed }] of Object.entries(PARAMETERS[facts?.label ?? ''] ?? {})) {
    const value = config.parameters?.[name]?.string_value;
    if (value === undefined || pattern.test(value)) continue;
    problems.add(`parameters.${name}`, `cannot be parsed by the backend, got ${describe(value)}`, { allowed });
  }
};

/** Configurations that Triton's libtorch and ONNX Runtime backends refuse when they load a model. */
export const backendRules: readonly ModelRule[] = [
  optionalInputsAreSupported,
  libtorchSequencesHavePositions,
  parametersAreReadable,
];
