import { UserError } from '../core/errors';
import { decodeBfloat16, decodeFloat16, encodeBfloat16, encodeFloat16 } from './half';

/**
 * JavaScript types of the elements of each data type. BOOL is 0 or 1. FP16 and BF16 are widened to 32 bits, which can
 * hold each of their values. BYTES is one buffer per element.
 */
export interface TensorData {
  BOOL: Uint8Array;
  UINT8: Uint8Array;
  UINT16: Uint16Array;
  UINT32: Uint32Array;
  UINT64: BigUint64Array;
  INT8: Int8Array;
  INT16: Int16Array;
  INT32: Int32Array;
  INT64: BigInt64Array;
  FP16: Float32Array;
  BF16: Float32Array;
  FP32: Float32Array;
  FP64: Float64Array;
  BYTES: readonly Buffer[];
}

/** Name of a data type in requests and responses, such as FP32. */
export type DataType = keyof TensorData;

/** An input or output. `shape` includes the batch axis, if the model has one. Elements are in C order. */
export type Tensor = {
  [T in DataType]: { name: string; datatype: T; shape: readonly number[]; data: TensorData[T] };
}[DataType];

interface DataTypeFacts<T extends DataType> {
  /** Name in a model's configuration. */
  configName: string;
  /** Bytes of one element on the wire; undefined if elements differ in size. */
  elementBytes: number | undefined;
  /** Constructor of the container for the elements. */
  ArrayType: new (length: number) => TensorData[T];
  encode: (data: TensorData[T]) => Buffer;
  /** `bytes` must hold whole elements if their size is fixed. `name` is for the error message. */
  decode: (bytes: Buffer, name: string) => TensorData[T];
}

interface NumericArrayType<A> {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): A;
}

/** The wire format is little-endian, and so is every machine with Node.js binaries except s390x. */
function numeric<T extends Exclude<DataType, 'BYTES'>>(
  configName: string,
  Type: NumericArrayType<TensorData[T]>,
): DataTypeFacts<T> & { elementBytes: number } {
  return {
    configName,
    elementBytes: Type.BYTES_PER_ELEMENT,
    ArrayType: Type as unknown as new (length: number) => TensorData[T],
    encode: (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength),
    decode: (bytes) => {
      // A view if the alignment allows it, otherwise a copy.
      const aligned = bytes.byteOffset % Type.BYTES_PER_ELEMENT === 0 ? bytes : new Uint8Array(bytes);
      return new Type(aligned.buffer, aligned.byteOffset, bytes.byteLength / Type.BYTES_PER_ELEMENT);
    },
  };
}

function half<T extends 'FP16' | 'BF16'>(
  configName: string,
  encode: (values: Float32Array) => Uint16Array,
  decode: (bits: Uint16Array) => Float32Array,
): DataTypeFacts<T> {
  const bits = numeric<'UINT16'>(configName, Uint16Array);
  return {
    configName,
    elementBytes: bits.elementBytes,
    ArrayType: Float32Array,
    encode: (data) => bits.encode(encode(data)),
    decode: (bytes, name) => decode(bits.decode(bytes, name)),
  };
}

/** Each element: its length as 32 bits, then its bytes. */
const bytesType: DataTypeFacts<'BYTES'> = {
  configName: 'TYPE_STRING',
  elementBytes: undefined,
  ArrayType: Array<Buffer>,
  encode: (data) =>
    Buffer.concat(
      data.flatMap((element) => {
        const length = Buffer.alloc(4);
        length.writeUInt32LE(element.length);
        return [length, element];
      }),
    ),
  decode: (bytes, name) => {
    const elements: Buffer[] = [];
    for (let offset = 0; offset < bytes.length;) {
      const start = offset + 4;
      const end = start <= bytes.length ? start + bytes.readUInt32LE(offset) : Infinity;
      if (end > bytes.length) throw new UserError(`tensor '${name}': element ${elements.length} is incomplete`);
      elements.push(bytes.subarray(start, end));
      offset = end;
    }
    return elements;
  },
};

export const DATA_TYPES: { readonly [T in DataType]: DataTypeFacts<T> } = {
  BOOL: numeric('TYPE_BOOL', Uint8Array),
  UINT8: numeric('TYPE_UINT8', Uint8Array),
  UINT16: numeric('TYPE_UINT16', Uint16Array),
  UINT32: numeric('TYPE_UINT32', Uint32Array),
  UINT64: numeric('TYPE_UINT64', BigUint64Array),
  INT8: numeric('TYPE_INT8', Int8Array),
  INT16: numeric('TYPE_INT16', Int16Array),
  INT32: numeric('TYPE_INT32', Int32Array),
  INT64: numeric('TYPE_INT64', BigInt64Array),
  FP16: half('TYPE_FP16', encodeFloat16, decodeFloat16),
  BF16: half('TYPE_BF16', encodeBfloat16, decodeBfloat16),
  FP32: numeric('TYPE_FP32', Float32Array),
  FP64: numeric('TYPE_FP64', Float64Array),
  BYTES: bytesType,
};

/** Product of the lengths; 1 for a scalar. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

/**
 * The tensor's elements in wire format.
 * @throws UserError if shape and data disagree
 */
export function encodeTensor(tensor: Tensor): Buffer {
  const { name, datatype, shape, data } = tensor;
  if (!shape.every((length) => Number.isSafeInteger(length) && length >= 0)) {
    throw new UserError(`tensor '${name}': shape [${shape.join(', ')}]; allowed: whole numbers from 0`);
  }
  if (data.length !== elementCount(shape)) {
    throw new UserError(
      `tensor '${name}': ${data.length} elements for shape [${shape.join(', ')}], which holds ${elementCount(shape)}`,
    );
  }
  return (DATA_TYPES[datatype] as DataTypeFacts<DataType>).encode(data);
}

/**
 * Creates a tensor from elements in wire format. May share memory with `bytes`.
 * @throws UserError if the bytes do not fit the type and shape
 */
export function decodeTensor(name: string, datatype: string, shape: readonly number[], bytes: Buffer): Tensor {
  if (!isDataType(datatype)) {
    throw new UserError(
      `tensor '${name}': unknown data type ${datatype}; known: ${Object.keys(DATA_TYPES).join(', ')}`,
    );
  }
  const { elementBytes, decode } = DATA_TYPES[datatype];
  const count = elementCount(shape);
  if (elementBytes !== undefined && bytes.length !== count * elementBytes) {
    throw new UserError(
      `tensor '${name}': ${bytes.length} bytes for ${datatype} of shape [${shape.join(', ')}], which has ${count * elementBytes}`,
    );
  }
  const data = decode(bytes, name);
  if (data.length !== count) {
    throw new UserError(
      `tensor '${name}': ${data.length} elements for shape [${shape.join(', ')}], which holds ${count}`,
    );
  }
  return { name, datatype, shape, data } as Tensor;
}

/**
 * A tensor of zeros or empty strings.
 * @throws UserError if the data type is unknown
 */
export function zeroTensor(name: string, datatype: string, shape: readonly number[]): Tensor {
  // An empty string is encoded as its length, in four bytes.
  const bytes = isDataType(datatype) ? (DATA_TYPES[datatype].elementBytes ?? 4) : 0;
  return decodeTensor(name, datatype, shape, Buffer.alloc(elementCount(shape) * bytes));
}

const FLOATS: readonly string[] = ['FP16', 'BF16', 'FP32', 'FP64'];

/** Whether a data type holds fractions, NaN and infinity. */
export const isFloat = (datatype: DataType): boolean => FLOATS.includes(datatype);

export function isDataType(name: string): name is DataType {
  return Object.hasOwn(DATA_TYPES, name);
}

/** Rows of a batch, without copying elements. */
export function sliceRows(tensor: Tensor, start: number, end: number): Tensor {
  const size = elementCount(tensor.shape.slice(1));
  const cut = (from: number, to: number) =>
    Array.isArray(tensor.data) ? tensor.data.slice(from, to) : (tensor.data as Uint8Array).subarray(from, to);
  return { ...tensor, shape: [end - start, ...tensor.shape.slice(1)], data: cut(start * size, end * size) } as Tensor;
}

/**
 * Joins batches into one, row after row.
 * @throws UserError if the batches differ in more than the number of rows
 */
export function joinRows(parts: readonly Tensor[]): Tensor {
  const [first, ...others] = parts as [Tensor, ...Tensor[]];
  for (const { name, datatype, shape } of others) {
    if (name !== first.name || datatype !== first.datatype || String(shape.slice(1)) !== String(first.shape.slice(1))) {
      throw new UserError(
        `the parts of a batch cannot be joined: '${first.name}' ${first.datatype} [${first.shape.join(', ')}] and '${name}' ${datatype} [${shape.join(', ')}]`,
      );
    }
  }
  const rows = parts.reduce((sum, { shape }) => sum + (shape[0] ?? 0), 0);
  const shape = [rows, ...first.shape.slice(1)];
  if (first.datatype === 'BYTES') {
    return { ...first, shape, data: parts.flatMap(({ data }) => data as readonly Buffer[]) };
  }
  const data = new DATA_TYPES[first.datatype].ArrayType(elementCount(shape)) as Uint8Array;
  let offset = 0;
  for (const part of parts) {
    data.set(part.data as Uint8Array, offset);
    offset += part.data.length;
  }
  return { ...first, shape, data } as Tensor;
}
