/** The ranges of a VPC's subnets, one of each kind for every zone. */
export interface SubnetRanges {
  private: string[];
  public: string[];
}

const SMALLEST_PREFIX = 16;
const LARGEST_PREFIX = 20;

const CIDR = /^(\d{1,3}(?:\.\d{1,3}){3})(?:\/(\d{1,2}))?$/;

/**
 * Why a text is not an IPv4 range, and what was probably meant.
 * @returns undefined for a range; `reason` is empty where the text is nothing of the kind
 */
export function cidrFault(text: string): { reason: string; hint?: string } | undefined {
  const parsed = parse(text);
  if (parsed === undefined) return { reason: '' };
  const { address, base, prefix } = parsed;
  if (prefix === undefined) return { reason: 'an address, not a range', hint: `write ${address}/32 for this address` };
  const network = firstOf(base, prefix);
  if (network === base) return undefined;
  return {
    reason: 'not the first address of its range',
    hint: `write ${format(network)}/${prefix} for the range, or ${address}/32 for this address`,
  };
}

/** Its address as a number; undefined where the text is no address with or without a prefix. */
function parse(text: string): { address: string; base: number; prefix: number | undefined } | undefined {
  const [, address, length] = CIDR.exec(text) ?? [];
  if (address === undefined) return undefined;
  const octets = address.split('.').map(Number);
  const prefix = length === undefined ? undefined : Number(length);
  if (octets.some((octet) => octet > 255) || (prefix ?? 0) > 32) return undefined;
  return { address, base: octets.reduce((sum, octet) => sum * 256 + octet, 0), prefix };
}

const firstOf = (base: number, prefix: number): number => base - (base % 2 ** (32 - prefix));

/**
 * Divides a VPC's range: an eighth for the private subnet of each zone (pods take their addresses there), and from the
 * last eighth an eighth for each public one, which only holds NAT gateways and load balancers. A zone that is added at
 * the end leaves the others as they are.
 * @param cidr `10.0.0.0/16`
 * @param zones number of zones, at most 6
 */
export function subnetRanges(cidr: string, zones: number): SubnetRanges {
  const { base, prefix } = parse(cidr) ?? {};
  if (base === undefined || prefix === undefined) throw new Error('not a range of addresses');
  if (!(prefix >= SMALLEST_PREFIX && prefix <= LARGEST_PREFIX)) throw new Error('not a size that a network can have');
  const first = firstOf(base, prefix);
  if (first !== base) throw new Error(`not the first address of its range, ${format(first)}/${prefix}`);
  const size = 2 ** (32 - prefix);
  const each = Array.from({ length: zones }, (_, index) => index);
  return {
    private: each.map((index) => `${format(base + (index * size) / 8)}/${prefix + 3}`),
    public: each.map((index) => `${format(base + (7 * size) / 8 + (index * size) / 64)}/${prefix + 6}`),
  };
}

const format = (address: number): string =>
  [2 ** 24, 2 ** 16, 2 ** 8, 1].map((unit) => Math.floor(address / unit) % 256).join('.');
