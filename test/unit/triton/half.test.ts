import { decodeBfloat16, decodeFloat16, encodeBfloat16, encodeFloat16 } from '../../../src/triton/half';

const bitsOfFloat16 = (value: number): number | undefined => encodeFloat16(Float32Array.of(value))[0];
const bitsOfBfloat16 = (value: number): number | undefined => encodeBfloat16(Float32Array.of(value))[0];

describe('binary16', () => {
  it.each([
    ['zero', 0, 0x0000],
    ['minus zero', -0, 0x8000],
    ['one', 1, 0x3c00],
    ['one and one step', 1 + 2 ** -10, 0x3c01],
    ['a tie that goes down to even', 1 + 2 ** -11, 0x3c00],
    ['a tie that goes up to even', 1 + 3 * 2 ** -11, 0x3c02],
    ['just above a tie', 1 + 2 ** -11 + 2 ** -20, 0x3c01],
    ['the carry into the exponent', 2 - 2 ** -12, 0x4000],
    ['the largest', 65504, 0x7bff],
    ['the last that rounds to it', 65519, 0x7bff],
    ['the first that rounds to infinity', 65520, 0x7c00],
    ['infinity', -Infinity, 0xfc00],
    ['the smallest normal', 2 ** -14, 0x0400],
    ['the carry into the smallest normal', 2 ** -14 - 2 ** -26, 0x0400],
    ['the largest subnormal', 2 ** -14 - 2 ** -24, 0x03ff],
    ['the smallest', -(2 ** -24), 0x8001],
    ['a subnormal tie that goes up to even', 1.5 * 2 ** -24, 0x0002],
    ['a subnormal tie that goes down to zero', 2 ** -25, 0x0000],
    ['just above that tie', 2 ** -25 + 2 ** -40, 0x0001],
  ])('encodes %s', (_, value, bits) => {
    expect(bitsOfFloat16(value)).toBe(bits);
  });

  it('round-trips NaN', () => {
    expect(decodeFloat16(encodeFloat16(Float32Array.of(NaN)))).toEqual(Float32Array.of(NaN));
  });

  it('round-trips every bit pattern', () => {
    const numbers = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits).filter(
      (bits) => (bits & 0x7fff) <= 0x7c00,
    );
    expect(encodeFloat16(decodeFloat16(numbers))).toEqual(numbers);
  });
});

describe('bfloat16', () => {
  it.each([
    ['one', 1, 0x3f80],
    ['minus zero', -0, 0x8000],
    ['a tie that goes down to even', 1 + 2 ** -8, 0x3f80],
    ['a tie that goes up to even', 1 + 3 * 2 ** -8, 0x3f82],
    ['just above a tie', 1 + 2 ** -8 + 2 ** -20, 0x3f81],
    ['what rounds to infinity', 3.4028234663852886e38, 0x7f80],
    ['infinity', -Infinity, 0xff80],
  ])('encodes %s', (_, value, bits) => {
    expect(bitsOfBfloat16(value)).toBe(bits);
  });

  it('encodes a NaN whose fraction bits are all in the lower half as NaN', () => {
    const lowNaN = new Float32Array(Uint32Array.of(0x7f800001).buffer);
    expect(decodeBfloat16(encodeBfloat16(lowNaN))).toEqual(Float32Array.of(NaN));
  });

  it('round-trips every bit pattern', () => {
    const numbers = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits).filter(
      (bits) => (bits & 0x7fff) <= 0x7f80,
    );
    expect(encodeBfloat16(decodeBfloat16(numbers))).toEqual(numbers);
  });
});
