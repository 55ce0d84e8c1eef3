import { randomUUID } from 'node:crypto';

/** An integer of 16 digits or more, which may exceed 2^53. */
const LONG_INTEGER = /(?<![.\d])\d{16,}(?![.\deE])/;
/** A string or a number. Strings are matched too, so that digits inside them are left as they are. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/**
 * Like JSON.parse, but integers that a number cannot hold exactly become BigInts. Node 20 does not pass the source text
 * to the reviver, so long integers are marked as strings first.
 * @throws SyntaxError as JSON.parse does
 */
export function parseExactJson(text: string): unknown {
  const value = JSON.parse(text) as unknown;
  if (!LONG_INTEGER.test(text)) return value;
  const mark = randomUUID();
  const marked = text.replace(TOKEN, (token) => (/^-?\d{16,}$/.test(token) ? `"${mark}${token}"` : token));
  return JSON.parse(marked, (_, part: unknown) => {
    if (typeof part !== 'string' || !part.startsWith(mark)) return part;
    const digits = part.slice(mark.length);
    return Number.isSafeInteger(Number(digits)) ? Number(digits) : BigInt(digits);
  });
}

/**
 * Replacer for JSON.stringify that writes numbers as text if JSON cannot express them: NaN, infinities, and BigInts, which
 * not every parser supports.
 */
export function exactValue(_: string, value: unknown): unknown {
  const isOther = typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value));
  return isOther ? String(value) : value;
}
