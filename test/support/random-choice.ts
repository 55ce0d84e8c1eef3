/** Returns random numbers in [0, 1), the same for the same seed. */
export type Random = () => number;
export type Fields = Record<string, unknown>;

export function pick<T>(random: Random, items: readonly T[]): T {
  return items[Math.floor(random() * items.length)] as T;
}

export function list<T>(random: Random, least: number, most: number, make: (index: number) => T): T[] {
  return Array.from({ length: least + Math.floor(random() * (most - least + 1)) }, (_, index) => make(index));
}

export const maybe = <T>(random: Random, make: () => T): T | undefined => (random() < 0.4 ? make() : undefined);

export const filled = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
