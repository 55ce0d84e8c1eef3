import type { Quota } from './account';
import { error, ok, type Check, type Finding } from './check';

/** https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html (2026-11-25); the default of both is 5. */
const VPCS: Quota = { service: 'vpc', code: 'L-F678F1CE', name: 'VPCs per Region' };
const ADDRESSES: Quota = { service: 'ec2', code: 'L-0263D0A3', name: 'EC2-VPC Elastic IPs' };

/** Room in the account for the VPC of the stack, and for the addresses of its NAT gateways. */
export const networkQuotasCheck: Check = {
  name: 'network quotas',
  run: async ({ account, settings }) => {
    const { cluster, region } = settings;
    if (cluster.kind === 'existing' || cluster.network.kind === 'existing') {
      return [ok('none needed: the stack creates no network')];
    }
    const existing = await account.cluster(cluster.name);
    if (existing !== undefined) return [ok(`${cluster.name} exists, and so does its network`)];
    const { natGateways, zones } = cluster.network;
    const [vpcs, vpcCount, addresses, addressCount] = await Promise.all([
      account.quota(VPCS),
      account.vpcCount(),
      account.quota(ADDRESSES),
      account.addressCount(),
    ]);
    return [
      judgeRoom(VPCS, { used: vpcCount, limit: vpcs, needed: 1 }, region),
      judgeRoom(
        ADDRESSES,
        { used: addressCount, limit: addresses, needed: natGateways === 'one' ? 1 : zones.length },
        region,
      ),
    ];
  },
};

export function judgeRoom(
  { service, code, name }: Quota,
  { used, limit, needed }: { used: number; limit: number; needed: number },
  region: string,
): Finding {
  const found = `${name} (${code}): ${used} of ${limit} in use, and the stack needs ${needed}`;
  if (used + needed <= limit) return ok(found);
  return error(
    found,
    `aws service-quotas request-service-quota-increase --service-code ${service} --quota-code ${code} --desired-value ${used + needed} --region ${region}`,
  );
}
