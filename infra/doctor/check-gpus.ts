import { getMostNodes } from '../capacity';
import { findFacts } from '../gpu/gpu-instance-types';
import type { GpuNodePoolSettings } from '../settings/types';
import type { Quota } from './aws';
import { getNodeZones, requestIncrease } from './check-network';
import { error, ok, warning, type Check, type Finding } from './doctor';

export const instanceTypesCheck: Check = {
  name: 'GPU types',
  run: async (context) => {
    const { gpuNodePools: pools } = context.settings;
    if (pools.length === 0) return [];
    const types = [...new Set(pools.flatMap(({ instanceTypes }) => instanceTypes))];
    const [offered, zones] = await Promise.all([context.aws.zonesOffering(types), getNodeZones(context)]);
    return pools.map((pool) => judgeOffers(pool, offered, zones));
  },
};

/** @param zones of the nodes; undefined for all zones of the region */
function judgeOffers(
  { name, instanceTypes, zones: ofPool }: GpuNodePoolSettings,
  getOffers: (type: string) => string[],
  zones: readonly string[] | undefined,
): Finding {
  const desired = ofPool.length > 0 ? ofPool : zones;
  const offers = instanceTypes.map((type) => ({
    type,
    zones: getOffers(type).filter((zone) => desired?.includes(zone) ?? true),
  }));
  const absent = offers.filter((offer) => offer.zones.length === 0).map(({ type }) => type);
  const empty = (desired ?? []).filter((zone) => offers.every((offer) => !offer.zones.includes(zone)));
  const found = `pool ${name}: AWS offers none of ${instanceTypes.join(', ')} in`;
  const fix = `change availabilityZones, or instanceTypes of the pool; "aws ec2 describe-instance-type-offerings --location-type availability-zone" lists the offers`;
  if (absent.length === instanceTypes.length) return error(`${found} ${desired?.join(', ') ?? 'this region'}`, fix);
  if (empty.length > 0) return warning(`${found} ${empty.join(', ')}, so its nodes run in the other zones only`, fix);
  if (absent.length > 0) return warning(`pool ${name}: AWS does not offer ${absent.join(', ')} in its zones`, fix);
  return ok(`pool ${name}: ${offers.map((offer) => `${offer.type} in ${offer.zones.join(', ')}`).join('; ')}`);
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

/** Quotas of GPU instances, in vCPUs. Instances that already run in the account are not subtracted. */
export const quotasCheck: Check = {
  name: 'GPU quotas',
  run: async ({ aws, settings: { gpuNodePools: pools, region, triton } }) => {
    const { autoscaling, replicas, gpusPerPod } = triton;
    const uses = pools.flatMap((pool) =>
      pool.capacityTypes.flatMap((capacity) =>
        pool.instanceTypes.map((type) => {
          const facts = findFacts(type);
          if (facts === undefined) return { pool, type, quota: undefined, vcpus: 0, replicas: 0, most: 0 };
          const { gpus, vcpus } = facts;
          const replicas = gpusPerPod === 0 ? 0 : Math.floor(gpus / gpusPerPod);
          const most = getMostNodes(pool, facts) * vcpus;
          return { pool, type, quota: getQuota(type, capacity), vcpus, replicas, most };
        }),
      ),
    );
    const demands = await Promise.all(
      [...new Set(uses.flatMap(({ quota }) => quota ?? []))].map(async (quota) => {
        const own = uses.filter((use) => use.quota === quota);
        const ofPools = pools.map((pool) =>
          Math.max(0, ...own.filter((use) => use.pool === pool).map((use) => use.most)),
        );
        const granted = await aws.quota(quota);
        const room = Math.max(...own.map((use) => Math.floor(granted / use.vcpus) * use.replicas));
        return { quota, granted, room, most: sum(ofPools) };
      }),
    );
    const unknown = new Set(
      uses.filter(({ quota }) => quota === undefined).map(({ pool, type }) => `pool ${pool.name}: ${type}`),
    );
    const needed = gpusPerPod === 0 ? 0 : (autoscaling?.minReplicas ?? replicas);
    const room = sum(demands.map((demand) => demand.room));
    const findings = demands.map(({ quota, granted, most }) => {
      const found = `${quota.name} (${quota.code}): ${granted} vCPUs, and the pools can request ${most}`;
      if (granted >= most) return ok(found);
      const fix = requestIncrease(quota, most, region);
      // Replicas may also run within a quota that is unknown.
      if (room >= needed || unknown.size > 0) return warning(found, fix);
      return error(`${found}; all quotas together allow ${room} of ${needed} replicas`, fix);
    });
    const fix = 'compare it yourself: aws service-quotas list-service-quotas --service-code ec2';
    return [
      ...findings,
      ...[...unknown].map((which) => warning(`${which}: the doctor does not know its quota, or its vCPUs`, fix)),
    ];
  },
};

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
