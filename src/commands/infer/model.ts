import { UserError, type Problem } from '../../core/errors';
import { didYouMean } from '../../core/nearest';
import type { CallOptions, ModelMetadata, TensorMetadata } from '../../triton/client';
import type { InferenceClient } from '../../triton/http';
import { toTensor, type Nested } from '../../triton/tensor-from-json';
import { DATA_TYPES, isDataType, type DataType, type Tensor, type TensorData } from '../../triton/tensor';

/** Value of an input: nested arrays, whose nesting is the shape, or the elements in C order with their shape. */
export type InputValue = Nested | { data: TensorData[DataType]; shape: readonly number[] };

/** The fields of a configuration that are used. */
interface ServedConfig {
  max_batch_size?: number;
  input?: { name: string; optional?: boolean }[];
  output?: { name: string; label_filename?: string }[];
  model_transaction_policy?: { decoupled?: boolean };
}

/** A model with its server's description. */
export interface ServedModel extends Pick<ModelMetadata, 'name' | 'platform' | 'versions' | 'inputs' | 'outputs'> {
  /** The requested version; undefined for the one that the model's policy selects. */
  version: number | undefined;
  /** Most rows of one request; 0 if the model has no batch axis. */
  maxBatchSize: number;
  optionalInputs: string[];
  /** Names of the outputs with a label file, which names each value. */
  labelledOutputs: string[];
  /** Whether it answers a request any number of times. */
  isDecoupled: boolean;
}

/** Reads the model's metadata and configuration from the server. */
export async function openModel(
  client: InferenceClient,
  name: string,
  { version, ...call }: CallOptions & { version: number | undefined },
): Promise<ServedModel> {
  const [metadata, config] = await Promise.all([
    client.modelMetadata(name, version, call),
    client.modelConfig(name, version, call),
  ]);
  const {
    max_batch_size: most = 0,
    input = [],
    output = [],
    model_transaction_policy: policy,
  } = config as ServedConfig;
  return {
    ...metadata,
    version,
    maxBatchSize: most,
    optionalInputs: input.filter(({ optional }) => optional === true).map((one) => one.name),
    labelledOutputs: output.filter(({ label_filename: file = '' }) => file !== '').map((one) => one.name),
    isDecoupled: policy?.decoupled === true,
  };
}

/**
 * Converts values to tensors with the model's names, data types and shapes.
 * @param values by input name
 * @throws UserError with one problem for each input that is missing, unknown, or of a wrong type or shape
 */
export function inputsFor(
  { name: model, inputs, optionalInputs }: Pick<ServedModel, 'name' | 'inputs' | 'optionalInputs'>,
  values: Readonly<Record<string, InputValue>>,
): Tensor[] {
  const names = inputs.map(({ name }) => name);
  const problems: Problem[] = Object.keys(values)
    .filter((name) => !names.includes(name))
    .map((file) => {
      const hint = didYouMean(file, names);
      const problem = { file, message: 'the model has no such input', allowed: names.join(', ') };
      return hint === undefined ? problem : { ...problem, hint };
    });
  const tensors: Tensor[] = [];
  for (const input of inputs) {
    const { name } = input;
    const allowed = describe(input);
    try {
      const value = Object.hasOwn(values, name) ? values[name] : undefined;
      if (value !== undefined) tensors.push(inputFor(input, value));
      else if (!optionalInputs.includes(name)) problems.push({ file: name, message: 'this input is missing', allowed });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      problems.push({ file: name, message: error.message, allowed });
    }
  }
  if (problems.length > 0) throw new UserError(`the request does not fit ${model}`, { problems });
  return tensors;
}

/** `FP32 [-1, 3, 224, 224]` */
export function describe({ datatype, shape }: { datatype: string; shape: readonly number[] }): string {
  return `${datatype} [${shape.join(', ')}]`;
}

function inputFor({ name, datatype, shape }: TensorMetadata, value: InputValue): Tensor {
  if (!isDataType(datatype)) {
    throw new UserError(`its data type ${datatype} is unknown; known: ${Object.keys(DATA_TYPES).join(', ')}`);
  }
  const tensor =
    typeof value === 'object' && 'data' in value
      ? ({ name, datatype, ...value } as Tensor)
      : toTensor(name, datatype, value);
  const isFitting =
    tensor.shape.length === shape.length && shape.every((length, i) => length === -1 || length === tensor.shape[i]);
  if (!isFitting) throw new UserError(`got shape [${tensor.shape.join(', ')}]`);
  return tensor;
}
