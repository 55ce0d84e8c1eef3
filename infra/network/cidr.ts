import { isIP } from 'node:net';

/** Address ranges of a VPC's subnets, one private and one public range for each zone. */
export interface SubnetRanges {
  private: string[];
  public: string[];
}

const SMALLEST_PREFIX = 16;
const LARGEST_PREFIX = 20;

/**
 * Checks whether a text is a range of IPv4 or IPv6.
 * @returns undefined for a range, otherwise the reason and a hint; `reason` is empty if the text is not an address at
 * all
 */
export function rangeFault(text: string): { reason: string; hint?: string } | undefined {
  const [, address = '', prefix] = /^([^/%]*)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  const family = isIP(address);
  const bits = family === 6 ? 128 : 32;
  if (family === 0 || Number(prefix ?? 0) > bits) return { reason: '' };
  const only = `${address}/${bits} for this address`;
  if (prefix === undefined) return { reason: 'an address, not a range', hint: `write ${only}` };
  const { base, first } = parse(text) ?? {};
  // AWS and Kubernetes take any address of a range of IPv6.
  if (first === undefined || first === base) return undefined;
  return {
    reason: 'not the first address of its range',
    hint: `write ${format(first)}/${prefix} for the range, or ${only}`,
  };
}

/** The same for a range of IPv4. */
export const cidrFault = (text: string): ReturnType<typeof rangeFault> =>
  text.includes(':') ? { reason: '' } : rangeFault(text);

/** A range of IPv4, with its address and the first one of the range as numbers; undefined for any other text. */
function parse(text: string): { base: number; first: number; prefix: number } | undefined {
  const [, address = '', length] = /^([\d.]*)\/(0|[1-9]\d?)$/.exec(text) ?? [];
  const prefix = Number(length);
  if (isIP(address) !== 4 || prefix > 32) return undefined;
  const base = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  return { base, first: base - (base % 2 ** (32 - prefix)), prefix };
}

/** Whether a range of IPv4 contains all addresses of another one. */
export function containsRange(outer: string, inner: string): boolean {
  const [large, small] = [parse(outer), parse(inner)];
  if (large === undefined || small === undefined || large.prefix > small.prefix) return false;
  return small.first - (small.first % 2 ** (32 - large.prefix)) === large.first;
}

/** Places for private ranges in a VPC, by the letters of zones. */
const PLACES = 'abcdefg';

/**
 * Divides the range of a VPC: an eighth for the private subnet of each zone, where pods get their addresses, and an
 * eighth of the last eighth for each public subnet, which contains only NAT gateways and load balancers. The letter of a
 * zone decides its place, so adding or removing a zone does not change the ranges of the others.
 * @param cidr for example `10.0.0.0/16`
 * @param zones at most 6, such as `us-east-1a`
 */
export function subnetRanges(cidr: string, zones: readonly string[]): SubnetRanges {
  const { base, first, prefix } = parse(cidr) ?? {};
  if (base === undefined || first === undefined || prefix === undefined) throw new Error('not an IPv4 range');
  if (prefix < SMALLEST_PREFIX || prefix > LARGEST_PREFIX) throw new Error('not a size that a VPC can have');
  if (first !== base) throw new Error(`not the first address of its range, ${format(first)}/${prefix}`);
  const size = 2 ** (32 - prefix);
  const each = zones.map((zone) => PLACES.indexOf(zone.slice(-1)));
  return {
    private: each.map((index) => `${format(base + (index * size) / 8)}/${prefix + 3}`),
    public: each.map((index) => `${format(base + (7 * size) / 8 + (index * size) / 64)}/${prefix + 6}`),
  };
}

const format = (address: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.');
