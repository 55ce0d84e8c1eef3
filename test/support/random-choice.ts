import fc from 'fast-check';
import { SOAK_SEED } from './soak';

/** Makes the choices of a property's value, so that fast-check can repeat and shrink them. */
export type Random = fc.GeneratorValue;
export type Fields = Record<string, unknown>;

/**
 * Parameters of fc.assert: the same seed gives the same values. A failure prints seed, path and value. It is not shrunk,
 * because shrinking the thousands of choices of a configuration takes minutes; remove `endOnFailure` to shrink it.
 */
export const SEEDED = { seed: SOAK_SEED, endOnFailure: true };

/** `count` independent sources of choices, for values that are tested together. */
export const randoms = (count: number, seed: number): Random[] => fc.sample(fc.gen(), { seed, numRuns: count });

const unbiased = (least: number, most: number): fc.Arbitrary<number> =>
  fc.noBias(fc.integer({ min: least, max: most }));

/** An integer from `least` to `most`, inclusive, all equally likely. */
export const integer = (random: Random, least: number, most: number): number => random(unbiased, least, most);

export const chance = (random: Random, probability: number): boolean =>
  integer(random, 1, 1000) > 1000 * (1 - probability);

export const pick = <T>(random: Random, items: readonly T[]): T => items[integer(random, 0, items.length - 1)] as T;

export function list<T>(random: Random, least: number, most: number, make: (index: number) => T): T[] {
  return Array.from({ length: integer(random, least, most) }, (_, index) => make(index));
}

export const maybe = <T>(random: Random, make: () => T): T | undefined => (chance(random, 0.4) ? make() : undefined);

export const filled = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
