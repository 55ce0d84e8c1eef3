import protobuf from 'protobufjs/light';
import protocol from '../triton/protocol.json';
import { DATA_TYPES, elementCount } from '../triton/tensor';

const root = protobuf.Root.fromJSON(protocol).resolveAll();

/** Triton's own definition of a model configuration: the fields with their types and numbers. */
export const modelConfigType = root.lookupType('inference.ModelConfig');

/** The value of DataType that stands for no type. Triton reads an unset field as this value. */
const NO_TYPE = 'TYPE_INVALID';

/** Names of the values of an enum that messages offer. */
export function enumValues(type: protobuf.Enum): string[] {
  return Object.keys(type.values).filter((name) => name !== NO_TYPE);
}

/** Names of the data types that a tensor may have: TYPE_FP32 and so on. */
export const MODEL_DATA_TYPES: readonly string[] = enumValues(root.lookupEnum('inference.DataType'));

/** No request or state has more elements. The server allocates the memory as soon as it loads the model. */
export const MOST_ELEMENTS = 2 ** 28;

/** Bytes of a tensor; undefined if the type has no fixed size. */
export function countBytes(type: string, dims: readonly number[]): number | undefined {
  const facts = Object.values(DATA_TYPES).find(({ configName }) => configName === type);
  return facts?.elementBytes === undefined ? undefined : facts.elementBytes * elementCount(dims);
}

/** A 64-bit number: a bigint only if a double would lose digits. */
export type Int64 = number | bigint;

/**
 * One model's configuration with Triton's own field names, as plain data: enums by name, 64-bit numbers as `Int64`.
 * A field exists only if the author wrote it, and a list or map only if it is not empty. Only the fields that our code
 * reads have types here. All other fields of Triton's message are kept (see `modelConfigType`).
 */
export interface ModelConfig {
  name: string;
  platform?: string;
  backend?: string;
  runtime?: string;
  version_policy?: VersionPolicy;
  max_batch_size?: number;
  input?: TensorConfig[];
  output?: TensorConfig[];
  batch_input?: unknown[];
  batch_output?: unknown[];
  dynamic_batching?: DynamicBatching;
  sequence_batching?: SequenceBatching;
  ensemble_scheduling?: { step?: EnsembleStep[]; [field: string]: unknown };
  instance_group?: InstanceGroup[];
  default_model_filename?: string;
  cc_model_filenames?: Record<string, string>;
  parameters?: Record<string, { string_value?: string }>;
  model_warmup?: Warmup[];
  model_operations?: { op_library_filename?: string[] };
  model_repository_agents?: { agents?: { name?: string }[] };
  model_transaction_policy?: { decoupled?: boolean };
  [field: string]: unknown;
}

/** Selects the version folders that are served. Triton's default is the newest one. */
export interface VersionPolicy {
  latest?: { num_versions?: number };
  all?: Record<string, never>;
  specific?: { versions?: number[] };
}

/** An input or an output. `dims` omits the batch axis if max_batch_size is more than 0; -1 is any size. */
export interface TensorConfig {
  name?: string;
  data_type?: string;
  dims?: number[];
  reshape?: { shape?: number[] };
  optional?: boolean;
  is_shape_tensor?: boolean;
  label_filename?: string;
  [field: string]: unknown;
}

export interface DynamicBatching {
  preferred_batch_size?: number[];
  max_queue_delay_microseconds?: Int64;
  preserve_ordering?: boolean;
  priority_levels?: Int64;
  default_queue_policy?: unknown;
}

export interface SequenceBatching {
  control_input?: { name?: string }[];
  state?: SequenceState[];
  direct?: Record<string, unknown>;
  oldest?: { preferred_batch_size?: number[]; max_candidate_sequences?: number; [field: string]: unknown };
  [field: string]: unknown;
}

export interface SequenceState {
  input_name?: string;
  output_name?: string;
  data_type?: string;
  dims?: number[];
  initial_state?: { name?: string; data_type?: string; dims?: number[]; zero_data?: boolean; data_file?: string }[];
  [field: string]: unknown;
}

/** One step. `input_map` and `output_map` map the step's own tensor names to the ensemble's. */
export interface EnsembleStep {
  model_name?: string;
  model_version?: number;
  input_map?: Record<string, string>;
  output_map?: Record<string, string>;
  model_namespace?: string;
}

export interface InstanceGroup {
  name?: string;
  kind?: string;
  count?: number;
  [field: string]: unknown;
}

/** A request that Triton sends to the model itself before it calls the model READY. */
export interface Warmup {
  name?: string;
  batch_size?: number;
  inputs?: Record<string, WarmupInput>;
  count?: number;
}

export interface WarmupInput {
  data_type?: string;
  dims?: number[];
  zero_data?: boolean;
  random_data?: boolean;
  input_data_file?: string;
}
