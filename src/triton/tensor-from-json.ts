import { UserError } from '../core/errors';
import { exactValue } from '../core/exact-json';
import { DATA_TYPES, elementCount, isFloat, type DataType, type Tensor, type TensorData } from './tensor';

/** Elements as in JSON: numbers, booleans and strings in nested arrays, or a single value for a scalar. */
export type Nested = Scalar | readonly Nested[];
type Scalar = number | bigint | boolean | string | Buffer;

/** Numbers that JSON cannot express, by the string that stands for them. */
const SPECIAL: ReadonlyMap<unknown, number> = new Map([
  ['NaN', NaN],
  ['Infinity', Infinity],
  ['-Infinity', -Infinity],
]);

/**
 * Converts JSON values to a tensor. The values are nested or, if `shape` is given, in C order.
 * @throws UserError if the values do not fit the data type or the shape
 */
export function tensorFromJson(
  name: string,
  datatype: DataType,
  data: unknown,
  shape: readonly number[] | undefined,
): Tensor {
  const element = (value: unknown): Scalar => {
    if (isFloat(datatype) && SPECIAL.has(value)) return SPECIAL.get(value) as number;
    if (['number', 'bigint', 'string', 'boolean'].includes(typeof value)) return value as Scalar;
    throw new UserError(`${JSON.stringify(value, exactValue)} cannot be an element of a tensor of ${datatype}`);
  };
  const nest = (value: unknown): Nested => (Array.isArray(value) ? value.map(nest) : element(value));
  if (shape === undefined) return toTensor(name, datatype, nest(data));
  const flat: unknown[] = Array.isArray(data) ? data.flat(Infinity) : [data];
  const tensor = { ...toTensor(name, datatype, flat.map(element)), shape };
  requireCount(tensor, shape);
  return tensor;
}

/** @throws UserError if a shape has another number of elements */
export function requireCount({ data }: Tensor, shape: readonly number[]): void {
  if (data.length === elementCount(shape)) return;
  throw new UserError(`${data.length} elements for shape [${shape.join(', ')}], which holds ${elementCount(shape)}`);
}

/**
 * Converts nested arrays to a tensor. Their nesting is the shape.
 * @throws UserError if rows differ in length, or an element does not fit the data type
 */
export function toTensor(name: string, datatype: DataType, nested: Nested): Tensor {
  const shape: number[] = [];
  for (let part = nested; isArray(part); part = part[0] as Nested) {
    shape.push(part.length);
    if (part.length === 0) break;
  }
  const elements: Scalar[] = [];
  collect(nested, shape, 0, elements, name);
  const refuse = (value: Scalar): UserError => {
    const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
    return new UserError(`tensor '${name}': ${text} is not a valid ${datatype} value`);
  };
  return { name, datatype, shape, data: convert(datatype, elements, refuse) } as Tensor;
}

function isArray(value: Nested): value is readonly Nested[] {
  return Array.isArray(value);
}

function collect(part: Nested, shape: readonly number[], depth: number, into: Scalar[], name: string): void {
  const length = isArray(part) ? part.length : undefined;
  if (length !== shape[depth]) {
    throw new UserError(
      `tensor '${name}': rows of axis ${depth} differ in length; the first ones give [${shape.join(', ')}]`,
    );
  }
  if (!isArray(part)) into.push(part);
  else for (const one of part) collect(one, shape, depth + 1, into, name);
}

function convert(
  datatype: DataType,
  elements: readonly Scalar[],
  refuse: (value: Scalar) => UserError,
): TensorData[DataType] {
  const isText = (value: Scalar): value is string | Buffer => typeof value === 'string' || Buffer.isBuffer(value);
  if (datatype === 'BYTES') {
    return elements.map((value) => {
      if (!isText(value)) throw refuse(value);
      return Buffer.from(value as string);
    });
  }
  const numbers = elements.map((value) => {
    if (isText(value) || (datatype === 'BOOL' && ![true, false, 0, 1].includes(value as number))) throw refuse(value);
    return typeof value === 'boolean' ? Number(value) : value;
  });
  // Fractions may be rounded.
  return storeNumbers(datatype, numbers, isFloat(datatype), refuse);
}

/**
 * Stores numbers in the array of a data type, as the server receives them.
 * @param mayRound whether a finite number must only stay finite
 * @param refuse creates the error for a number that does not fit
 */
function storeNumbers(
  datatype: DataType,
  values: readonly (number | bigint)[],
  mayRound: boolean,
  refuse: (value: number | bigint) => UserError,
): TensorData[DataType] {
  const { ArrayType, encode, decode } = DATA_TYPES[datatype as 'FP32'];
  const isWide = datatype === 'INT64' || datatype === 'UINT64';
  const data = new ArrayType(values.length) as unknown as (number | bigint)[];
  values.forEach((value, i) => {
    // A number beyond 2^53 may have been rounded before.
    if (isWide && typeof value === 'number' && !Number.isSafeInteger(value)) throw refuse(value);
    data[i] = isWide ? BigInt(value) : Number(value);
  });
  // FP16 and BF16 are stored in 32 bits. Encoding and decoding rounds them to values that the wire format can represent.
  const held = isFloat(datatype) ? decode(encode(data as unknown as Float32Array), '') : data;
  values.forEach((value, i) => {
    const now = held[i] as number | bigint;
    const isSame = mayRound
      ? Number.isFinite(now) === Number.isFinite(Number(value))
      : typeof value === 'bigint'
        ? Number.isInteger(Number(now)) && BigInt(now) === value
        : Number(now) === value;
    if (!isSame) throw refuse(value);
  });
  return held as TensorData[DataType];
}

/** The values of a tensor in nested arrays. BYTES become text; INT64 and UINT64 become numbers if those are exact. */
export function toNested({ shape, data }: Tensor): unknown {
  const values = Array.from<number | bigint | Buffer, unknown>(data, (value) => {
    if (Buffer.isBuffer(value)) return value.toString();
    return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
  });
  let next = 0;
  const nest = (axis: number): unknown =>
    axis === shape.length ? values[next++] : Array.from({ length: shape[axis] ?? 0 }, () => nest(axis + 1));
  return nest(0);
}

const isNumber = (datatype: DataType): boolean => datatype !== 'BOOL' && datatype !== 'BYTES';

/**
 * Whether values of one data type can be converted to another one, if they fit. Floats are never converted to integers.
 */
export const isConvertible = (from: DataType, to: DataType): boolean =>
  from === to || (isNumber(from) && isNumber(to) && !(isFloat(from) && !isFloat(to)));

/**
 * Converts a tensor to another data type.
 * @throws UserError if a value does not fit, or the data types cannot be converted
 */
export function convertTensor(tensor: Tensor, datatype: DataType): Tensor {
  if (tensor.datatype === datatype) return tensor;
  if (!isConvertible(tensor.datatype, datatype))
    throw new UserError(`${tensor.datatype} cannot be converted to ${datatype}`);
  const values = Array.from(tensor.data as Iterable<number | bigint>);
  // Floats may be rounded; integers must keep their value.
  const data = storeNumbers(datatype, values, isFloat(tensor.datatype), (value) => {
    return new UserError(`${value} does not fit into ${datatype}`);
  });
  return { name: tensor.name, datatype, shape: tensor.shape, data } as Tensor;
}
