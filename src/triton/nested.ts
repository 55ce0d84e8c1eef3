import { UserError } from '../core/errors';
import { DATA_TYPES, isFloat, type DataType, type Tensor, type TensorData } from './tensor';

/** Elements as in JSON: numbers, booleans and strings in nested arrays, or a single value for a scalar. */
export type Nested = Scalar | readonly Nested[];
type Scalar = number | bigint | boolean | string | Buffer;

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
  return { name, datatype, shape, data: convert(name, datatype, elements) } as Tensor;
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

function isArray(value: Nested): value is readonly Nested[] {
  return Array.isArray(value);
}

function collect(part: Nested, shape: readonly number[], depth: number, into: Scalar[], name: string): void {
  if (!isArray(part)) {
    if (depth !== shape.length) throw uneven(name, depth, shape);
    into.push(part);
    return;
  }
  if (part.length !== shape[depth]) throw uneven(name, depth, shape);
  for (const one of part) collect(one, shape, depth + 1, into, name);
}

function uneven(name: string, depth: number, shape: readonly number[]): UserError {
  return new UserError(
    `tensor '${name}': rows of axis ${depth} differ in length; the first ones give [${shape.join(', ')}]`,
  );
}

/** The values as the server receives them: 16 bits represent fewer values than the 32 bits in memory. */
function asSent(datatype: 'FP32', data: Float32Array): Float32Array {
  const { decode, encode } = DATA_TYPES[datatype];
  return decode(encode(data), '');
}

function convert(name: string, datatype: DataType, elements: readonly Scalar[]): TensorData[DataType] {
  const refuse = (value: Scalar): UserError =>
    new UserError(
      `tensor '${name}': ${typeof value === 'string' ? JSON.stringify(value) : String(value)} is not a valid ${datatype} value`,
    );
  if (datatype === 'BYTES') {
    return elements.map((value) => {
      if (typeof value !== 'string' && !Buffer.isBuffer(value)) throw refuse(value);
      return Buffer.from(value as string);
    });
  }
  const numbers = elements.map((value) => {
    if (typeof value === 'string' || Buffer.isBuffer(value)) throw refuse(value);
    if (datatype === 'BOOL' && value !== true && value !== false && value !== 0 && value !== 1) throw refuse(value);
    return value;
  });
  if (datatype === 'INT64' || datatype === 'UINT64') {
    const whole = numbers.map((value) => {
      if (typeof value === 'number' && !Number.isSafeInteger(value)) throw refuse(value);
      return BigInt(value);
    });
    const data = datatype === 'INT64' ? BigInt64Array.from(whole) : BigUint64Array.from(whole);
    whole.forEach((value, i) => {
      if (data[i] !== value) throw refuse(value);
    });
    return data;
  }
  const data = new DATA_TYPES[datatype].ArrayType(numbers.length);
  numbers.forEach((value, i) => (data[i] = Number(value)));
  // Refuse values that the data type cannot hold: an integer would have changed, and a float would have become
  // infinite.
  const isFraction = isFloat(datatype);
  const held = isFraction ? asSent(datatype as 'FP32', data as Float32Array) : data;
  numbers.forEach((value, i) => {
    const isHeld = isFraction ? !Number.isFinite(Number(value)) || Number.isFinite(held[i]) : held[i] === Number(value);
    if (!isHeld) throw refuse(value);
  });
  return data;
}
