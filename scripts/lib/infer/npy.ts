import { UserError } from '../errors';
import { decodeTensor, encodeTensor, type DataType, type Tensor } from '../triton/tensor';

/** NumPy's names of the data types that it has too; BOOL is a byte of 0 or 1 in both. */
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

/** `float32`; undefined for what NumPy does not have. */
export function numpyName(datatype: DataType): string | undefined {
  if (DESCRIPTIONS[datatype] === undefined) return undefined;
  return datatype === 'BOOL' ? 'bool_' : datatype.toLowerCase().replace('fp', 'float');
}

const MAGIC = Buffer.from('\x93NUMPY', 'latin1');
/** The data begins at a multiple of it. */
const ALIGNMENT = 64;

const HINT = 'save it again with numpy.save(FILE, array)';

/**
 * Reads an array as `numpy.save` writes it.
 * @throws UserError where it is no such file, or of a type that Triton does not have
 */
export function readNpy(file: string, bytes: Buffer): Tensor {
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) {
    throw new UserError(`${file} is not a file of numpy.save`, { hint: HINT });
  }
  // Version 1 has a length of two bytes, later ones of four.
  const wide = (bytes[6] ?? 0) > 1;
  const start = wide ? 12 : 10;
  const end = bytes.length < start ? Infinity : start + (wide ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8));
  if (end > bytes.length) throw new UserError(`${file} is cut short`, { hint: HINT });
  const header = bytes.toString('latin1', start, end);
  const description = /'descr': *'([^']*)'/.exec(header)?.[1];
  const shape = /'shape': *\(([^)]*)\)/.exec(header)?.[1];
  const known = Object.entries(DESCRIPTIONS).find(([, name]) => name === description)?.[0];
  if (known === undefined || shape === undefined) {
    throw new UserError(
      `${file}: type ${description ?? 'of a structure'}; allowed: ${Object.values(DESCRIPTIONS).join(' ')}`,
      { hint: 'save it with .astype(...) of one of these; strings go into a .json file' },
    );
  }
  if (/'fortran_order': *True/.test(header)) {
    throw new UserError(`${file} is in Fortran order`, { hint: 'save numpy.ascontiguousarray(array)' });
  }
  const lengths = shape
    .split(',')
    .filter((length) => length.trim() !== '')
    .map(Number);
  try {
    return decodeTensor(file, known, lengths, bytes.subarray(end));
  } catch (cause) {
    throw new UserError(`${file} is cut short or too long: ${(cause as Error).message}`, { hint: HINT, cause });
  }
}

/**
 * An array as `numpy.load` reads it. NumPy has no BF16, which is written as float32 that holds each of its values.
 * @throws UserError for BYTES
 */
export function writeNpy(tensor: Tensor): Buffer {
  const held = tensor.datatype === 'BF16' ? { ...tensor, datatype: 'FP32' as const } : tensor;
  const description = DESCRIPTIONS[held.datatype];
  if (description === undefined) {
    throw new UserError(`output ${tensor.name} is ${tensor.datatype}, which .npy does not hold`, {
      hint: 'write a .json',
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
