import type { Settings } from '../settings';
import type { AwsAccount, Subnet, Zone } from './account';
import { error, ok, type Check, type Finding } from './check';

/**
 * Zones in which the subnets of an EKS cluster cannot be. Names of zones differ between accounts, ids do not.
 * https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html#cluster-subnets (2026-11-25)
 */
const ZONES_WITHOUT_EKS: readonly string[] = ['use1-az3', 'usw1-az2', 'cac1-az3'];

/** https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Region.html (2026-11-25): values of optInStatus */
const ENABLED = ['opt-in-not-required', 'opted-in'];

export const regionCheck: Check = {
  name: 'region',
  run: async ({ account, settings: { region } }) => {
    const status = await account.regionStatus();
    if (status === undefined) return [error(`AWS has no region ${region}`, 'correct aws:region in the stack file')];
    if (ENABLED.includes(status)) return [ok(`${region} is enabled`)];
    return [
      error(
        `${region} is not enabled in this account (${status})`,
        `aws account enable-region --region-name ${region}`,
      ),
    ];
  },
};

export const zonesCheck: Check = {
  name: 'zones',
  run: async ({ account, settings }) => {
    const { cluster } = settings;
    if (cluster.kind === 'existing') return [ok('none needed: the stack uses an existing cluster')];
    const { network } = cluster;
    if (network.kind === 'create') return judgeZones(network.zones, await account.zones(), settings.region);
    return judgeSubnets(network, await account.subnets(network.privateSubnetIds));
  },
};

/** @param existing the available zones of the region */
export function judgeZones(names: readonly string[], existing: readonly Zone[], region: string): Finding[] {
  const missing = names.filter((name) => existing.every((zone) => zone.name !== name));
  if (missing.length > 0) {
    const usable = existing.filter(({ id }) => !ZONES_WITHOUT_EKS.includes(id)).map(({ name }) => name);
    return [
      error(
        `${region} has no available zone ${missing.join(', ')}`,
        `set availabilityZones to zones of ${usable.join(', ')}`,
      ),
    ];
  }
  const zones = existing.filter(({ name }) => names.includes(name));
  const refused = zones.filter(({ id }) => ZONES_WITHOUT_EKS.includes(id));
  if (refused.length > 0) {
    return [
      error(
        `EKS refuses subnets in ${refused.map(describeZone).join(', ')}`,
        `remove ${refused.map(({ name }) => name).join(', ')} from availabilityZones`,
      ),
    ];
  }
  return [ok(zones.map(describeZone).join(', '))];
}

/** @param existing the subnets that exist */
export function judgeSubnets(
  { vpcId, privateSubnetIds: ids }: { vpcId: string; privateSubnetIds: readonly string[] },
  existing: readonly Subnet[],
): Finding[] {
  const missing = ids.filter((id) => existing.every((subnet) => subnet.id !== id));
  if (missing.length > 0) {
    return [error(`there is no subnet ${missing.join(', ')} in this account and region`, 'correct privateSubnetIds')];
  }
  const elsewhere = existing.filter((subnet) => subnet.vpcId !== vpcId);
  if (elsewhere.length > 0) {
    const list = elsewhere.map((subnet) => `${subnet.id} (${subnet.vpcId})`).join(', ');
    return [error(`vpcId is ${vpcId}, but ${list} is in another VPC`, 'correct vpcId or privateSubnetIds')];
  }
  const refused = existing.filter(({ zone }) => ZONES_WITHOUT_EKS.includes(zone.id));
  if (refused.length > 0) {
    const list = refused.map(({ id, zone }) => `${id} in ${describeZone(zone)}`).join(', ');
    return [error(`EKS refuses the subnet ${list}`, 'replace it in privateSubnetIds by a subnet in another zone')];
  }
  // https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html#cluster-subnets (2026-11-25)
  if (new Set(existing.map(({ zone }) => zone.id)).size < 2) {
    return [
      error('all subnets of privateSubnetIds are in one zone', 'EKS needs subnets in two zones: add one to the list'),
    ];
  }
  return [ok(existing.map(({ id, zone }) => `${id} in ${describeZone(zone)}`).join(', '))];
}

/** Names of the zones in which the nodes of the stack may run; undefined if an existing cluster decides. */
export async function getNodeZones({ cluster }: Settings, account: AwsAccount): Promise<string[] | undefined> {
  if (cluster.kind === 'existing') return undefined;
  if (cluster.network.kind === 'create') return cluster.network.zones;
  const subnets = await account.subnets(cluster.network.privateSubnetIds);
  return [...new Set(subnets.map(({ zone }) => zone.name))];
}

const describeZone = ({ name, id }: Zone): string => `${name} (${id})`;
