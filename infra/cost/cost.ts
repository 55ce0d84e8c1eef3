import { capacityWarning, getNodes } from '../capacity';
import { getVolumeGiB, IMAGE_DISK, usesInstanceStore } from '../gpu/node-storage';
import { autoModeFee, getPrice, HOURS_PER_MONTH, PRICES_AS_OF, PRICES_REGION, SPOT_SHARE, USD } from './prices';
import { schedulableGpus } from '../settings/gpu-node-pools';
import type { GpuNodePoolSettings, Settings } from '../settings/types';

/** One line of an estimate. */
export interface CostItem {
  item: string;
  /** How the price was calculated, in words. */
  basis: string;
  usdPerMonth: number;
}

export interface CostEstimate {
  stack: string;
  region: string;
  pricesAsOf: string;
  pricesRegion: string;
  items: CostItem[];
  usdPerMonth: number;
  /** Cost with the same nodes at on-demand prices: if AWS has no spot instances, or other prices for them. */
  onDemandUsdPerMonth: number;
  /** Cost with the largest number of replicas. */
  mostUsdPerMonth: number;
  /** Cost with each pool at its limit and on-demand prices: an upper bound of the bill for these items. */
  limitUsdPerMonth: number;
  /** Costs that are not included, and assumptions. */
  notes: string[];
}

/** MiB/s of a gp3 volume that cost nothing. */
const FREE_THROUGHPUT = 125;
const GIB_OF_MODELS = 50;
/** One for logs and one for Kubernetes secrets. */
const CLUSTER_KEYS = 2;
/** Compressed size of Triton's image (docs/operations.md). */
const IMAGE_GB = 9;

/**
 * Estimates what a stack costs in a month in which it serves all the time.
 * @param settings of the stack
 * @param modelsGiB size of the models in the bucket, including old versions. Default: 50 GiB.
 */
export function estimateCost(settings: Settings, modelsGiB = GIB_OF_MODELS): CostEstimate {
  const { autoscaling, replicas } = settings.triton;
  const fewest = autoscaling?.minReplicas ?? replicas;
  const most = autoscaling?.maxReplicas ?? replicas;
  const fixed = [...clusterItems(settings), ...repositoryItems(settings, modelsGiB)];
  const groups = { ...settings, gpuNodePools: settings.gpuNodePools.flatMap(getGroups) };
  const items = [...fixed, ...nodeItems(groups, fewest)];
  const withoutSpot = { ...groups, gpuNodePools: groups.gpuNodePools.map(withoutSpotInstances) };
  return {
    stack: settings.stack,
    region: settings.region,
    pricesAsOf: PRICES_AS_OF,
    pricesRegion: PRICES_REGION,
    items,
    usdPerMonth: total(items),
    onDemandUsdPerMonth: total([...fixed, ...nodeItems(withoutSpot, fewest)]),
    mostUsdPerMonth: total([...fixed, ...nodeItems(groups, most)]),
    limitUsdPerMonth: total([...fixed, ...settings.gpuNodePools.flatMap(fullPool)]),
    notes: notes(settings),
  };
}

function clusterItems({ cluster }: Settings): CostItem[] {
  if (cluster.kind === 'existing') return [];
  const { network, autoMode } = cluster;
  const gateways = network.kind === 'existing' ? 0 : network.natGateways === 'one' ? 1 : network.zones.length;
  return [
    hourly('EKS control plane', '1 cluster', USD.controlPlaneHour),
    // Auto Mode runs the components of the system as processes of each node.
    ...(autoMode
      ? []
      : [
          hourly(
            'system nodes',
            `${cluster.systemNodes.count} at the price of m7i.large`,
            cluster.systemNodes.count * USD.systemNodeHour,
          ),
        ]),
    ...(gateways === 0
      ? []
      : [
          hourly(
            'NAT gateways',
            `${gateways}, each with a public address`,
            gateways * (USD.natGatewayHour + USD.publicAddressHour),
          ),
        ]),
    { item: 'KMS keys of the cluster', basis: `${CLUSTER_KEYS} keys`, usdPerMonth: CLUSTER_KEYS * USD.keyMonth },
  ];
}

function repositoryItems({ modelRepository }: Settings, modelsGiB: number): CostItem[] {
  if (modelRepository.kind !== 'create') return [];
  return [
    { item: 'model repository', basis: `${modelsGiB} GiB in S3`, usdPerMonth: modelsGiB * USD.s3GiBMonth },
    { item: 'KMS key of the models', basis: '1 key', usdPerMonth: USD.keyMonth },
  ];
}

/**
 * Replicas fill the pools in their order. Karpenter treats the preference of the replicas for different nodes as a
 * requirement until the pool is at its limit (https://karpenter.sh/docs/concepts/scheduling/#preferences, 2026-11-28), so
 * it starts one node for each replica. Replicas that no pool has room for cost nothing, because they would stay
 * pending.
 */
function nodeItems({ gpuNodePools: pools, triton: { gpusPerPod } }: Settings, replicas: number): CostItem[] {
  if (gpusPerPod === 0) return [];
  let waiting = replicas;
  return pools.flatMap((pool) => {
    const type = cheapest(pool, gpusPerPod);
    if (type === undefined) return [];
    const podsPerNode = Math.floor(schedulableGpus(pool, type) / gpusPerPod);
    const started = pool.mechanism === 'managed-node-group' ? Math.ceil(waiting / podsPerNode) : waiting;
    const room = getNodes(pool, type);
    const nodes = Math.min(Math.max(started, room.fewest), room.most);
    waiting -= Math.min(waiting, nodes * podsPerNode);
    return nodes === 0 ? [] : poolItems(pool, type, nodes);
  });
}

/** A managed pool has a group of nodes for each capacity type, with its own price. */
function getGroups(pool: GpuNodePoolSettings): GpuNodePoolSettings[] {
  const { name, mechanism, capacityTypes } = pool;
  if (mechanism !== 'managed-node-group' || capacityTypes.length < 2) return [pool];
  return capacityTypes.map((one) => ({ ...pool, name: `${name} (${one})`, capacityTypes: [one] }));
}

/** Items of a pool at its limit, with its most expensive instance type and no spot instances. */
function fullPool(pool: GpuNodePoolSettings): CostItem[] {
  const estimates = pool.instanceTypes.map((type) =>
    poolItems(withoutSpotInstances(pool), type, getNodes(pool, type).most),
  );
  return estimates.sort((a, b) => total(b) - total(a))[0] ?? [];
}

const withoutSpotInstances = (pool: GpuNodePoolSettings): GpuNodePoolSettings => ({
  ...pool,
  capacityTypes: ['on-demand'],
});

function poolItems(pool: GpuNodePoolSettings, type: string, nodes: number): CostItem[] {
  const onDemand = getPrice(pool, type);
  const spot = pool.capacityTypes.includes('spot');
  const count = `${nodes} x ${type}`;
  return [
    hourly(
      `pool ${pool.name}`,
      spot ? `${count}, spot at ${percent(SPOT_SHARE)} of the on-demand price` : `${count}, on-demand`,
      nodes * onDemand * (spot ? SPOT_SHARE : 1),
    ),
    ...(pool.mechanism === 'auto-mode'
      ? [
          hourly(
            `pool ${pool.name}, fee of Auto Mode`,
            `${percent(autoModeFee(type))} of the on-demand price of ${count}`,
            nodes * onDemand * autoModeFee(type),
          ),
        ]
      : []),
    diskItem(pool, type, nodes),
  ];
}

/**
 * Each node has a volume, also if images and models are on its instance store, which is in the price of the instance. The
 * volumes of Auto Mode always have the throughput for images.
 */
function diskItem(pool: GpuNodePoolSettings, type: string, nodes: number): CostItem {
  const GiB = getVolumeGiB(pool, type);
  const { throughput } = IMAGE_DISK;
  const isFast = pool.mechanism === 'auto-mode' || usesInstanceStore(pool, type) === false;
  const speed = isFast ? (throughput - FREE_THROUGHPUT) * USD.diskThroughputMonth : 0;
  return {
    item: `pool ${pool.name}, disks`,
    basis: `${nodes} x ${GiB} GiB${isFast ? ` with ${throughput} MiB/s` : ''}`,
    usdPerMonth: nodes * (GiB * USD.diskGiBMonth + speed),
  };
}

/** The instance type that Karpenter would choose for one replica. */
function cheapest(pool: GpuNodePoolSettings, gpusPerPod: number): string | undefined {
  return pool.instanceTypes
    .filter((type) => schedulableGpus(pool, type) >= gpusPerPod)
    .sort((a, b) => getPrice(pool, a) - getPrice(pool, b))[0];
}

function notes(settings: Settings): string[] {
  const { cluster, region } = settings;
  const spot = settings.gpuNodePools.filter(({ capacityTypes }) => capacityTypes.includes('spot'));
  const warning = capacityWarning(settings);
  return [
    ...(warning === undefined ? [] : [`Warning: ${warning}.`]),
    ...(spot.length === 0
      ? []
      : [
          `Assumption: spot instances cost ${percent(SPOT_SHARE)} of the on-demand price, and these pools use spot instances only: ${spot.map(({ name }) => name).join(', ')}. AWS changes the price, and may have no spot instances.`,
        ]),
    ...(cluster.kind === 'create' && cluster.network.kind === 'create'
      ? [
          `Each new node pulls Triton's image through a NAT gateway, for about ${(IMAGE_GB * USD.natGB).toFixed(2)} dollars.`,
        ]
      : []),
    'Not included: traffic, requests to S3 and KMS, logs, load balancers, nodes for pods other than Triton, taxes and discounts.',
    ...(region === PRICES_REGION
      ? []
      : [`The prices are those of ${PRICES_REGION}; most prices in ${region} are higher.`]),
    ...(cluster.kind === 'existing' ? ['The existing cluster is not included.'] : []),
    ...(settings.gpuNodePools.some(({ capacityTypes }) => capacityTypes.includes('reserved'))
      ? ['Reserved capacity is counted at the on-demand price; AWS charges for it even if it is not used.']
      : []),
  ];
}

const percent = (share: number): string => `${Number((share * 100).toFixed(1))}%`;

const hourly = (item: string, basis: string, usdPerHour: number): CostItem => ({
  item,
  basis,
  usdPerMonth: usdPerHour * HOURS_PER_MONTH,
});

const total = (items: readonly CostItem[]): number => items.reduce((sum, { usdPerMonth }) => sum + usdPerMonth, 0);
