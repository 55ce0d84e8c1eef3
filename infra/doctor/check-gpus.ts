import { getNodes } from '../capacity';
import { getFacts } from '../gpu/gpu-instance-types';
import type { Settings } from '../settings';
import { schedulableGpus } from '../settings/gpu-node-pools';
import type { GpuNodePoolSettings } from '../settings/types';
import type { Quota } from './account';
import { error, ok, warning, type Check, type Finding } from './check';
import { getNodeZones } from './check-zones';

/** Zones in which AWS offers the instance types of the pools. */
export const instanceTypesCheck: Check = {
  name: 'GPU types',
  run: async ({ account, settings }) => {
    const { gpuNodePools: pools } = settings;
    if (pools.length === 0) return [ok('none needed: gpuNodePools is empty')];
    const types = [...new Set(pools.flatMap(({ instanceTypes }) => instanceTypes))];
    const [offered, zones] = await Promise.all([account.zonesOffering(types), getNodeZones(settings, account)]);
    return pools.map((pool) => judgeOffers(pool, offered, zones));
  },
};

/** @param zones of the nodes; undefined for all zones of the region */
export function judgeOffers(
  { name, instanceTypes, zones: ofPool }: Pick<GpuNodePoolSettings, 'name' | 'instanceTypes' | 'zones'>,
  offered: ReadonlyMap<string, ReadonlySet<string>>,
  zones: readonly string[] | undefined,
): Finding {
  const wanted = ofPool.length > 0 ? ofPool : zones;
  const offersOf = (type: string): string[] => {
    const all = [...(offered.get(type) ?? [])].sort();
    return wanted === undefined ? all : all.filter((zone) => wanted.includes(zone));
  };
  const where = wanted === undefined ? 'this region' : wanted.join(', ');
  const absent = instanceTypes.filter((type) => offersOf(type).length === 0);
  const setting = `instanceTypes of the pool ${name}`;
  if (absent.length === instanceTypes.length) {
    return error(
      `pool ${name}: AWS offers none of ${instanceTypes.join(', ')} in ${where}`,
      `change availabilityZones, or ${setting}; "aws ec2 describe-instance-type-offerings --location-type availability-zone" lists the offers`,
    );
  }
  if (absent.length > 0) {
    return warning(`pool ${name}: AWS does not offer ${absent.join(', ')} in ${where}`, `remove it from ${setting}`);
  }
  const empty = (wanted ?? []).filter((zone) => instanceTypes.every((type) => !offersOf(type).includes(zone)));
  if (empty.length > 0) {
    return warning(
      `pool ${name}: AWS offers none of ${instanceTypes.join(', ')} in ${empty.join(', ')}, so its nodes run in the other zones only`,
      `add a type to ${setting} that is offered there, or use another zone`,
    );
  }
  return ok(`pool ${name}: ${instanceTypes.map((type) => `${type} in ${offersOf(type).join(', ')}`).join('; ')}`);
}

/**
 * Quotas of running instances, in vCPUs.
 * https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-on-demand-instances.html#ec2-on-demand-instances-limits and
 * https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-limits.html (2026-11-25)
 */
const QUOTAS = {
  onDemandG: { service: 'ec2', code: 'L-DB2E81BA', name: 'Running On-Demand G and VT instances' },
  onDemandP: { service: 'ec2', code: 'L-417A185B', name: 'Running On-Demand P instances' },
  spotG: { service: 'ec2', code: 'L-3819A6DF', name: 'All G and VT Spot Instance Requests' },
  spotP4: { service: 'ec2', code: 'L-7212CCBC', name: 'All P4, P3 and P2 Spot Instance Requests' },
  spotP5: { service: 'ec2', code: 'L-C4BD4855', name: 'All P5 Spot Instance Requests' },
} as const satisfies Record<string, Quota>;

type CapacityType = GpuNodePoolSettings['capacityTypes'][number];

/** The quota that an instance counts against; undefined if we have no source for its code. */
export function getQuota(type: string, capacity: CapacityType): Quota | undefined {
  const isG = type.startsWith('g');
  // Instances in a capacity reservation count as on-demand instances:
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html (2026-11-25), "limits"
  if (capacity !== 'spot') return isG ? QUOTAS.onDemandG : QUOTAS.onDemandP;
  if (isG) return QUOTAS.spotG;
  return /^p[234]/.test(type) ? QUOTAS.spotP4 : type.startsWith('p5') ? QUOTAS.spotP5 : undefined;
}

/** What the pools can request of one quota. */
export interface QuotaDemand {
  quota: Quota;
  /** vCPUs with every pool at its limit. */
  most: number;
  /** vCPUs of a node, and the replicas that fit on it, for each instance type that counts against the quota. */
  nodes: { vcpus: number; replicas: number }[];
}

/** The demand for each quota. Numbers of vCPUs come from infra/gpu/gpu-instance-types.ts or instanceTypeFacts. */
export function getDemands({ gpuNodePools: pools, triton: { gpusPerPod } }: Settings): QuotaDemand[] {
  const demands = new Map<string, QuotaDemand>();
  for (const pool of pools) {
    const mostOfPool = new Map<string, number>();
    for (const capacity of pool.capacityTypes) {
      for (const type of pool.instanceTypes) {
        const quota = getQuota(type, capacity);
        if (quota === undefined) continue;
        const { vcpus } = getFacts(pool, type);
        const demand = demands.get(quota.code) ?? { quota, most: 0, nodes: [] };
        const replicas = gpusPerPod === 0 ? 0 : Math.floor(schedulableGpus(pool, type) / gpusPerPod);
        demand.nodes.push({ vcpus, replicas });
        demands.set(quota.code, demand);
        // Each capacity type of a managed node group has a group of its own.
        const most = getNodes({ ...pool, capacityTypes: [capacity] }, type).most * vcpus;
        mostOfPool.set(quota.code, Math.max(mostOfPool.get(quota.code) ?? 0, most));
      }
    }
    for (const [code, most] of mostOfPool) (demands.get(code) as QuotaDemand).most += most;
  }
  return [...demands.values()];
}

/** The most replicas that can run within a quota. */
const mostReplicas = ({ nodes }: QuotaDemand, vcpus: number): number =>
  Math.max(0, ...nodes.map((node) => Math.floor(vcpus / node.vcpus) * node.replicas));

/** Quotas of GPU instances. Instances that already run in the account are not subtracted. */
export const quotasCheck: Check = {
  name: 'GPU quotas',
  run: async ({ account, settings }) => {
    const demands = getDemands(settings);
    const unknown = settings.gpuNodePools.filter(({ instanceTypes, capacityTypes }) =>
      instanceTypes.some((type) => capacityTypes.some((capacity) => getQuota(type, capacity) === undefined)),
    );
    if (demands.length + unknown.length === 0) return [ok('none needed: gpuNodePools is empty')];
    const granted = await Promise.all(demands.map(({ quota }) => account.quota(quota)));
    return [
      ...judgeQuotas(demands, granted, settings, unknown.length === 0),
      ...unknown.map(({ name }) =>
        warning(
          `pool ${name}: the quota for its spot instances is unknown to the doctor`,
          'compare it yourself: aws service-quotas list-service-quotas --service-code ec2',
        ),
      ),
    ];
  },
};

/**
 * @param granted vCPUs of each quota, in the order of `demands`
 * @param isComplete whether `demands` are all that the pools can request. Otherwise replicas may run within other quotas
 */
export function judgeQuotas(
  demands: readonly QuotaDemand[],
  granted: readonly number[],
  { region, triton: { autoscaling, replicas, gpusPerPod } }: Pick<Settings, 'region' | 'triton'>,
  isComplete = true,
): Finding[] {
  const needed = gpusPerPod === 0 ? 0 : (autoscaling?.minReplicas ?? replicas);
  const room = demands.reduce((sum, demand, i) => sum + mostReplicas(demand, granted[i] ?? 0), 0);
  return demands.map(({ quota: { service, code, name }, most }, i) => {
    const vcpus = granted[i] ?? 0;
    const found = `${name} (${code}): ${vcpus} vCPUs, and the pools can request ${most}`;
    if (vcpus >= most) return ok(found);
    const fix = `aws service-quotas request-service-quota-increase --service-code ${service} --quota-code ${code} --desired-value ${most} --region ${region}`;
    if (room >= needed || !isComplete) return warning(found, fix);
    return error(`${found}; all quotas together allow ${room} of ${needed} replicas`, fix);
  });
}
