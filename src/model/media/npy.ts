import { UserError } from '../../core/errors';
import { convertTensor, isConvertible } from '../../triton/tensor-from-json';
import { decodeTensor, encodeTensor, type DataType, type Tensor } from '../../triton/tensor';

/** NumPy's type descriptions of the data types that NumPy supports. BOOL is a byte of 0 or 1 in both. */
const DESCRIPTIONS: Partial<Record<DataType, string>> = {
  BOOL: '|b1',
  UINT8: '|u1',
  UINT16: '<u2',
  UINT32: '<u4',
  UINT64: '<u8',
  INT8: '|i1',
  INT16: '<i2',
  INT32: '<i4',
  INT64: '<i8',
  FP16: '<f2',
  FP32: '<f4',
  FP64: '<f8',
};

/** NumPy's name of a data type, such as `float32`; undefined if NumPy does not support the data type. */
function numpyName(datatype: DataType): string | undefined {
  if (DESCRIPTIONS[datatype] === undefined) return undefined;
  return datatype === 'BOOL' ? 'bool_' : datatype.toLowerCase().replace('fp', 'float');
}

const MAGIC = Buffer.from('\x93NUMPY', 'latin1');
/** The data begins at a multiple of this many bytes. */
const ALIGNMENT = 64;

const HINT = 'save it again with numpy.save(FILE, array)';

/**
 * Reads an array in the format of `numpy.save`.
 * @throws UserError if the file has another format, or a type that Triton does not support
 */
export function readNpy(file: string, bytes: Buffer): Tensor {
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) {
    throw new UserError(`${file} is not a .npy file`, { hint: HINT });
  }
  // The header's length has two bytes in version 1 and four in later versions.
  const wide = (bytes[6] ?? 0) > 1;
  const start = wide ? 12 : 10;
  const end = bytes.length < start ? Infinity : start + (wide ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8));
  if (end > bytes.length) throw new UserError(`${file} is truncated`, { hint: HINT });
  const header = bytes.toString('latin1', start, end);
  const description = /'descr': *'([^']*)'/.exec(header)?.[1];
  const shape = /'shape': *\(([^)]*)\)/.exec(header)?.[1];
  const known = Object.entries(DESCRIPTIONS).find(([, name]) => name === description)?.[0];
  if (known === undefined || shape === undefined) {
    throw new UserError(
      `${file} has type ${description ?? 'of a structure'}; allowed: ${Object.values(DESCRIPTIONS).join(' ')}`,
      { hint: 'convert the array with .astype(...); write strings to a .json file' },
    );
  }
  if (/'fortran_order': *True/.test(header)) {
    throw new UserError(`${file} is in Fortran order`, {
      hint: 'save it again with numpy.save(FILE, numpy.ascontiguousarray(array))',
    });
  }
  const lengths = shape
    .split(',')
    .filter((length) => length.trim() !== '')
    .map(Number);
  try {
    return decodeTensor(file, known, lengths, bytes.subarray(end));
  } catch (cause) {
    throw new UserError(`${file} is truncated or too long: ${(cause as Error).message}`, { hint: HINT, cause });
  }
}

/**
 * Converts an array of a file to the data type of an input or output. NumPy uses float64 and int64 for numbers without
 * a type.
 * @param array its name is the file
 * @param name of the input or output
 * @throws UserError if a value does not fit
 */
export function convertArray(array: Tensor, name: string, datatype: DataType): Tensor {
  try {
    return convertTensor(array, datatype);
  } catch (cause) {
    if (!(cause instanceof UserError)) throw cause;
    const [is, needed] = [numpyName(array.datatype), numpyName(datatype)];
    const hint = isConvertible(array.datatype, datatype)
      ? `save the file with values that ${datatype} can represent`
      : needed === undefined
        ? `write a .json file for ${datatype}`
        : `save it with .astype(numpy.${needed}), if the values keep their meaning`;
    throw new UserError(`${array.name} is ${is}, but ${name} is ${datatype}: ${cause.message}`, { hint, cause });
  }
}

/**
 * Encodes a tensor in the format of `numpy.load`. NumPy does not support BF16, so BF16 is written as float32, which can
 * hold each of its values.
 * @throws UserError for BYTES
 */
export function writeNpy(tensor: Tensor): Buffer {
  const held = tensor.datatype === 'BF16' ? { ...tensor, datatype: 'FP32' as const } : tensor;
  const description = DESCRIPTIONS[held.datatype];
  if (description === undefined) {
    throw new UserError(`output ${tensor.name} is ${tensor.datatype}, which .npy does not support`, {
      hint: 'write it to a .json file',
    });
  }
  const shape = `(${held.shape.join(', ')}${held.shape.length === 1 ? ',' : ''})`;
  const header = `{'descr': '${description}', 'fortran_order': False, 'shape': ${shape}, }`;
  const space = ALIGNMENT - ((MAGIC.length + 4 + header.length + 1) % ALIGNMENT);
  const text = Buffer.from(`${header}${' '.repeat(space % ALIGNMENT)}\n`, 'latin1');
  const length = Buffer.alloc(2);
  length.writeUInt16LE(text.length);
  return Buffer.concat([MAGIC, Buffer.of(1, 0), length, text, encodeTensor(held)]);
}
