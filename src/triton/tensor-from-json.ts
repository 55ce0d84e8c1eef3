import { UserError } from '../core/errors';
import { tensorOf, type Nested } from './nested';
import { DATA_TYPES, elementCount, isFloat, type DataType, type Tensor } from './tensor';

/** JSON has no names for these. */
const SPECIAL: ReadonlyMap<unknown, number> = new Map([
  ['NaN', NaN],
  ['Infinity', Infinity],
  ['-Infinity', -Infinity],
]);

/**
 * A tensor of JSON values, nested or, with a shape, in C order.
 * @throws UserError where they do not fit the data type or the shape
 */
export function tensorFromJson(
  name: string,
  datatype: DataType,
  data: unknown,
  shape: readonly number[] | undefined,
): Tensor {
  const values = elements(data, datatype, shape !== undefined);
  // By way of 64 bits, so that the tensor holds the values that the wire can hold.
  const tensor = isFloat(datatype)
    ? convertTensor(tensorOf(name, 'FP64', values), datatype)
    : tensorOf(name, datatype, values);
  if (shape === undefined) return tensor;
  requireCount(tensor, shape);
  return { ...tensor, shape };
}

/** The elements as tensorOf takes them; flat where the nesting is not the shape. */
function elements(data: unknown, datatype: DataType, flat: boolean): Nested {
  if (!Array.isArray(data)) return flat ? [element(data, datatype)] : element(data, datatype);
  if (!flat) return data.map((part: unknown) => elements(part, datatype, false));
  const all: Nested[] = [];
  for (const part of data.flat(Infinity)) all.push(element(part, datatype));
  return all;
}

function element(value: unknown, datatype: DataType): Nested {
  if (isFloat(datatype) && SPECIAL.has(value)) return SPECIAL.get(value) as number;
  if (typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean') return value;
  throw new UserError(`${JSON.stringify(value)} is no element of a ${datatype} tensor`);
}

const isNumber = (datatype: DataType): boolean => datatype !== 'BOOL' && datatype !== 'BYTES';

/** Whether values of one data type may become another one, as far as they fit. Fractions do not become whole numbers. */
export const isConvertible = (from: DataType, to: DataType): boolean =>
  from === to || (isNumber(from) && isNumber(to) && !(isFloat(from) && !isFloat(to)));

/**
 * The same values in another data type.
 * @throws UserError where a value would become another one, or the kinds differ
 */
export function convertTensor(tensor: Tensor, datatype: DataType): Tensor {
  if (tensor.datatype === datatype) return tensor;
  const [fromFloat, toFloat] = [isFloat(tensor.datatype), isFloat(datatype)];
  if (!isConvertible(tensor.datatype, datatype)) throw new UserError(`it holds ${tensor.datatype}`);
  const { ArrayType, encode, decode } = DATA_TYPES[datatype as 'FP32'];
  const data = new ArrayType(tensor.data.length) as unknown as (number | bigint)[];
  const isWide = datatype === 'INT64' || datatype === 'UINT64';
  Array.from<number | bigint | Buffer>(tensor.data).forEach((value, i) => {
    data[i] = isWide ? BigInt(value as number) : Number(value);
  });
  // FP16 and BF16 are kept in 32 bits: encoded and decoded they have the values that the wire can hold.
  const held = toFloat ? decode(encode(data as unknown as Float32Array), tensor.name) : data;
  Array.from<number | bigint | Buffer>(tensor.data).forEach((value, i) => {
    const now = (held as ArrayLike<number | bigint>)[i] as number | bigint;
    // Fractions are rounded, as everywhere; a whole number stays the same one.
    const isSame = fromFloat
      ? Number.isFinite(now) === Number.isFinite(value)
      : (typeof now === 'bigint' || Number.isFinite(now)) && BigInt(now) === BigInt(value as number);
    if (!isSame) throw new UserError(`${String(value)} does not fit into ${datatype}`);
  });
  return { name: tensor.name, datatype, shape: tensor.shape, data: held } as unknown as Tensor;
}

/** @throws UserError where a shape holds another number of elements */
export function requireCount({ data }: Tensor, shape: readonly number[]): void {
  if (data.length === elementCount(shape)) return;
  throw new UserError(`${data.length} elements for shape [${shape.join(', ')}], which holds ${elementCount(shape)}`);
}
