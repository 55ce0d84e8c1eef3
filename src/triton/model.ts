import { UserError } from '../core/errors';
import { didYouMean } from '../core/nearest';
import { inferInBatches } from './batches';
import {
  RequestError,
  type CallOptions,
  type InferenceClient,
  type InferOptions,
  type InferResult,
  type InputProblem,
  type ModelMetadata,
  type TensorMetadata,
} from './client';
import { toTensor, type Nested } from './nested';
import { DATA_TYPES, elementCount, isDataType, type DataType, type Tensor, type TensorData } from './tensor';

/**
 * Value of an input: nested arrays, whose nesting is the shape; or the elements in C order, with their shape if the
 * model has more than one variable length.
 */
export type InputValue = Nested | TensorData[DataType] | { data: TensorData[DataType]; shape: readonly number[] };

/**
 * A model with its server's description. Checks requests before they are sent, and splits batches that are too large.
 */
export class TritonModel {
  private constructor(
    private readonly client: InferenceClient,
    readonly metadata: ModelMetadata,
    /** The configuration as the server completed it, with Triton's field names. */
    readonly config: Record<string, unknown>,
    readonly version: number | undefined,
  ) {}

  /** Reads the model's metadata and configuration from the server. */
  static async open(
    client: InferenceClient,
    model: string,
    options: CallOptions & { version?: number } = {},
  ): Promise<TritonModel> {
    const { version, ...call } = options;
    const [metadata, config] = await Promise.all([
      client.modelMetadata(model, version, call),
      client.modelConfig(model, version, call),
    ]);
    return new TritonModel(client, metadata, config, version);
  }

  get name(): string {
    return this.metadata.name;
  }

  /** Most rows of one request; 0 if the model has no batch axis. */
  get maxBatchSize(): number {
    return Number(this.config['max_batch_size'] ?? 0);
  }

  /**
   * Converts values to tensors with the model's names, data types and shapes.
   * @param values by input name
   * @throws RequestError with all problems
   */
  inputs(values: Readonly<Record<string, InputValue>>): Tensor[] {
    return inputsFor(this.metadata, values, this.optionalInputs);
  }

  /** Names of the optional inputs. */
  get optionalInputs(): string[] {
    const inputs = (this.config['input'] ?? []) as { name: string; optional?: boolean }[];
    return inputs.filter((input) => input.optional === true).map(({ name }) => name);
  }

  /** Sends one request. If the batch has more than maxBatchSize rows, splits it and joins the answers. */
  infer(values: Readonly<Record<string, InputValue>>, options: InferOptions = {}): Promise<InferResult> {
    return this.inferTensors(this.inputs(values), options);
  }

  /** Like infer, but takes tensors. */
  inferTensors(inputs: readonly Tensor[], options: InferOptions = {}): Promise<InferResult> {
    const { version = this.version } = options;
    return inferInBatches(this.client, this.name, inputs, this.maxBatchSize, { ...options, version });
  }
}

/** @throws RequestError with one problem for each input that is missing, unknown, or of a wrong type or shape */
export function inputsFor(
  model: Pick<ModelMetadata, 'name' | 'inputs'>,
  values: Readonly<Record<string, InputValue>>,
  optional: readonly string[] = [],
): Tensor[] {
  const problems: InputProblem[] = [];
  const names = model.inputs.map(({ name }) => name);
  for (const name of Object.keys(values).filter((name) => !names.includes(name))) {
    problems.push({
      input: name,
      message: 'the model has no such input',
      allowed: names.join(', '),
      hint: didYouMean(name, names),
    });
  }
  const tensors: Tensor[] = [];
  for (const input of model.inputs) {
    const { name } = input;
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    if (value === undefined) {
      if (optional.includes(name)) continue;
      problems.push({ input: name, message: 'this input is missing', allowed: describe(input) });
      continue;
    }
    try {
      tensors.push(inputFor(input, value));
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      problems.push({ input: name, message: error.message, allowed: describe(input) });
    }
  }
  if (problems.length > 0) throw new RequestError(model.name, problems);
  return tensors;
}

/** `FP32 [-1, 3, 224, 224]` */
export function describe({ datatype, shape }: { datatype: string; shape: readonly number[] }): string {
  return `${datatype} [${shape.join(', ')}]`;
}

function inputFor(input: TensorMetadata, value: InputValue): Tensor {
  const { name, datatype } = input;
  if (!isDataType(datatype)) {
    throw new UserError(`its data type ${datatype} is unknown; known: ${Object.keys(DATA_TYPES).join(', ')}`);
  }
  const tensor = isFlat(value, datatype)
    ? ({ name, datatype, ...withShape(input, value) } as Tensor)
    : toTensor(name, datatype, value);
  const { ArrayType } = DATA_TYPES[datatype];
  if (!(tensor.data instanceof ArrayType)) {
    throw new UserError(`got a ${tensor.data.constructor.name}; ${datatype} needs a ${ArrayType.name}`);
  }
  if (!fits(tensor.shape, input.shape)) throw new UserError(`got shape [${tensor.shape.join(', ')}]`);
  if (tensor.data.length !== elementCount(tensor.shape)) {
    throw new UserError(`got ${tensor.data.length} elements for shape [${tensor.shape.join(', ')}]`);
  }
  return tensor;
}

type Flat = TensorData[DataType] | { data: TensorData[DataType]; shape: readonly number[] };

/** For BYTES a Buffer is one element; for other data types it holds all elements. */
function isFlat(value: InputValue, datatype: DataType): value is Flat {
  if (typeof value !== 'object' || Array.isArray(value)) return false;
  return !(Buffer.isBuffer(value) && datatype === 'BYTES');
}

/** If the model has one variable length, computes it from the number of elements. */
function withShape(input: TensorMetadata, value: Flat): { data: TensorData[DataType]; shape: readonly number[] } {
  if ('shape' in value) return value;
  const open = input.shape.filter((length) => length === -1).length;
  if (open === 0) return { data: value, shape: input.shape };
  const left = value.length / elementCount(input.shape.filter((length) => length !== -1));
  if (open > 1 || !Number.isInteger(left)) {
    throw new UserError(`${value.length} elements do not determine its shape: pass { data, shape }`);
  }
  return { data: value, shape: input.shape.map((length) => (length === -1 ? left : length)) };
}

function fits(shape: readonly number[], wanted: readonly number[]): boolean {
  return shape.length === wanted.length && wanted.every((length, i) => length === -1 || length === shape[i]);
}
