import type { ProblemList } from '../../src/core/problems';
import { getComputeCapability, getFacts, GPU_INSTANCE_TYPE_NAMES, HYPERVISOR_SHARE } from '../gpu/gpu-instance-types';
import { AGENT_REQUESTS, DEFAULTS } from '../triton/limits';
import { checkTypesAreKnown } from './instance-type-facts';
import type { GpuNodePoolSettings, Settings } from './types';
import { checkZonesOfRegion } from './zones';

/** GiB of a node's disk that the operating system and Triton's image occupy. */
const SYSTEM_AND_IMAGE_GIB = 40;

/** GPUs of one node of a pool as the scheduler counts them: a GPU with time slices counts once per slice. */
export const schedulableGpus = (pool: GpuNodePoolSettings, type: string): number =>
  getFacts(pool, type).gpus * (pool.mechanism === 'managed-node-group' ? pool.timeSlices : 1);

/**
 * Memory of a node for pods, in MiB. Auto Mode starts no node for a pod that needs more than Karpenter expects. The
 * expectation of another Karpenter is a setting of its owner, and a node of a managed group may have more, so there only
 * the reserve of the kubelet counts.
 */
function getPodMemoryMiB(pool: GpuNodePoolSettings, type: string): number {
  const { memoryGiB, podMemoryMiB } = getFacts(pool, type);
  return pool.mechanism === 'auto-mode' ? podMemoryMiB : podMemoryMiB + HYPERVISOR_SHARE * memoryGiB * 1024;
}

/** Cores and memory of a node for pods, or of a pod. */
export interface Room {
  cores: number;
  memoryMiB: number;
}

export const formatRoom = ({ cores, memoryMiB }: Room): string =>
  `${cores} cores and ${Math.round((memoryMiB / 1024) * 100) / 100} GiB`;

/** What a node has for pods. */
export const getPodRoom = (pool: GpuNodePoolSettings, type: string): Room => ({
  cores: getFacts(pool, type).podCores,
  memoryMiB: getPodMemoryMiB(pool, type),
});

/** What a replica and its agent request. */
export function getReplicaRoom({ resources }: Pick<Settings['triton'], 'resources'>): Room {
  const { cpu, memoryGiB } = { ...DEFAULTS.resources, ...resources };
  return { cores: cpu + AGENT_REQUESTS.cpu, memoryMiB: memoryGiB * 1024 + AGENT_REQUESTS.memoryMiB };
}

/**
 * Names that EKS uses in a cluster with Auto Mode: its node class, and its node pools
 * (https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html, read 2026-11-25).
 */
const NAMES_OF_AUTO_MODE = ['default', 'general-purpose', 'system'];

interface ModelGpu {
  model: string;
  computeCapabilities: string[];
}

/** Reports contradictions within pools, and pools that do not suit the models and replicas. */
export function checkPools(settings: Settings, models: readonly ModelGpu[], problems: ProblemList): void {
  const { gpuNodePools: pools, cluster, triton } = settings;
  pools.forEach((pool, index) => {
    const at = (field: string): string => `gpuNodePools[${index}].${field}`;
    if (pools.findIndex(({ name }) => name === pool.name) !== index) {
      problems.add(at('name'), `is "${pool.name}", like that of another pool`, {
        allowed: 'a different name for each pool',
      });
    }
    if (!checkTypesAreKnown(pool, problems, at('instanceTypes'))) return;
    checkInstanceTypes(pool, triton, problems, at);
    if (pool.mechanism === 'managed-node-group') checkNodeGroup(pool, cluster.kind, problems, at);
    else checkKarpenterPool(pool, settings, problems, at);
    checkZones(pool, settings, problems, at);
    const scratch = triton.resources?.scratchGiB ?? DEFAULTS.resources.scratchGiB;
    if (pool.mechanism !== 'karpenter' && pool.diskGiB < SYSTEM_AND_IMAGE_GIB + scratch) {
      problems.add(at('diskGiB'), `is ${pool.diskGiB}`, {
        allowed: `at least ${SYSTEM_AND_IMAGE_GIB + scratch}: ${SYSTEM_AND_IMAGE_GIB} for the system and Triton's image, ${scratch} for downloaded models (resources.scratchGiB)`,
      });
    }
    for (const model of models) checkModel(model, pool, problems, at);
  });
}

type At = (field: string) => string;

/**
 * Karpenter would never choose an instance type that is too small for a replica, and a managed group would pay for it
 * in vain.
 */
function checkInstanceTypes(
  pool: GpuNodePoolSettings,
  triton: Settings['triton'],
  problems: ProblemList,
  at: At,
): void {
  if (pool.instanceTypes.length === 0) {
    problems.add(at('instanceTypes'), 'is empty', { allowed: `one or more of ${GPU_INSTANCE_TYPE_NAMES.join(', ')}` });
  }
  if (pool.capacityTypes.length === 0) {
    problems.add(at('capacityTypes'), 'is empty', { allowed: 'one or more of reserved, spot, on-demand' });
  }
  const { gpusPerPod } = triton;
  const needed = getReplicaRoom(triton);
  for (const type of pool.instanceTypes) {
    const facts = getFacts(pool, type);
    const room = getPodRoom(pool, type);
    if (gpusPerPod > 0 && (room.memoryMiB < needed.memoryMiB || room.cores < needed.cores)) {
      problems.add(
        at('instanceTypes'),
        `has ${type} with ${formatRoom(room)} for pods of its ${facts.vcpus} cores and ${facts.memoryGiB} GiB, but a replica needs ${formatRoom(needed)}`,
        { hint: 'use larger instance types, or lower resources.cpu and resources.memoryGiB' },
      );
    }
    if (schedulableGpus(pool, type) < gpusPerPod) {
      problems.add(at('instanceTypes'), `has ${type} with ${facts.gpus} GPU, but a replica needs ${gpusPerPod}`, {
        hint: 'use instance types with more GPUs, or lower gpusPerPod',
      });
    }
  }
}

function checkNodeGroup(
  pool: GpuNodePoolSettings,
  cluster: 'create' | 'existing',
  problems: ProblemList,
  at: At,
): void {
  if (cluster === 'existing') {
    problems.add(at('mechanism'), 'is managed-node-group, but this stack does not create the cluster', {
      allowed: 'karpenter, or an empty gpuNodePools',
    });
  }
  if (pool.minimumNodes > pool.maximumNodes) {
    problems.add(at('minimumNodes'), `is ${pool.minimumNodes}`, {
      allowed: `at most maximumNodes, ${pool.maximumNodes}`,
    });
  }
  if (pool.capacityTypes.includes('reserved')) {
    problems.add(at('capacityTypes'), 'has reserved', { allowed: 'spot and on-demand for managed-node-group' });
  }
  if (pool.maintenanceWindow !== undefined) {
    problems.add(at('maintenanceWindow'), 'is set, but only Karpenter has maintenance windows', {
      hint: 'remove it: EKS replaces nodes of a managed node group only in an update of the stack',
    });
  }
}

/**
 * A Karpenter that this package did not install has a node class, which every pool must name, also without a stack
 * file.
 */
export function checkNodeClass(pool: GpuNodePoolSettings, problems: ProblemList, at: string): void {
  if (pool.mechanism !== 'karpenter' || pool.nodeClass !== undefined) return;
  problems.add(at, 'is missing', { allowed: 'a mapping with group, kind and name of the node class' });
}

function checkKarpenterPool(pool: GpuNodePoolSettings, settings: Settings, problems: ProblemList, at: At): void {
  const { cluster } = settings;
  if (pool.mechanism === 'auto-mode' && !(cluster.kind === 'create' && cluster.autoMode)) {
    problems.add(at('mechanism'), 'is auto-mode, but this stack does not create a cluster with Auto Mode', {
      allowed:
        cluster.kind === 'create'
          ? 'managed-node-group, or set autoMode to true'
          : 'karpenter, or an empty gpuNodePools',
    });
  }
  if (pool.mechanism === 'auto-mode' && NAMES_OF_AUTO_MODE.includes(pool.name)) {
    problems.add(at('name'), `is "${pool.name}", which EKS Auto Mode uses itself`, {
      allowed: `any name but ${NAMES_OF_AUTO_MODE.join(', ')}`,
    });
  }
  checkNodeClass(pool, problems, at('nodeClass'));
  if (pool.mechanism !== 'karpenter' && pool.nodeClass !== undefined) {
    problems.add(at('nodeClass'), 'is set, but this stack creates the node class', {
      hint: 'remove it, or set mechanism to karpenter',
    });
  }
  const reserved = pool.capacityTypes.includes('reserved');
  if (pool.mechanism === 'auto-mode' && reserved !== pool.capacityReservationIds.length > 0) {
    problems.add(at(reserved ? 'capacityReservationIds' : 'capacityTypes'), reserved ? 'is empty' : 'lacks reserved', {
      allowed: 'both the capacity type reserved and capacityReservationIds, or neither',
    });
  }
  for (const [key, usual] of [
    ['timeSlices', 1],
    ['dcgmExporter', false],
  ] as const) {
    if (pool[key] !== usual) {
      problems.add(at(key), `is ${pool[key]}`, { allowed: `${usual}, because only managed-node-group supports it` });
    }
  }
  const smallest = Math.min(...pool.instanceTypes.map((type) => getFacts(pool, type).gpus));
  if (pool.instanceTypes.length > 0 && pool.maximumGpus < smallest) {
    problems.add(at('maximumGpus'), `is ${pool.maximumGpus}`, {
      allowed: `at least ${smallest}, the number of GPUs of one node`,
    });
  }
}

function checkZones(pool: GpuNodePoolSettings, { cluster, region }: Settings, problems: ProblemList, at: At): void {
  if (cluster.kind !== 'create' || pool.zones.length === 0) return;
  if (cluster.network.kind === 'existing') {
    checkZonesOfRegion(at('zones'), pool.zones, region, problems);
    if (pool.mechanism !== 'managed-node-group') return;
    problems.add(at('zones'), `has ${pool.zones.join(', ')}, but the zones of privateSubnetIds are unknown`, {
      hint: 'remove it; a managed node group uses all subnets of privateSubnetIds',
    });
    return;
  }
  const { zones } = cluster.network;
  const strange = pool.zones.filter((zone) => !zones.includes(zone));
  if (strange.length > 0) problems.add(at('zones'), `has ${strange.join(', ')}`, { allowed: zones.join(', ') });
}

/** Every replica loads every model, so each model must run on each kind of GPU that a replica may get. */
function checkModel(model: ModelGpu, pool: GpuNodePoolSettings, problems: ProblemList, at: At): void {
  const wrong = pool.instanceTypes.filter(
    (type) => !model.computeCapabilities.includes(getComputeCapability(pool, type)),
  );
  if (wrong.length === 0) return;
  const described = wrong.map((type) => `${type} (${getFacts(pool, type).gpu}, ${getComputeCapability(pool, type)})`);
  const fitting = GPU_INSTANCE_TYPE_NAMES.filter((type) =>
    model.computeCapabilities.includes(getComputeCapability(pool, type)),
  );
  problems.add(at('instanceTypes'), `has ${described.join(', ')}, on which the model ${model.model} does not run`, {
    allowed: `compute capability ${model.computeCapabilities.join(', ')}: ${fitting.length === 0 ? 'no known type' : fitting.join(', ')}`,
    hint: `build a plan of ${model.model} for that GPU, and add its compute capability to modelGpus`,
  });
}
