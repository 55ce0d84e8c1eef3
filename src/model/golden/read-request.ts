import { UserError } from '../../core/errors';
import { convertArray } from '../media/npy';
import { didYouMean } from '../../core/nearest';
import { describe, fieldPath, formatList, type ProblemList } from '../../core/problems';
import type { ModelConfig, TensorConfig } from '../model-config';
import { DATA_TYPES, isDataType, isFloat, type DataType, type Tensor } from '../../triton/tensor';
import {
  DEFAULT_TOLERANCE,
  fitsShape,
  getDataType,
  hasBatchAxis,
  NO_TOLERANCE,
  requestShape,
  type ExpectedOutput,
  type GoldenRequest,
  type Tolerance,
} from './request';
import { requireCount, tensorFromJson } from '../../triton/tensor-from-json';

/** Reads a .npy file that a golden request names. */
export type ReadFile = (name: string) => Promise<Tensor>;

type Fields = Record<string, unknown>;

/** An error in one field of an input or output. `RequestReader.each` adds the error to the problems. */
class GoldenRequestError extends UserError {
  constructor(
    readonly field: string,
    message: string,
    readonly more: { allowed?: string; hint?: string | undefined } = {},
  ) {
    super(message);
  }
}

/** Reads the content of one golden request file and adds errors to `problems`. */
export class RequestReader {
  constructor(
    private readonly config: ModelConfig,
    private readonly readFile: ReadFile,
    private readonly problems: ProblemList,
  ) {}

  async read(name: string, content: unknown): Promise<GoldenRequest | undefined> {
    const before = this.problems.problems.length;
    if (!isFields(content)) {
      this.problems.add('', `must be a mapping with inputs and outputs, got ${describe(content)}`);
      return undefined;
    }
    this.checkKeys('', content, ['description', 'inputs', 'outputs', 'parameters']);
    const inputs = await this.each(content, 'inputs', (field, entry) => this.readInput(field, entry));
    const outputs = await this.each(content, 'outputs', (field, entry) => this.readOutput(field, entry));
    const parameters = this.readParameters(content['parameters']);
    if (this.problems.problems.length > before) return undefined;
    this.checkComplete(inputs);
    return this.problems.problems.length > before ? undefined : { name, inputs, outputs, parameters };
  }

  private async each<T>(
    content: Fields,
    list: 'inputs' | 'outputs',
    read: (field: string, entry: Fields) => Promise<T>,
  ): Promise<T[]> {
    const entries = content[list];
    if (!Array.isArray(entries) || (list === 'outputs' && entries.length === 0)) {
      const message = Array.isArray(entries)
        ? 'must not be empty'
        : `must be a list of tensors, got ${describe(entries)}`;
      this.problems.add(list, message);
      return [];
    }
    const found: T[] = [];
    const names = new Set<unknown>();
    for (const [i, entry] of (entries as unknown[]).entries()) {
      const field = `${list}[${i}]`;
      try {
        if (!isFields(entry)) throw new GoldenRequestError(field, `must be a mapping, got ${describe(entry)}`);
        if (names.has(entry['name']))
          throw new GoldenRequestError(`${field}.name`, `${describe(entry['name'])} is given twice`);
        names.add(entry['name']);
        found.push(await read(field, entry));
      } catch (error) {
        if (error instanceof GoldenRequestError) this.problems.add(error.field, error.message, error.more);
        else throw error;
      }
    }
    return found;
  }

  private async readInput(field: string, entry: Fields): Promise<Tensor> {
    this.checkKeys(field, entry, ['name', 'datatype', 'shape', 'data', 'file']);
    const configured = this.find(field, entry, this.config.input ?? [], 'input');
    return this.readTensor(field, entry, configured);
  }

  private async readOutput(field: string, entry: Fields): Promise<ExpectedOutput> {
    this.checkKeys(field, entry, ['name', 'datatype', 'shape', 'data', 'file', 'tolerance']);
    const configured = this.find(field, entry, this.config.output ?? [], 'output');
    const tensor = await this.readTensor(field, entry, configured);
    return { name: tensor.name, tensor, tolerance: readTolerance(field, entry['tolerance'], tensor.datatype) };
  }

  /** Returns the tensor's configuration; undefined if the configuration lists no inputs or no outputs at all. */
  private find(
    field: string,
    { name }: Fields,
    tensors: readonly TensorConfig[],
    kind: 'input' | 'output',
  ): TensorConfig | undefined {
    if (typeof name !== 'string' || name === '') {
      throw new GoldenRequestError(`${field}.name`, `must be the name of an ${kind}, got ${describe(name)}`);
    }
    if (tensors.length === 0) return undefined;
    const found = tensors.find((tensor) => tensor.name === name);
    if (found !== undefined) return found;
    const names = tensors.map((tensor) => tensor.name ?? '');
    throw new GoldenRequestError(`${field}.name`, `the model has no ${kind} ${describe(name)}`, {
      allowed: formatList(names),
      hint: didYouMean(name, names),
    });
  }

  private async readTensor(field: string, entry: Fields, configured: TensorConfig | undefined): Promise<Tensor> {
    const { name, data, file } = entry;
    const shape = readShape(`${field}.shape`, entry['shape']);
    if ((data === undefined) === (file === undefined)) {
      throw new GoldenRequestError(field, data === undefined ? 'has neither data nor file' : 'has both data and file', {
        allowed: 'one of them',
      });
    }
    const part = `${field}.${file === undefined ? 'data' : 'file'}`;
    try {
      const tensor =
        file === undefined
          ? tensorFromJson(name as string, readDataType(field, entry, configured), data, shape)
          : await this.fromFile(field, entry, shape, configured);
      this.checkShape(field, tensor.shape, configured);
      return { ...tensor, name: name as string };
    } catch (error) {
      if (error instanceof GoldenRequestError) throw error;
      if (error instanceof UserError) throw new GoldenRequestError(part, error.message, { hint: error.hint });
      // The nesting is deeper than the call stack.
      if (error instanceof RangeError) throw new GoldenRequestError(part, 'is nested too deeply');
      throw error;
    }
  }

  private async fromFile(
    field: string,
    entry: Fields,
    shape: number[] | undefined,
    configured: TensorConfig | undefined,
  ): Promise<Tensor> {
    const { name, file, datatype: given } = entry;
    if (typeof file !== 'string')
      throw new GoldenRequestError(`${field}.file`, `must be the path of a .npy file, got ${describe(file)}`);
    const read = await this.readFile(file);
    const isKnown = configured !== undefined || given !== undefined;
    const tensor = convertArray(read, name as string, isKnown ? readDataType(field, entry, configured) : read.datatype);
    if (shape !== undefined) requireCount(tensor, shape);
    return { ...tensor, shape: shape ?? tensor.shape };
  }

  private checkShape(field: string, shape: readonly number[], configured: TensorConfig | undefined): void {
    // Shape tensors have their own rules for the batch axis.
    if (configured?.dims === undefined || configured.is_shape_tensor === true) return;
    const wanted = requestShape(this.config, configured);
    const most = this.config.max_batch_size ?? 0;
    const [rows = 0] = shape;
    const fits = fitsShape(shape, wanted) && (!hasBatchAxis(this.config) || (rows >= 1 && rows <= most));
    if (fits) return;
    const batch = hasBatchAxis(this.config) ? `, where the first axis is the batch, 1 to ${most}` : '';
    throw new GoldenRequestError(field, `has shape [${shape.join(', ')}]`, {
      allowed: `[${wanted.join(', ')}]${batch}`,
    });
  }

  private checkComplete(inputs: readonly Tensor[]): void {
    for (const { name = '', optional } of this.config.input ?? []) {
      if (optional === true || inputs.some((input) => input.name === name)) continue;
      this.problems.add('inputs', `input ${describe(name)} is missing`);
    }
  }

  private readParameters(value: unknown): GoldenRequest['parameters'] {
    if (value === undefined) return {};
    if (!isFields(value)) {
      this.problems.add('parameters', `must be a mapping, got ${describe(value)}`);
      return {};
    }
    for (const [key, parameter] of Object.entries(value)) {
      if (['string', 'number', 'boolean'].includes(typeof parameter)) continue;
      const message = `must be a string, a number or a boolean, got ${describe(parameter)}`;
      this.problems.add(fieldPath('parameters', key), message);
    }
    return value as GoldenRequest['parameters'];
  }

  private checkKeys(field: string, entry: Fields, known: readonly string[]): void {
    for (const key of Object.keys(entry)) {
      if (known.includes(key)) continue;
      this.problems.add(fieldPath(field, key), 'is an unknown field', {
        allowed: known.join(', '),
        hint: didYouMean(key, known),
      });
    }
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the configured data type. If the request gives a data type, both must be equal. */
function readDataType(field: string, { datatype: given }: Fields, configured: TensorConfig | undefined): DataType {
  const wanted = configured === undefined ? undefined : getDataType(configured);
  if (given === undefined) {
    if (wanted !== undefined) return wanted;
    throw new GoldenRequestError(`${field}.datatype`, 'is missing, and the configuration does not give it', {
      allowed: Object.keys(DATA_TYPES).join(', '),
    });
  }
  if (typeof given === 'string' && isDataType(given) && (wanted ?? given) === given) return given;
  const expected = wanted === undefined ? 'a data type' : 'the data type of the configuration';
  throw new GoldenRequestError(`${field}.datatype`, `is not ${expected}, got ${describe(given)}`, {
    allowed: wanted ?? Object.keys(DATA_TYPES).join(', '),
  });
}

function readShape(field: string, value: unknown): number[] | undefined {
  if (value === undefined) return undefined;
  const isLength = (length: unknown): boolean => Number.isSafeInteger(length) && (length as number) >= 0;
  if (Array.isArray(value) && value.every(isLength)) return value as number[];
  throw new GoldenRequestError(field, `must be a list of whole numbers from 0, got ${JSON.stringify(value)}`);
}

function readTolerance(field: string, value: unknown, datatype: DataType): Tolerance {
  const usual = isFloat(datatype) ? DEFAULT_TOLERANCE : NO_TOLERANCE;
  if (value === undefined) return usual;
  if (!isFields(value)) {
    throw new GoldenRequestError(`${field}.tolerance`, `must be a mapping, got ${describe(value)}`, {
      allowed: '{ "absolute": ..., "relative": ... }',
    });
  }
  if (datatype === 'BYTES')
    throw new GoldenRequestError(`${field}.tolerance`, 'cannot be set for strings, which must be equal');
  for (const [key, number] of Object.entries(value)) {
    const at = fieldPath(`${field}.tolerance`, key);
    if (key !== 'absolute' && key !== 'relative') {
      throw new GoldenRequestError(at, 'is an unknown field', { allowed: 'absolute, relative' });
    }
    if (typeof number !== 'number' || !(number >= 0) || !Number.isFinite(number)) {
      throw new GoldenRequestError(at, `must be a number from 0, got ${describe(number)}`);
    }
  }
  // If only one of the two is given, the other is 0.
  return { ...NO_TOLERANCE, ...(value as Partial<Tolerance>) };
}
