import { UserError } from '../core/errors';
import { DATA_TYPES, isFloat, type DataType, type Tensor, type TensorData } from './tensor';

/** Elements as JSON has them: numbers, booleans and strings in arrays of arrays; a single one is a scalar. */
export type Nested = Scalar | readonly Nested[];
type Scalar = number | bigint | boolean | string | Buffer;

/**
 * A tensor of nested arrays, whose nesting is its shape.
 * @throws UserError where rows differ in length, or an element is not one of the data type's
 */
export function tensorOf(name: string, datatype: DataType, nested: Nested): Tensor {
  const shape: number[] = [];
  for (let part = nested; isArray(part); part = part[0] as Nested) {
    shape.push(part.length);
    if (part.length === 0) break;
  }
  const elements: Scalar[] = [];
  collect(nested, shape, 0, elements, name);
  return { name, datatype, shape, data: convert(name, datatype, elements) } as Tensor;
}

/** The values of a tensor in nested arrays; BYTES as text, INT64 and UINT64 as numbers where those are exact. */
export function nestedOf({ shape, data }: Tensor): unknown {
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

/** The values that are left of floating point numbers after they were sent: of 16 bits there are fewer than of 32. */
function asSent(datatype: 'FP32', data: Float32Array): Float32Array {
  const { decode, encode } = DATA_TYPES[datatype];
  return decode(encode(data), '');
}

function convert(name: string, datatype: DataType, elements: readonly Scalar[]): TensorData[DataType] {
  const refuse = (value: Scalar): UserError =>
    new UserError(
      `tensor '${name}': ${typeof value === 'string' ? JSON.stringify(value) : String(value)} is no ${datatype}`,
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
  // Beyond its range an integer would have become another one, and a fraction infinite.
  const isFraction = isFloat(datatype);
  const held = isFraction ? asSent(datatype as 'FP32', data as Float32Array) : data;
  numbers.forEach((value, i) => {
    const isHeld = isFraction ? !Number.isFinite(Number(value)) || Number.isFinite(held[i]) : held[i] === Number(value);
    if (!isHeld) throw refuse(value);
  });
  return data;
}
