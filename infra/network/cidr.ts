import { isIPv6 } from 'node:net';

/** Address ranges of a VPC's subnets, one private and one public range for each zone. */
export interface SubnetRanges {
  private: string[];
  public: string[];
}

const SMALLEST_PREFIX = 16;
const LARGEST_PREFIX = 20;

/** Without leading zeros, which some programs read as octal numbers. */
const CIDR = /^((?:0|[1-9]\d{0,2})(?:\.(?:0|[1-9]\d{0,2})){3})(?:\/(0|[1-9]\d?))?$/;

/**
 * Checks whether a text is an IPv4 range.
 * @returns undefined for a range, otherwise the reason and a hint; `reason` is empty if the text is not an address at
 * all
 */
export function cidrFault(text: string): { reason: string; hint?: string } | undefined {
  const parsed = parse(text);
  if (parsed === undefined) return { reason: '' };
  const { address, base, prefix } = parsed;
  if (prefix === undefined) return { reason: 'an address, not a range', hint: `write ${address}/32 for this address` };
  const network = getFirst(base, prefix);
  if (network === base) return undefined;
  return {
    reason: 'not the first address of its range',
    hint: `write ${format(network)}/${prefix} for the range, or ${address}/32 for this address`,
  };
}

/** The same for a range of IPv4 or IPv6. */
export function rangeFault(text: string): { reason: string; hint?: string } | undefined {
  if (!text.includes(':')) return cidrFault(text);
  const [, address = '', prefix] = /^([^/%]*)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  if (!isIPv6(address) || Number(prefix ?? 0) > 128) return { reason: '' };
  return prefix === undefined
    ? { reason: 'an address, not a range', hint: `write ${text}/128 for this address` }
    : undefined;
}

/**
 * Parses an address with or without a prefix length; `base` is the address as a number. Undefined for any other text.
 */
function parse(text: string): { address: string; base: number; prefix: number | undefined } | undefined {
  const [, address, length] = CIDR.exec(text) ?? [];
  if (address === undefined) return undefined;
  const octets = address.split('.').map(Number);
  const prefix = length === undefined ? undefined : Number(length);
  if (octets.some((octet) => octet > 255) || (prefix ?? 0) > 32) return undefined;
  return { address, base: octets.reduce((sum, octet) => sum * 256 + octet, 0), prefix };
}

const getFirst = (base: number, prefix: number): number => base - (base % 2 ** (32 - prefix));

/** Whether an IPv4 range contains all addresses of another one. A range of IPv6 contains none. */
export function containsRange(outer: string, inner: string): boolean {
  const [large, small] = [parse(outer), parse(inner)];
  if (large?.prefix === undefined || small?.prefix === undefined) return false;
  return large.prefix <= small.prefix && getFirst(small.base, large.prefix) === large.base;
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
  const { base, prefix } = parse(cidr) ?? {};
  if (base === undefined || prefix === undefined) throw new Error('not an IPv4 range');
  if (!(prefix >= SMALLEST_PREFIX && prefix <= LARGEST_PREFIX)) throw new Error('not a size that a VPC can have');
  const first = getFirst(base, prefix);
  if (first !== base) throw new Error(`not the first address of its range, ${format(first)}/${prefix}`);
  const size = 2 ** (32 - prefix);
  const each = zones.map((zone) => PLACES.indexOf(zone.slice(-1)));
  return {
    private: each.map((index) => `${format(base + (index * size) / 8)}/${prefix + 3}`),
    public: each.map((index) => `${format(base + (7 * size) / 8 + (index * size) / 64)}/${prefix + 6}`),
  };
}

const format = (address: number): string =>
  [2 ** 24, 2 ** 16, 2 ** 8, 1].map((unit) => Math.floor(address / unit) % 256).join('.');
