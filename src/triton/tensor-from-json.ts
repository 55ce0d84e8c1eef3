import { UserError } from '../core/errors';
import { toTensor, type Nested } from './nested';
import { DATA_TYPES, elementCount, isFloat, type DataType, type Tensor } from './tensor';

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
  const values = elements(data, datatype, shape !== undefined);
  // Floats are converted by way of 64 bits, so that the tensor holds values that the wire format can represent.
  const tensor = isFloat(datatype)
    ? convertTensor(toTensor(name, 'FP64', values), datatype)
    : toTensor(name, datatype, values);
  if (shape === undefined) return tensor;
  requireCount(tensor, shape);
  return { ...tensor, shape };
}

/** The elements in the form that toTensor takes. With `flat` their nesting is dropped, because it is not the shape. */
function elements(data: unknown, datatype: DataType, flat: boolean): Nested {
  if (!Array.isArray(data)) return flat ? [element(data, datatype)] : element(data, datatype);
  if (!flat) return data.map((part: unknown) => elements(part, datatype, false));
  const all: Nested[] = [];
  for (const part of data.flat(Infinity)) all.push(element(part, datatype));
  return all;
}

function element(value: unknown, datatype: DataType): Nested {
  if (isFloat(datatype) && SPECIAL.has(value)) return SPECIAL.get(value) as number;
  if (['number', 'bigint', 'string', 'boolean'].includes(typeof value)) return value as Nested;
  throw new UserError(`${JSON.stringify(value, writtenOut)} cannot be an element of a tensor of ${datatype}`);
}

const writtenOut = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);

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
  const [fromFloat, toFloat] = [isFloat(tensor.datatype), isFloat(datatype)];
  if (!isConvertible(tensor.datatype, datatype))
    throw new UserError(`${tensor.datatype} cannot be converted to ${datatype}`);
  const { ArrayType, encode, decode } = DATA_TYPES[datatype as 'FP32'];
  const data = new ArrayType(tensor.data.length) as unknown as (number | bigint)[];
  const isWide = datatype === 'INT64' || datatype === 'UINT64';
  Array.from<number | bigint | Buffer>(tensor.data).forEach((value, i) => {
    data[i] = isWide ? BigInt(value as number) : Number(value);
  });
  // FP16 and BF16 are stored in 32 bits. Encoding and decoding rounds them to values that the wire format can
  // represent.
  const held = toFloat ? decode(encode(data as unknown as Float32Array), tensor.name) : data;
  Array.from<number | bigint | Buffer>(tensor.data).forEach((value, i) => {
    const now = (held as ArrayLike<number | bigint>)[i] as number | bigint;
    // Floats may be rounded; integers must keep their value.
    const isSame = fromFloat
      ? Number.isFinite(now) === Number.isFinite(value)
      : (typeof now === 'bigint' || Number.isFinite(now)) && BigInt(now) === BigInt(value as number);
    if (!isSame) throw new UserError(`${String(value)} does not fit into ${datatype}`);
  });
  return { name: tensor.name, datatype, shape: tensor.shape, data: held } as unknown as Tensor;
}

/** @throws UserError if a shape has another number of elements */
export function requireCount({ data }: Tensor, shape: readonly number[]): void {
  if (data.length === elementCount(shape)) return;
  throw new UserError(`${data.length} elements for shape [${shape.join(', ')}], which holds ${elementCount(shape)}`);
}
