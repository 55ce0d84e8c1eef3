/** Factor on the number of repetitions in `npm test`; `npm run test:long` sets it. */
const FACTOR = Number(process.env['SOAK_FACTOR'] ?? 1);

/** Whether this is the long form. */
export const IS_LONG = FACTOR > 1;

/** Seed of all random sequences: the same seed gives the same choices. */
export const SOAK_SEED = Number(process.env['SOAK_SEED'] ?? 1);

/** Number of repetitions, given the number for `npm test`. */
export function repetitions(short: number): number {
  return Math.max(1, Math.round(short * FACTOR));
}

/** Timeout in ms of a test whose repetitions take `eachMs` on a busy machine; `short` as in `repetitions`. */
export function patience(short: number, eachMs: number): number {
  return 300_000 + repetitions(short) * eachMs;
}

/** Writes the counts of a soak test to stderr. */
export function report(what: string, counts: Record<string, number>): void {
  const texts = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  process.stderr.write(`${what} (seed ${SOAK_SEED}): ${texts.join(', ')}\n`);
}

// Jest's sandbox makes each access to a global slow.
const { imul } = Math;

/** Random numbers from a seed (mulberry32). */
export class SeededRandom {
  private state: number;

  constructor(seed: number) {
    this.state = Math.imul(seed, 0x9e3779b1) >>> 0;
  }

  /** In [0, 1). */
  fraction(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let x = this.state;
    x = imul(x ^ (x >>> 15), x | 1);
    x ^= x + imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `least` to `most`, inclusive. */
  integer(least: number, most: number): number {
    return least + Math.floor(this.fraction() * (most - least + 1));
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.integer(0, items.length - 1)] as T;
  }

  bytes(length: number): Buffer {
    const buffer = Buffer.allocUnsafe(length);
    for (let i = 0; i + 4 <= length; i += 4) buffer.writeUInt32LE(Math.floor(this.fraction() * 2 ** 32), i);
    for (let i = length & ~3; i < length; i += 1) buffer[i] = this.integer(0, 255);
    return buffer;
  }
}
