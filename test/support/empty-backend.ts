/**
 * The smallest shared library that Triton accepts as a backend. Its only function, which every backend must have, does
 * nothing. Models of this backend load in a millisecond and without a separate process. The backend answers no requests,
 * so a model with a warm-up would wait forever.
 *
 * An ELF file for x86-64, like the server (System V ABI, "Object Files").
 */
export function emptyBackend(): Buffer {
  const file = Buffer.alloc(DATA + 7 * 16);
  const strings = Buffer.from(`\0${FUNCTION}\0`, 'latin1');
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  file.set(u16(3, 62), 16); // A shared object for x86-64.
  file.set(u32(1), 20);
  file.set(u64(0, 64, 0), 24); // No entry; program headers follow at 64; no section headers.
  file.set(u16(64, 56, 4, 64), 52);
  const headers = [
    programHeader(LOAD, READ | EXECUTE, 0, CODE + 3),
    programHeader(LOAD, READ | WRITE, DATA, 7 * 16),
    programHeader(DYNAMIC, READ | WRITE, DATA, 7 * 16),
    // Without this header the linker would require an executable stack, which newer linkers refuse.
    programHeader(STACK, READ | WRITE, 0, 0),
  ];
  file.set(Buffer.concat(headers), 64);
  file.set(u32(1, 2, 1, 0, 0), HASH); // One bucket, two symbols: the function is symbol 1.
  file.set(Buffer.concat([u32(1), Buffer.from([0x12, 0]), u16(1), u64(CODE, 3)]), SYMBOLS + 24);
  file.set(strings, STRINGS);
  file.set([0x31, 0xc0, 0xc3], CODE); // xor eax, eax; ret: no error.
  // DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, and the end.
  file.set(u64(4, HASH, 5, STRINGS, 6, SYMBOLS, 10, strings.length, 11, 24, 0, 0), DATA);
  return file;
}

const FUNCTION = 'TRITONBACKEND_ModelInstanceExecute';
const [LOAD, DYNAMIC, STACK] = [1, 2, 0x6474e551];
const [EXECUTE, WRITE, READ] = [1, 2, 4];
/** Offsets of the parts, in the file and in memory. DATA, to which the linker writes, has its own page. */
const [HASH, SYMBOLS, STRINGS, CODE, DATA] = [0x120, 0x140, 0x180, 0x200, 0x1000];

const programHeader = (type: number, flags: number, at: number, bytes: number): Buffer =>
  Buffer.concat([u32(type, flags), u64(at, at, at, bytes, bytes, 0x1000)]);

function u16(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2);
  values.forEach((value, index) => bytes.writeUInt16LE(value, index * 2));
  return bytes;
}

function u32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => bytes.writeUInt32LE(value, index * 4));
  return bytes;
}

function u64(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 8);
  values.forEach((value, index) => bytes.writeBigUInt64LE(BigInt(value), index * 8));
  return bytes;
}
