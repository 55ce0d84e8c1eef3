import { capacityWarning, getMostNodes } from './capacity';
import { findFacts, getKnownTypes, type GpuInstanceFacts } from './gpu/gpu-instance-types';
import { getVolume, IMAGE_DISK } from './gpu/pool';
import { isAutoMode } from './settings/gpu-node-pools';
import { createsNetwork } from './settings/rules';
import type { GpuNodePoolSettings, Settings } from './settings/types';

/** One row of an estimate. `basis` says how the price was calculated. */
type CostItem = Record<'item' | 'basis', string> & { usdPerMonth: number };

/** Date and region of all prices, also those of infra/gpu/gpu-instance-types.ts. Other regions cost up to a third more. */
export const PRICES_AS_OF = '2026-08-17';
export const PRICES_REGION = 'us-east-1';

/** In US dollars, from the pages of AWS with the prices: aws.amazon.com/SERVICE/pricing, with ec2, eks, vpc, ebs, s3 and kms. */
const USD = {
  controlPlaneHour: 0.1,
  /** m7i.large with the fee of Auto Mode, 12% */
  cpuNodeHour: 0.1129,
  /** With a public address. */
  natGatewayHour: 0.05,
  diskGiBMonth: 0.08,
  /** A gp3 volume, for each MiB/s above 125. */
  diskThroughputMonth: 0.04,
  s3GiBMonth: 0.023,
  keyMonth: 1,
};

const REPOSITORY: CostItem[] = [
  { item: 'model repository', basis: '50 GiB in S3', usdPerMonth: 50 * USD.s3GiBMonth },
  { item: 'KMS key of the models', basis: '1 key', usdPerMonth: USD.keyMonth },
];

/** Assumed: the real share of the on-demand price varies from about 0.3 to 0.9. */
const SPOT_SHARE = 0.5;
const HOURS_PER_MONTH = 730; // As AWS counts.

/**
 * Fee of EKS Auto Mode as a share of the on-demand price. Since July 2026 it is 35% lower than the usual 12% for G, and
 * 60% lower for P: https://aws.amazon.com/about-aws/whats-new/2026/07/amazon-eks-auto-mode-gpu-price
 */
const autoModeFee = (type: string): number => (type.startsWith('g') ? 0.078 : 0.048);

/**
 * Estimates what a stack costs in a month in which it serves all the time: items for its replicas, their sum, and an upper
 * bound with each pool at its limit, at on-demand prices.
 */
export function estimateCost(settings: Settings) {
  const fixed = [...clusterItems(settings), ...(settings.modelRepository === undefined ? REPOSITORY : [])];
  const items = [...fixed, ...nodeItems(settings)];
  const limit = [...fixed, ...settings.gpuNodePools.flatMap(fullPool)];
  return { items, usdPerMonth: total(items), limitUsdPerMonth: total(limit), notes: notes(settings) };
}

function clusterItems(settings: Settings): CostItem[] {
  if (settings.existingCluster !== undefined) return [];
  const { availabilityZones, gpuNodePools, natGateways } = settings;
  // Nodes of Auto Mode need no pods of CoreDNS, nodes of managed groups do: two pods on different CPU nodes.
  const cpuNodes = gpuNodePools.some(({ nodes }) => nodes !== undefined) ? 2 : 0;
  const gateways = !createsNetwork(settings) ? 0 : natGateways === 'one' ? 1 : availabilityZones.length;
  return [
    hourly('EKS control plane', '1 cluster', USD.controlPlaneHour),
    hourly('CoreDNS of managed groups', `${cpuNodes} x m7i.large`, cpuNodes * USD.cpuNodeHour),
    hourly('NAT gateways', `${gateways}, each with a public address`, gateways * USD.natGatewayHour),
    { item: 'KMS keys of the cluster', basis: '2 keys', usdPerMonth: 2 * USD.keyMonth },
  ].filter(({ usdPerMonth }) => usdPerMonth > 0);
}

/**
 * Nodes that Karpenter starts for replicas. It takes their preference for different zones for a requirement
 * (https://karpenter.sh/docs/concepts/scheduling/#preferences, 2026-11-28), and packs the replicas of one zone.
 */
function startedNodes(replicas: number, podsPerNode: number, zones: number): number {
  const [each, more] = [Math.floor(replicas / zones), replicas % zones];
  return more * Math.ceil((each + 1) / podsPerNode) + (zones - more) * Math.ceil(each / podsPerNode);
}

/** Zones of the nodes of a pool. Of an existing cluster they are unknown, and many zones mean many nodes. */
function countZones(settings: Settings, { zones }: GpuNodePoolSettings): number {
  if (zones.length > 0) return zones.length;
  if (settings.existingCluster !== undefined) return Infinity;
  return createsNetwork(settings) ? settings.availabilityZones.length : settings.privateSubnetIds.length;
}

/** Replicas fill the pools in their order. Those that no pool has room for stay pending, and cost nothing. */
function nodeItems(settings: Settings): CostItem[] {
  const { gpusPerPod, autoscaling, replicas } = settings.triton;
  if (gpusPerPod === 0) return [];
  let waiting = autoscaling?.minReplicas ?? replicas;
  return settings.gpuNodePools.flatMap((pool) => {
    const [type] = getKnownTypes(pool.instanceTypes)
      .filter(({ gpus }) => gpus >= gpusPerPod)
      .sort((a, b) => a.usdPerHour - b.usdPerHour);
    if (type === undefined) return [];
    const podsPerNode = Math.floor(type.gpus / gpusPerPod);
    const zones = Math.min(countZones(settings, pool), Math.max(1, waiting));
    const nodes = pool.nodes ?? Math.min(startedNodes(waiting, podsPerNode, zones), getMostNodes(pool, type));
    waiting -= Math.min(waiting, nodes * podsPerNode);
    return nodes === 0 ? [] : poolItems(pool, type, nodes);
  });
}

/** Items of a pool at its limit, with its most expensive instance type and no spot instances. */
function fullPool(pool: GpuNodePoolSettings): CostItem[] {
  const onDemand: GpuNodePoolSettings = { ...pool, capacityTypes: ['on-demand'] };
  const estimates = getKnownTypes(pool.instanceTypes).map((type) =>
    poolItems(onDemand, type, getMostNodes(pool, type)),
  );
  return estimates.sort((a, b) => total(b) - total(a))[0] ?? [];
}

function poolItems(
  pool: GpuNodePoolSettings,
  { type, usdPerHour }: GpuInstanceFacts & { type: string },
  nodes: number,
): CostItem[] {
  const onDemand = nodes * usdPerHour;
  const isSpot = pool.capacityTypes.includes('spot');
  const count = `${nodes} x ${type}`;
  const kind = isSpot ? `spot at ${percent(SPOT_SHARE)} of the on-demand price` : 'on-demand';
  const fee = isAutoMode(pool) ? autoModeFee(type) : 0;
  const { GiB, isFast } = getVolume(pool, type);
  const speed = isFast ? (IMAGE_DISK.throughput - 125) * USD.diskThroughputMonth : 0;
  return [
    hourly(`pool ${pool.name}`, `${count}, ${kind}`, onDemand * (isSpot ? SPOT_SHARE : 1)),
    hourly(`pool ${pool.name}, fee of Auto Mode`, `${percent(fee)} of the on-demand price of ${count}`, onDemand * fee),
    {
      item: `pool ${pool.name}, disks`,
      basis: `${nodes} x ${GiB} GiB${isFast ? ` with ${IMAGE_DISK.throughput} MiB/s` : ''}`,
      usdPerMonth: nodes * (GiB * USD.diskGiBMonth + speed),
    },
  ].filter(({ usdPerMonth }) => usdPerMonth > 0);
}

function notes(settings: Settings): string[] {
  const spot = settings.gpuNodePools.filter(({ capacityTypes }) => capacityTypes.includes('spot'));
  const unknown = settings.gpuNodePools.flatMap(({ instanceTypes }) =>
    instanceTypes.filter((type) => findFacts(type) === undefined),
  );
  const assumed = `Assumption: spot instances cost ${percent(SPOT_SHARE)} of the on-demand price, and these pools use spot instances only: ${spot.map(({ name }) => name).join(', ')}. AWS changes the price, and may have no spot instances.`;
  return [
    ...[capacityWarning(settings) ?? []].flat().map((warning) => `Warning: ${warning}.`),
    ...(spot.length === 0 ? [] : [assumed]),
    ...(unknown.length === 0 ? [] : [`Not included: ${unknown.join(', ')}, whose prices this package does not know.`]),
    'Not included: traffic (0.40 dollars for each pull of the image through a NAT gateway), requests to S3 and KMS, logs, load balancers, existing clusters, nodes for pods other than Triton, taxes and discounts.',
    ...(settings.region === PRICES_REGION ? [] : [`Most prices in ${settings.region} are higher.`]),
  ];
}

const percent = (share: number): string => `${Number((share * 100).toFixed(1))}%`;

const hourly = (item: string, basis: string, usdPerHour: number): CostItem => ({
  item,
  basis,
  usdPerMonth: usdPerHour * HOURS_PER_MONTH,
});

const total = (items: readonly CostItem[]): number => items.reduce((sum, { usdPerMonth }) => sum + usdPerMonth, 0);
