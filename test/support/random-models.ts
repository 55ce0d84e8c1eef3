import { modelConfigType, type ModelConfig, type TensorConfig } from '../../src/model/model-config';
import protobuf from 'protobufjs/light';
import fc from 'fast-check';
import { SOAK_SEED } from './soak';

/** Makes the choices of a property's value, so that fast-check can repeat and shrink them. */
export type Random = fc.GeneratorValue;
export type Fields = Record<string, unknown>;

/**
 * Parameters of fc.assert: the same seed gives the same values. A failure prints seed, path and value. It is not shrunk,
 * because shrinking the thousands of choices of a configuration takes minutes; remove `endOnFailure` to shrink it.
 */
export const SEEDED = { seed: SOAK_SEED, endOnFailure: true };

/** `count` independent sources of choices, for values that are tested together. */
export const randoms = (count: number, seed: number): Random[] => fc.sample(fc.gen(), { seed, numRuns: count });

const unbiased = (least: number, most: number): fc.Arbitrary<number> =>
  fc.noBias(fc.integer({ min: least, max: most }));

/** An integer from `least` to `most`, inclusive, all equally likely. */
export const integer = (random: Random, least: number, most: number): number => random(unbiased, least, most);

export const chance = (random: Random, probability: number): boolean =>
  integer(random, 1, 1000) > 1000 * (1 - probability);

export const pick = <T>(random: Random, items: readonly T[]): T => items[integer(random, 0, items.length - 1)] as T;

export function list<T>(random: Random, least: number, most: number, make: (index: number) => T): T[] {
  return Array.from({ length: integer(random, least, most) }, (_, index) => make(index));
}

export const maybe = <T>(random: Random, make: () => T): T | undefined => (chance(random, 0.4) ? make() : undefined);

export const filled = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/** Fields for features that the test's server lacks: other backends, files, a GPU, and features of newer versions. */
const NOT_HERE = new Set([
  ...['name', 'platform', 'backend', 'runtime', 'model_repository_agents', 'default_model_filename'],
  ...['cc_model_filenames', 'model_operations', 'model_warmup', 'model_metrics', 'max_inflight_requests'],
  ...['model_namespace', 'gpus', 'label_filename', 'data_file'],
]);

/** Sets, removes or repeats one field somewhere in a message. New values have the right type. */
function disturb(type: protobuf.Type, message: Fields, random: Random): void {
  const fields = type.fieldsArray
    .filter(({ name }) => type !== modelConfigType || !NOT_HERE.has(name))
    .map((field) => field.resolve());
  const present = fields.filter(({ name }) => message[name] !== undefined);
  const inner = present.filter((field) => field.resolvedType instanceof protobuf.Type);
  if (inner.length > 0 && chance(random, 0.75)) {
    const field = pick(random, inner);
    const item = oneOf(random, field, message[field.name]);
    if (item !== undefined) disturb(field.resolvedType as protobuf.Type, item, random);
    return;
  }
  // The backend would have to report tensors that the configuration lacks, and the empty backend reports none.
  const isTensors = ({ name }: protobuf.Field): boolean => type === modelConfigType && /^(in|out)put$/.test(name);
  const allowed = (chance(random, 0.6) && present.length > 0 ? present : fields).filter(
    (field) => !LATER.has(field.name) && !isTensors(field),
  );
  if (allowed.length > 0) setField(type, message, pick(random, allowed), random);
}

/** `name` is excluded only for the model itself. */
const LATER = new Set([...NOT_HERE].filter((name) => name !== 'name'));

function oneOf(random: Random, field: protobuf.Field, value: unknown): Fields | undefined {
  if (field.map) return pick(random, Object.values(value as Record<string, Fields>));
  return Array.isArray(value) ? pick<Fields>(random, value as Fields[]) : (value as Fields);
}

function setField(type: protobuf.Type, message: Fields, field: protobuf.Field, random: Random): void {
  const { name } = field;
  const value = message[name];
  if (chance(random, 0.2)) remove(message, name);
  else if (Array.isArray(value) && chance(random, 0.4))
    message[name] = [
      ...(value as unknown[]),
      ...(chance(random, 0.5) ? (value as unknown[]) : [randomItem(field, random)]),
    ];
  else message[name] = randomValue(field, random);
  tidy(type, message, name);
}

/** Removes empty lists, and all alternatives of a oneof but the one that was set last. */
function tidy(type: protobuf.Type, message: Fields, last?: string): void {
  for (const [key, value] of Object.entries(message))
    if (Array.isArray(value) && value.length === 0) remove(message, key);
  for (const { oneof } of type.oneofsArray) {
    const given = oneof.filter((name) => message[name] !== undefined);
    const kept = last !== undefined && given.includes(last) ? last : given[0];
    for (const name of given) if (name !== kept) remove(message, name);
  }
}

const remove = (message: Fields, key: string): boolean => Reflect.deleteProperty(message, key);

function randomValue(field: protobuf.Field, random: Random): unknown {
  field.resolve();
  if (field instanceof protobuf.MapField) {
    const key = field.keyType === 'string' ? pick(random, ['x0', 'a', '']) : pick(random, ['0', '1', '3']);
    return { [key]: randomItem(field, random) };
  }
  return field.repeated ? list(random, 0, 2, () => randomItem(field, random)) : randomItem(field, random);
}

function randomItem(field: protobuf.FieldBase, random: Random): unknown {
  const type = field.resolvedType;
  if (type instanceof protobuf.Enum) {
    return pick(
      random,
      Object.keys(type.values).filter((name) => name !== 'KIND_GPU'),
    );
  }
  if (type instanceof protobuf.Type) {
    const message: Fields = {};
    for (const one of type.fieldsArray)
      if (chance(random, 0.5) && !LATER.has(one.name)) message[one.name] = randomValue(one, random);
    tidy(type, message);
    return message;
  }
  if (field.type === 'string') return pick(random, ['x0', 'y0', 'x1', '', 'a b', '\u00e9', 'CONTROL0']);
  if (field.type === 'bool') return chance(random, 0.5);
  if (field.type === 'float' || field.type === 'double') return pick(random, [0, -1, 0.5, 2, Infinity]);
  const numbers = [0, 1, 2, 3, 8, 9, 2 ** 31 - 1];
  return pick(random, field.type.startsWith('u') ? numbers : [...numbers, -1, -2]);
}

/** A random model: mostly valid, with a few unusual fields. */
export interface RandomModel {
  config: ModelConfig;
  /** Numbers of its version folders. */
  versions: number[];
}

/** A model for a backend that accepts every configuration, so that only the server itself rejects models. */
export function randomModel(name: string, random: Random): RandomModel {
  const config: ModelConfig = {
    name,
    backend: 'empty',
    max_batch_size: pick(random, [0, 1, 8]),
    input: list(random, 1, 2, (index) => tensor(random, `x${index}`)),
    output: list(random, 1, 2, (index) => tensor(random, `y${index}`)),
  };
  for (let left = integer(random, 0, 2); left > 0; left--) pick(random, FEATURES)(config, random);
  for (let left = integer(random, 0, 2); left > 0; left--) disturb(modelConfigType, config, random);
  return { config, versions: pick(random, [[1], [1], [1, 2], [3, 5, 10]]) };
}

/** An ensemble of `parts` with random connections: often valid, often slightly wrong. */
export function randomEnsemble(name: string, parts: readonly ModelConfig[], random: Random): RandomModel {
  const steps = list(random, 1, 3, () => pick(random, parts));
  const tensors = new Map<string, Fields>();
  const fresh = (tensor: Fields): string => {
    const given = `t${tensors.size}`;
    tensors.set(given, tensor);
    return given;
  };
  const inputs: string[] = [];
  const written: string[] = [];
  const read = new Set<string>();
  const step = steps.map((part): Fields => {
    const input_map: Record<string, string> = {};
    for (const one of part.input ?? []) {
      if (one.optional && chance(random, 0.5)) continue;
      const known = [...written, ...inputs].filter((key) => fits(tensors.get(key) ?? {}, one) || chance(random, 0.03));
      let source = known.length > 0 && chance(random, 0.8) ? pick(random, known) : undefined;
      if (source === undefined) inputs.push((source = fresh(one)));
      read.add(source);
      input_map[one.name ?? ''] = source;
    }
    const output_map: Record<string, string> = {};
    for (const one of part.output ?? []) {
      if (Object.keys(output_map).length > 0 && chance(random, 0.3)) continue;
      output_map[one.name ?? ''] = fresh(one);
    }
    written.push(...Object.values(output_map));
    return { model_name: part.name, model_version: -1, input_map, output_map };
  });
  const outside = (key: string): Fields => ({
    name: key,
    data_type: tensors.get(key)?.['data_type'],
    dims: chance(random, 0.8) ? structuredClone(tensors.get(key)?.['dims']) : randomDims(random),
  });
  const outputs = written.filter((key) => !read.has(key) || chance(random, 0.2));
  const config: ModelConfig = {
    name,
    platform: 'ensemble',
    max_batch_size: pick(random, [0, 0, 1, 4]),
    input: inputs.map(outside),
    output: outputs.map(outside),
    ensemble_scheduling: { step: chance(random, 0.3) ? step.reverse() : step },
  };
  if (chance(random, 0.5))
    miswire(step, [...tensors.keys(), 'nowhere'], [...parts.map((part) => part.name), 'unknown'], random);
  if (chance(random, 0.15)) disturb(modelConfigType, config, random);
  return { config, versions: [1] };
}

/** A model of the python backend with a warm-up that is mostly valid. */
export function randomWarmup(name: string, random: Random): RandomModel {
  // No TYPE_STRING: it crashes the processes of this server's python backend, which is not an error of a configuration.
  const types = ['TYPE_FP32', 'TYPE_INT32', 'TYPE_BOOL', 'TYPE_UINT8'];
  const input = { name: 'x', data_type: pick(random, types), dims: pick(random, [[3], [-1], [2, 4]]) };
  const shape = input.dims.map((size) => (size === -1 ? pick(random, [1, 5]) : size));
  const values = pick<Fields>(random, [{ zero_data: true }, { random_data: true }, { zero_data: true }, {}]);
  const sample: Fields = {
    name: 'w',
    batch_size: pick(random, [1, 1, 2, 4, 9]),
    inputs: { x: { data_type: input.data_type, dims: shape, ...values } },
    count: pick(random, [0, 1, 3]),
  };
  const tensor = (sample['inputs'] as Record<string, Fields>)['x'] ?? {};
  if (chance(random, 0.6)) {
    pick<() => unknown>(random, [
      () => (tensor['data_type'] = pick(random, types)),
      () => (tensor['dims'] = pick(random, [[3], [2, 4], [3, 1], [-1], [0], []])),
      () => (sample['inputs'] = { y: tensor }),
      () => (sample['inputs'] = { x: tensor, y: tensor }),
      () => remove(sample, 'inputs'),
      () => remove(sample, 'name'),
      // The server skips this request, so its other errors have no effect.
      () =>
        Object.assign(sample, {
          batch_size: 0,
          inputs: { x: { data_type: input.data_type, dims: shape, zero_data: true } },
        }),
    ])();
  }
  const config: ModelConfig = {
    name,
    backend: 'python',
    max_batch_size: pick(random, [0, 1, 4]),
    input: [input],
    output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [1] }],
    instance_group: [{ kind: 'KIND_CPU', count: 1 }],
    model_warmup: [sample],
  };
  return { config, versions: [1] };
}

/** Models for steps of ensembles: with and without batches, of several types and shapes, optional inputs, decoupled. */
export const PARTS: readonly ModelConfig[] = [
  part('float3', 8, 'x FP32 3', 'y FP32 3'),
  part('any', 0, 'x FP32 -1', 'y FP32 -1'),
  part('rows', 0, 'x FP32 -1 3', 'y FP32 -1 3'),
  part('ints', 4, 'x INT32 3', 'y FP32 3'),
  part('join', 2, 'a FP32 3, b FP32 -1', 'c FP32 3, d INT32 3'),
  { ...part('stream', 8, 'x FP32 3', 'y FP32 3, z INT32 3'), model_transaction_policy: { decoupled: true } },
  part('maybe', 8, 'x FP32 3, o FP32 3', 'y FP32 3', ({ name }) => (name === 'o' ? { optional: true } : {})),
  part('shaped', 8, 'x FP32 3', 'y FP32 3', () => ({ reshape: { shape: [3, 1] } })),
];

/**
 * @param inputs name, data type and dims of each, such as `a FP32 3, b FP32 -1 3`; so are outputs
 * @param more other fields of an input
 */
function part(
  name: string,
  max_batch_size: number,
  inputs: string,
  outputs: string,
  more: (input: TensorConfig) => Fields = () => ({}),
): ModelConfig {
  const ports = (side: string): TensorConfig[] =>
    side.split(', ').map((port) => {
      const [tensor, type, ...dims] = port.split(' ');
      return { name: tensor as string, data_type: `TYPE_${type}`, dims: dims.map(Number) };
    });
  const input = ports(inputs).map((one) => ({ ...one, ...more(one) }));
  return { name, backend: 'empty', max_batch_size, input, output: ports(outputs) };
}

const fits = (a: Fields, b: Fields): boolean =>
  a['data_type'] === b['data_type'] && JSON.stringify(a['dims']) === JSON.stringify(b['dims']);

/** Breaks a connection of a step, or changes its model or version. */
function miswire(steps: Fields[], tensors: readonly string[], models: readonly string[], random: Random): void {
  const step = pick(random, steps);
  const map = step[pick(random, ['input_map', 'output_map'])] as Record<string, string>;
  const key = pick(random, Object.keys(map).length > 0 ? Object.keys(map) : ['x']);
  pick<() => unknown>(random, [
    () => (map[key] = pick(random, tensors)),
    () => (map[key] = pick(random, tensors)),
    () => remove(map, key),
    () => (map[pick(random, ['x', 'y', 'zz'])] = pick(random, tensors)),
    () => (step['model_name'] = pick(random, models)),
    () => (step['model_version'] = pick(random, [0, 1, 2, -2])),
    () => remove(step, pick(random, ['input_map', 'output_map', 'model_name', 'model_version'])),
    () => steps.push({ ...step }),
  ])();
}

const TYPES = ['TYPE_FP32', 'TYPE_FP32', 'TYPE_INT32', 'TYPE_INT64', 'TYPE_BOOL', 'TYPE_STRING', 'TYPE_UINT64'];
const DIMS = [[3], [3], [1], [-1], [2, 4], [3, 8, 8], [-1, -1, 3], [2, -1, 6]];

const randomDims = (random: Random): number[] => [...pick(random, DIMS)];

function tensor(random: Random, name: string): Fields {
  const dims = randomDims(random);
  const result: Fields = { name, data_type: pick(random, TYPES), dims };
  if (chance(random, 0.1))
    result['reshape'] = { shape: [...pick(random, [...DIMS, [], [...dims, 1], [1, ...dims], [6, -1, 2]])] };
  return result;
}

/** Adds features of real configurations, with values that are mostly valid. */
const FEATURES: ((config: ModelConfig, random: Random) => void)[] = [
  (config, random) => {
    config.dynamic_batching = filled({
      preferred_batch_size: maybe(random, () => list(random, 1, 2, () => pick(random, [1, 2, 8]))),
      max_queue_delay_microseconds: maybe(random, () => 100),
      preserve_ordering: maybe(random, () => chance(random, 0.7)),
      priority_levels: maybe(random, () => pick(random, [0, 1, 2])),
      default_priority_level: maybe(random, () => pick(random, [1, 2])),
      default_queue_policy: maybe(random, () => queuePolicy(random)),
      priority_queue_policy: maybe(random, () => ({ [pick(random, ['1', '2'])]: queuePolicy(random) })),
    });
  },
  (config, random) => {
    config.sequence_batching = filled({
      ...pick(random, [
        {},
        { direct: filled({ minimum_slot_utilization: maybe(random, () => pick(random, [0, 0.5, 1])) }) },
        {
          oldest: filled({
            max_candidate_sequences: maybe(random, () => pick(random, [1, 4, 0])),
            preferred_batch_size: maybe(random, () => [pick(random, [1, 4])]),
            preserve_ordering: maybe(random, () => true),
          }),
        },
      ]),
      max_sequence_idle_microseconds: maybe(random, () => 1000),
      control_input: maybe(random, () => list(random, 1, 3, (index) => controlInput(random, index))),
      state: maybe(random, () => list(random, 1, 2, (index) => state(random, index))),
      iterative_sequence: maybe(random, () => chance(random, 0.3)),
    });
  },
  (config, random) => {
    config.instance_group = list(random, 1, 2, () =>
      filled({
        kind: pick(random, ['KIND_CPU', 'KIND_CPU', 'KIND_AUTO', 'KIND_MODEL']),
        count: maybe(random, () => pick(random, [1, 2])),
        name: maybe(random, () => 'group'),
        passive: chance(random, 0.1) ? true : undefined,
        rate_limiter: maybe(random, () => ({ priority: 2, resources: [{ name: 'r', count: 1 }] })),
        host_policy: maybe(random, () => 'policy'),
        secondary_devices: chance(random, 0.1) ? [{ kind: 'KIND_NVDLA', device_id: 0 }] : undefined,
      }),
    );
  },
  (config, random) => {
    config.version_policy = pick(random, [
      { latest: { num_versions: 1 } },
      { latest: { num_versions: 2 } },
      { latest: { num_versions: 9 } },
      { all: {} },
      { specific: { versions: [1] } },
      { specific: { versions: [1, 2] } },
      { specific: { versions: [10, 3, 3] } },
      {},
    ]);
  },
  (config, random) => {
    config.batch_input = list(random, 1, 2, () => ({
      kind: pick(random, ['BATCH_ELEMENT_COUNT', 'BATCH_ACCUMULATED_ELEMENT_COUNT', 'BATCH_ITEM_SHAPE']),
      target_name: list(random, 1, 1, () => pick(random, ['b0', 'b1', 'x0'])),
      data_type: pick(random, ['TYPE_FP32', 'TYPE_INT32', 'TYPE_INT64']),
      source_input: list(random, 1, 1, () => pick(random, ['x0', 'x1'])),
    }));
  },
  (config, random) => {
    config.batch_output = [
      {
        kind: 'BATCH_SCATTER_WITH_INPUT_SHAPE',
        target_name: list(random, 1, 2, () => pick(random, ['y0', 'y1'])),
        source_input: list(random, 1, 1, () => pick(random, ['x0', 'x1'])),
      },
    ];
  },
  (config) => void (config.model_transaction_policy = { decoupled: true }),
  (config) => void (config.response_cache = { enable: true }),
  (config, random) => {
    config['optimization'] = filled({
      graph: maybe(random, () => ({ level: 1 })),
      priority: maybe(random, () => 'PRIORITY_MAX'),
      cuda: maybe(random, () => ({ graphs: true, graph_spec: [{ batch_size: 1, input: { x0: { dim: [3] } } }] })),
      execution_accelerators: maybe(random, () => ({ cpu_execution_accelerator: [{ name: 'openvino' }] })),
      input_pinned_memory: maybe(random, () => ({ enable: false })),
      gather_kernel_buffer_threshold: maybe(random, () => 4),
      eager_batching: maybe(random, () => true),
    });
  },
  (config) => void (config.parameters = { a: { string_value: 'b' }, c: {} }),
  (config) => void (config['metric_tags'] = { a: 'b' }),
  (config, random) => {
    const input = pick(random, config.input ?? [{}]);
    Object.assign(
      input,
      pick<Fields>(random, [{ optional: true }, { allow_ragged_batch: true }, { format: 'FORMAT_NCHW' }]),
    );
  },
];

function queuePolicy(random: Random): Fields {
  return filled({
    timeout_action: maybe(random, () => pick(random, ['REJECT', 'DELAY'])),
    default_timeout_microseconds: maybe(random, () => pick(random, [0, 100])),
    allow_timeout_override: maybe(random, () => true),
    max_queue_size: maybe(random, () => 3),
  });
}

function controlInput(random: Random, index: number): Fields {
  const kinds = ['CONTROL_SEQUENCE_START', 'CONTROL_SEQUENCE_END', 'CONTROL_SEQUENCE_READY', 'CONTROL_SEQUENCE_CORRID'];
  const control = (kind: string): Fields =>
    kind === 'CONTROL_SEQUENCE_CORRID'
      ? { kind, data_type: pick(random, ['TYPE_UINT64', 'TYPE_INT32', 'TYPE_STRING', 'TYPE_FP32']) }
      : {
          kind,
          ...pick<Fields>(random, [
            { int32_false_true: [0, 1] },
            { fp32_false_true: [0, 1] },
            { bool_false_true: [false, true] },
          ]),
        };
  return {
    name: chance(random, 0.9) ? `CONTROL${index}` : 'CONTROL0',
    control: list(random, 1, chance(random, 0.9) ? 1 : 2, () =>
      control(chance(random, 0.85) ? (kinds[index] ?? '') : pick(random, kinds)),
    ),
  };
}

function state(random: Random, index: number): Fields {
  return filled({
    input_name: chance(random, 0.95) ? `STATE_IN${index}` : undefined,
    output_name: chance(random, 0.95) ? `STATE_OUT${index}` : undefined,
    data_type: pick(random, ['TYPE_FP32', 'TYPE_INT32', 'TYPE_STRING']),
    dims: pick(random, DIMS),
    initial_state: maybe(random, () => [
      filled({
        name: maybe(random, () => 'zero'),
        data_type: pick(random, ['TYPE_FP32', 'TYPE_INT32']),
        dims: randomDims(random),
        zero_data: maybe(random, () => true),
      }),
    ]),
    use_same_buffer_for_input_output: maybe(random, () => chance(random, 0.5)),
    use_growable_memory: chance(random, 0.1) ? true : undefined,
  });
}
