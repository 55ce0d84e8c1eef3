/** Converts 16-bit floating point numbers to and from their bits. Encoding rounds to nearest, ties to even. */

const word = new Uint32Array(1);
const float = new Float32Array(word.buffer);

/** IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. Values that would round beyond 65504 become infinity. */
export function encodeFloat16(values: Float32Array): Uint16Array {
  return Uint16Array.from(values, toFloat16);
}

/** Exact: every binary16 number is a binary32 number. */
export function decodeFloat16(bits: Uint16Array): Float32Array {
  return Float32Array.from(bits, fromFloat16);
}

/** bfloat16: the upper half of a binary32 number. */
export function encodeBfloat16(values: Float32Array): Uint16Array {
  return Uint16Array.from(values, (value) => {
    const bits = getBits(value);
    // Rounding could turn a NaN into infinity, so set its top fraction bit instead.
    if (Number.isNaN(value)) return (bits >>> 16) | 0x40;
    return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
  });
}

/** Exact: the fraction is filled with zeros. */
export function decodeBfloat16(bits: Uint16Array): Float32Array {
  const values = new Float32Array(bits.length);
  const words = new Uint32Array(values.buffer);
  bits.forEach((upper, i) => (words[i] = upper << 16));
  return values;
}

const SMALLEST_NORMAL = 2 ** -14;
/** Distance between subnormal numbers, and so the smallest positive number. */
const SUBNORMAL_STEP = 2 ** -24;
/** Halfway between the largest number, 65504, and the next power of two. */
const INFINITE_FROM = 65520;

function toFloat16(value: number): number {
  const sign = (getBits(value) >>> 16) & 0x8000;
  const magnitude = Math.abs(value);
  if (Number.isNaN(value)) return sign | 0x7e00;
  if (magnitude >= INFINITE_FROM) return sign | 0x7c00;
  if (magnitude < SMALLEST_NORMAL) return sign | roundToEven(magnitude / SUBNORMAL_STEP);
  // Exponent bias 127 to 15, fraction 23 to 10 bits. A carry out of the fraction correctly increases the exponent.
  const bits = (getBits(value) & 0x7fffffff) - (112 << 23);
  return sign | ((bits + 0xfff + ((bits >>> 13) & 1)) >>> 13);
}

function fromFloat16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  if (exponent === 0) return sign * fraction * SUBNORMAL_STEP;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function roundToEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 === 1 ? rounded - 1 : rounded;
}

function getBits(value: number): number {
  float[0] = value;
  return word[0] ?? 0;
}
