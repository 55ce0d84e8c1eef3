/** The ranges of a VPC's subnets, one of each kind for every zone. */
export interface SubnetRanges {
  private: string[];
  public: string[];
}

const SMALLEST_PREFIX = 16;
const LARGEST_PREFIX = 20;

/**
 * Divides a VPC's range: an eighth for the private subnet of each zone (pods take their addresses there), and from the
 * last eighth an eighth for each public one, which only holds NAT gateways and load balancers. A zone that is added at
 * the end leaves the others as they are.
 * @param cidr `10.0.0.0/16`
 * @param zones number of zones, at most 6
 */
export function subnetRanges(cidr: string, zones: number): SubnetRanges {
  const [address = '', length = ''] = cidr.split('/');
  const octets = address.split('.').map(Number);
  const prefix = Number(length);
  if (octets.length !== 4 || octets.some((octet) => !(octet >= 0 && octet <= 255))) throw new Error('not an address');
  if (!(prefix >= SMALLEST_PREFIX && prefix <= LARGEST_PREFIX)) throw new Error('not a size that a network can have');
  const base = octets.reduce((sum, octet) => sum * 256 + octet, 0);
  const size = 2 ** (32 - prefix);
  if (base % size !== 0)
    throw new Error(`not the first address of its range, ${format(base - (base % size))}/${prefix}`);
  const each = Array.from({ length: zones }, (_, index) => index);
  return {
    private: each.map((index) => `${format(base + (index * size) / 8)}/${prefix + 3}`),
    public: each.map((index) => `${format(base + (7 * size) / 8 + (index * size) / 64)}/${prefix + 6}`),
  };
}

const format = (address: number): string =>
  [2 ** 24, 2 ** 16, 2 ** 8, 1].map((unit) => Math.floor(address / unit) % 256).join('.');
