import { isIP } from 'node:net';

/** Address ranges of a VPC's subnets, one private and one public range for each zone. */
export interface SubnetRanges {
  private: string[];
  public: string[];
}

const SMALLEST_PREFIX = 16;
const LARGEST_PREFIX = 20;

/** An address with or without the length of a prefix; `base` is the address as a number of so many bits. */
interface Parsed {
  address: string;
  base: bigint;
  bits: 32 | 128;
  prefix: number | undefined;
}

/**
 * Checks whether a text is a range of IPv4 or IPv6.
 * @returns undefined for a range, otherwise the reason and a hint; `reason` is empty if the text is not an address at
 * all
 */
export function rangeFault(text: string): { reason: string; hint?: string } | undefined {
  const parsed = parse(text);
  if (parsed === undefined) return { reason: '' };
  const { address, base, bits, prefix } = parsed;
  const only = `${address}/${bits} for this address`;
  if (prefix === undefined) return { reason: 'an address, not a range', hint: `write ${only}` };
  const first = getFirst(base, bits - prefix);
  if (first === base) return undefined;
  return {
    reason: 'not the first address of its range',
    hint: `write ${format(first, bits)}/${prefix} for the range, or ${only}`,
  };
}

/** The same for a range of IPv4. */
export const cidrFault = (text: string): ReturnType<typeof rangeFault> =>
  text.includes(':') ? { reason: '' } : rangeFault(text);

function parse(text: string): Parsed | undefined {
  const [, address = '', length] = /^([^/%]*)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  const family = isIP(address);
  const bits = family === 6 ? 128 : 32;
  const prefix = length === undefined ? undefined : Number(length);
  if (family === 0 || (prefix ?? 0) > bits) return undefined;
  const parts = family === 6 ? getGroups(address) : address.split('.').map(Number);
  const size = BigInt(bits / parts.length);
  return { address, base: parts.reduce((sum, part) => (sum << size) + BigInt(part), 0n), bits, prefix };
}

/** The host of a URL is an address of IPv6 in its shortest form. */
const shortest = (address: string): string => new URL(`http://[${address}]`).hostname.slice(1, -1);

/** The eight numbers of an address of IPv6. */
function getGroups(address: string): number[] {
  const [before = [], after = []] = shortest(address)
    .split('::')
    .map((half) => half.split(':').flatMap((group) => (group === '' ? [] : parseInt(group, 16))));
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}

/** Clears the last bits. */
const getFirst = (base: bigint, bits: number): bigint => (base >> BigInt(bits)) << BigInt(bits);

/** Whether a range contains all addresses of another one. */
export function containsRange(outer: string, inner: string): boolean {
  const [large, small] = [parse(outer), parse(inner)];
  if (large?.prefix === undefined || small?.prefix === undefined || large.bits !== small.bits) return false;
  return large.prefix <= small.prefix && getFirst(small.base, large.bits - large.prefix) === large.base;
}

/** Places for private ranges in a VPC. */
const PLACES = 'abcdefg';

/** Zones whose letter has no place in a VPC. */
export const zonesWithoutRange = (zones: readonly string[]): string[] =>
  zones.filter((zone) => !PLACES.includes(zone.slice(-1)));

/**
 * Divides the range of a VPC: an eighth for the private subnet of each zone, where pods get their addresses, and an
 * eighth of the last eighth for each public subnet, which contains only NAT gateways and load balancers. The letter of a
 * zone decides its place, so adding or removing a zone does not change the ranges of the others.
 * @param cidr for example `10.0.0.0/16`
 * @param zones at most 6, such as `us-east-1a`
 */
export function subnetRanges(cidr: string, zones: readonly string[]): SubnetRanges {
  const { base, bits, prefix } = parse(cidr) ?? {};
  if (base === undefined || bits !== 32 || prefix === undefined) throw new Error('not an IPv4 range');
  if (!(prefix >= SMALLEST_PREFIX && prefix <= LARGEST_PREFIX)) throw new Error('not a size that a VPC can have');
  const first = getFirst(base, bits - prefix);
  if (first !== base) throw new Error(`not the first address of its range, ${format(first, bits)}/${prefix}`);
  const size = 2 ** (bits - prefix);
  const each = zones.map((zone) => PLACES.indexOf(zone.slice(-1)));
  const at = (offset: number): string => format(base + BigInt(offset), bits);
  return {
    private: each.map((index) => `${at((index * size) / 8)}/${prefix + 3}`),
    public: each.map((index) => `${at((7 * size) / 8 + (index * size) / 64)}/${prefix + 6}`),
  };
}

function format(base: bigint, bits: 32 | 128): string {
  const [size, count] = bits === 32 ? [8, 4] : [16, 8];
  const parts = Array.from({ length: count }, (_, index) =>
    BigInt.asUintN(size, base >> BigInt(bits - size * (index + 1))),
  );
  return bits === 32 ? parts.join('.') : shortest(parts.map((part) => part.toString(16)).join(':'));
}
