import type { Tensor } from '../../triton/tensor';
import type { ExpectedOutput, GoldenRequest, Tolerance } from './request';

/** A difference between an answer and the expected answer, in one tensor. */
export interface Mismatch {
  tensor: string;
  /** A clause about the tensor: `[0, 3] is 0.51, expected 0.5`. */
  problem: string;
  /** Index of the first value that differs. */
  position?: number[];
  expected?: string;
  received?: string;
  /** Among all values that are finite in both tensors. */
  largestDifference?: number;
  differing?: number;
  elements?: number;
}

/** Compares the outputs that a golden request lists; undefined if all of them are as expected. */
export function compareAnswer(
  { outputs }: Pick<GoldenRequest, 'outputs'>,
  answer: readonly Tensor[],
): Mismatch | undefined {
  for (const expected of outputs) {
    const received = answer.find(({ name }) => name === expected.name);
    const found = received === undefined ? missing(expected.name) : compareOutput(expected, received);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Rounding to another integer, such as that of a pixel, and differences of floats as a part of the largest one. */
const INTEGER_ROUNDING: readonly string[] = ['UINT8', 'INT8'];
const FLOAT_ROUNDING: Partial<Record<Tensor['datatype'], number>> = { FP16: 2e-3, BF16: 2e-2, FP32: 1e-4, FP64: 1e-4 };

/** Widens tolerances by rounding, because sums depend on the batch size and on the kernel that a backend chooses. */
export const withRounding = (outputs: readonly ExpectedOutput[]): ExpectedOutput[] =>
  outputs.map((output) => {
    const { datatype, data } = output.tensor;
    const { absolute, relative } = output.tolerance;
    if (INTEGER_ROUNDING.includes(datatype))
      return { ...output, tolerance: { absolute: Math.max(absolute, 1), relative } };
    const part = FLOAT_ROUNDING[datatype];
    if (part === undefined) return output;
    let largest = 0;
    for (const value of data as Float32Array) if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(value));
    return { ...output, tolerance: { absolute: 2 * absolute + part * largest, relative: 2 * relative } };
  });

/** The largest difference between one tensor of an answer and the expected tensor, also within the tolerance. */
export interface Difference {
  request: string;
  tensor: string;
  /** Among all values that are finite in both tensors. */
  largest: number;
  /** Largest magnitude of the expected values, which gives the scale of `largest`. */
  largestExpected: number;
  tolerance: Tolerance;
}

/** Measures each numeric tensor that has the expected type and shape. */
export function measureAnswer(
  { name: request, outputs }: Pick<GoldenRequest, 'name' | 'outputs'>,
  answer: readonly Tensor[],
): Difference[] {
  return outputs.flatMap((expected) => {
    const { name: tensor, tolerance } = expected;
    const { datatype, shape, data } = expected.tensor;
    const received = answer.find(({ name }) => name === tensor);
    const isSame = received?.datatype === datatype && received.shape.join() === shape.join();
    if (!isSame || datatype === 'BYTES') return [];
    let [largest, largestExpected] = [0, 0];
    const [values, wanted] = [received.data, data] as [Values, Values];
    for (let i = 0; i < wanted.length; i += 1) {
      const difference = computeDifference(values[i] as Value, wanted[i] as Value);
      const magnitude = Math.abs(Number(wanted[i]));
      if (Number.isFinite(difference)) largest = Math.max(largest, difference);
      if (Number.isFinite(magnitude)) largestExpected = Math.max(largestExpected, magnitude);
    }
    return [{ request, tensor, largest, largestExpected, tolerance }];
  });
}

/** Text of a mismatch: `output__0[0, 3] is 0.51, expected 0.5; largest difference 0.01, 1 of 8 values differs`. */
export function describeMismatch({ tensor, problem, largestDifference, differing, elements }: Mismatch): string {
  const counted = differing === undefined ? [] : [`${differing} of ${elements} values differ`];
  const largest = largestDifference === undefined ? [] : [`largest difference ${short(largestDifference)}`];
  const more = [...largest, ...counted].join(', ');
  return `${tensor}${problem.startsWith('[') ? '' : ' '}${problem}${more === '' ? '' : `; ${more}`}`;
}

const missing = (tensor: string): Mismatch => ({ tensor, problem: 'is missing from the answer' });

function compareOutput(expected: ExpectedOutput, received: Tensor): Mismatch | undefined {
  const { name: tensor } = expected;
  const { datatype, shape } = expected.tensor;
  if (received.datatype !== datatype) {
    return { tensor, problem: `has data type ${received.datatype}, expected ${datatype}` };
  }
  if (shape.join() !== received.shape.join()) {
    return { tensor, problem: `has shape [${received.shape.join(', ')}], expected [${shape.join(', ')}]` };
  }
  return compareValues(expected, received);
}

function compareValues({ tensor: expected, tolerance }: ExpectedOutput, received: Tensor): Mismatch | undefined {
  let first: number | undefined;
  let differing = 0;
  let largest: number | undefined;
  const [values, wanted] = [received.data, expected.data] as [Values, Values];
  const isExact = expected.datatype === 'BYTES' || expected.datatype === 'BOOL';
  for (let i = 0; i < wanted.length; i += 1) {
    const [value, want] = [values[i] as Value, wanted[i] as Value];
    const difference = computeDifference(value, want);
    if (difference === 0) continue;
    if (Number.isFinite(difference)) largest = Math.max(largest ?? 0, difference);
    const allowed = isExact ? 0 : tolerance.absolute + tolerance.relative * Math.abs(Number(want));
    // Not ">": an infinite difference, and NaN, are never within a tolerance.
    if (Number.isFinite(difference) && difference <= allowed) continue;
    first ??= i;
    differing += 1;
  }
  if (first === undefined) return undefined;
  const position = getPosition(first, expected.shape);
  const [got, want] = [text(values[first] as Value), text(wanted[first] as Value)];
  return {
    tensor: expected.name,
    problem: `[${position.join(', ')}] is ${got}, expected ${want}`,
    position,
    expected: want,
    received: got,
    largestDifference: largest,
    differing,
    elements: wanted.length,
  };
}

type Value = number | bigint | Buffer;
type Values = ArrayLike<Value>;

/** Returns the difference: 0 for equal values, NaN for unequal strings and for NaN against a number. */
function computeDifference(value: Value, want: Value): number {
  if (Buffer.isBuffer(value) || Buffer.isBuffer(want)) {
    return Buffer.isBuffer(value) && Buffer.isBuffer(want) && value.equals(want) ? 0 : NaN;
  }
  if (typeof value === 'bigint' && typeof want === 'bigint') return Number(value > want ? value - want : want - value);
  if (Object.is(value, want) || value === want) return 0;
  return Math.abs(Number(value) - Number(want));
}

function getPosition(index: number, shape: readonly number[]): number[] {
  const position: number[] = [];
  let rest = index;
  for (const length of [...shape].reverse()) {
    position.unshift(rest % length);
    rest = Math.floor(rest / length);
  }
  return position;
}

const LONGEST_TEXT = 80;

function text(value: Value): string {
  if (!Buffer.isBuffer(value)) return typeof value === 'number' ? short(value) : String(value);
  const string = JSON.stringify(value.toString('utf8'));
  return string.length > LONGEST_TEXT ? `${string.slice(0, LONGEST_TEXT)}...` : string;
}

/** Nine digits distinguish any two FP32 values. */
const short = (value: number): string =>
  Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(9)));
