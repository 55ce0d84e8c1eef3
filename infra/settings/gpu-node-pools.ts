import { ProblemList } from '../../src/core/problems';
import {
  getKnownTypes,
  GPU_INSTANCE_TYPE_NAMES,
  HYPERVISOR_SHARE,
  type GpuInstanceFacts,
} from '../gpu/gpu-instance-types';
import { AGENT_REQUESTS } from '../triton/settings';
import { POOL_FIELDS } from './pool-fields';
import { readFields, refuseUnused } from './reader';
import { checkZonesOfRegion, createsNetwork } from './rules';
import type { GpuNodePoolInput, GpuNodePoolSettings, Settings } from './types';

/** GiB of a node's disk that the operating system and Triton's image occupy. */
const SYSTEM_AND_IMAGE_GIB = 40;

/**
 * Names that EKS uses in a cluster with Auto Mode: its node class, and its node pools
 * (https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html, read 2026-11-25).
 */
const NAMES_OF_AUTO_MODE = ['default', 'general-purpose', 'system'];

/** Whether EKS Auto Mode starts the nodes, and not a managed node group or the Karpenter of an existing cluster. */
export const isAutoMode = ({ nodes, nodeClass }: GpuNodePoolSettings): boolean =>
  nodes === undefined && nodeClass === undefined;

/**
 * Fills in the defaults of a pool, for programs that use the components without a stack file of this package.
 * @throws UserError with all problems
 */
export function completePool(pool: GpuNodePoolInput): GpuNodePoolSettings {
  const problems = new ProblemList(`pool ${pool.name}`);
  const complete = readFields(POOL_FIELDS, pool, problems);
  problems.refuse(`the pool ${pool.name} has invalid settings`);
  return complete;
}

function getReplicaRoom({ resources: { cpu, memoryGiB } }: Settings['triton']) {
  return { cores: cpu + AGENT_REQUESTS.cpu, memoryMiB: memoryGiB * 1024 + AGENT_REQUESTS.memoryMiB };
}

/**
 * What a node has for pods. Auto Mode starts no node for a pod that needs more memory than Karpenter expects. The
 * expectation of another Karpenter is a setting of its owner, and a node of a managed group may have more, so there only
 * the reserve of the kubelet counts.
 */
const getNodeRoom = (pool: GpuNodePoolSettings, { podCores, podMemoryMiB, memoryGiB }: GpuInstanceFacts) => ({
  cores: podCores,
  memoryMiB: podMemoryMiB + (isAutoMode(pool) ? 0 : HYPERVISOR_SHARE * memoryGiB * 1024),
});

const formatRoom = ({ cores, memoryMiB }: { cores: number; memoryMiB: number }): string =>
  `${cores} cores and ${Math.round((memoryMiB / 1024) * 100) / 100} GiB`;

type At = (field?: keyof GpuNodePoolSettings) => string;

/** Reports contradictions within pools, and pools that do not suit the cluster and the replicas. */
export function checkPools(settings: Settings, problems: ProblemList): void {
  const { gpuNodePools: pools, triton } = settings;
  pools.forEach((pool, index) => {
    const at: At = (field) => `gpuNodePools[${index}]${field === undefined ? '' : `.${field}`}`;
    if (pools.findIndex(({ name }) => name === pool.name) !== index) {
      problems.add(at('name'), `is "${pool.name}", like that of another pool`, {
        allowed: 'a different name for each pool',
      });
    }
    checkKind(pool, settings, problems, at);
    checkZones(pool, settings, problems, at);
    checkInstanceTypes(pool, triton, problems, at);
    const scratch = triton.resources.scratchGiB;
    if (pool.nodeClass === undefined && pool.diskGiB < SYSTEM_AND_IMAGE_GIB + scratch) {
      problems.add(at('diskGiB'), `is ${pool.diskGiB}`, {
        allowed: `at least ${SYSTEM_AND_IMAGE_GIB + scratch}: ${SYSTEM_AND_IMAGE_GIB} for the system and Triton's image, ${scratch} for downloaded models (resources.scratchGiB)`,
      });
    }
  });
}

/** Reports fields that do not suit what creates the nodes: Auto Mode, a managed node group, or the Karpenter of others. */
function checkKind(pool: GpuNodePoolSettings, { existingCluster }: Settings, problems: ProblemList, at: At): void {
  const { name, nodes, nodeClass, capacityTypes, capacityReservationIds, disruption } = pool;
  const reserved = capacityTypes.includes('reserved');
  disruption?.budgets.forEach(({ schedule, duration }, index) => {
    if ((schedule === undefined) === (duration === undefined)) return;
    const allowed = 'both schedule and duration, or neither';
    problems.add(`${at('disruption')}.budgets[${index}]`, 'is incomplete', { allowed });
  });
  if (existingCluster !== undefined) {
    if (nodes !== undefined) {
      problems.add(at('nodes'), 'is set, but this stack does not create the cluster', { hint: 'remove it' });
    }
    if (nodeClass === undefined) {
      problems.add(at('nodeClass'), 'is missing, but this stack does not create the cluster', {
        allowed: 'a mapping with group, kind and name of a node class of its Karpenter, or an empty gpuNodePools',
      });
    }
    const unused = { names: ['diskGiB', 'capacityReservationIds'], because: 'nodeClass decides it' };
    refuseUnused(POOL_FIELDS, pool, unused, problems, at());
    return;
  }
  if (nodeClass !== undefined) {
    problems.add(at('nodeClass'), 'is set, but this stack creates the cluster and the node class', {
      hint: 'remove it',
    });
  }
  if (nodes === undefined) {
    if (NAMES_OF_AUTO_MODE.includes(name)) {
      problems.add(at('name'), `is "${name}", which EKS Auto Mode uses itself`, {
        allowed: `any name but ${NAMES_OF_AUTO_MODE.join(', ')}`,
      });
    }
    if (reserved !== capacityReservationIds.length > 0) {
      problems.add(
        at(reserved ? 'capacityReservationIds' : 'capacityTypes'),
        reserved ? 'is empty' : 'lacks reserved',
        { allowed: 'both the capacity type reserved and capacityReservationIds, or neither' },
      );
    }
    return;
  }
  if (capacityTypes.length !== 1 || reserved) {
    problems.add(at('capacityTypes'), `is ${capacityTypes.join(', ')}`, {
      allowed: 'one of spot, on-demand, because a managed node group has one of them',
    });
  }
  const because = 'a managed node group has a fixed number of nodes, which only an update of the stack replaces';
  const unused = { names: ['maximumGpus', 'capacityReservationIds', 'disruption'], because };
  refuseUnused(POOL_FIELDS, pool, unused, problems, at());
}

function checkZones(pool: GpuNodePoolSettings, settings: Settings, problems: ProblemList, at: At): void {
  if (settings.existingCluster !== undefined || pool.zones.length === 0) return;
  if (!createsNetwork(settings)) {
    checkZonesOfRegion(at('zones'), pool.zones, settings.region, problems);
    if (pool.nodes === undefined) return;
    problems.add(at('zones'), `has ${pool.zones.join(', ')}, but the zones of privateSubnetIds are unknown`, {
      hint: 'remove it; a managed node group uses all subnets of privateSubnetIds',
    });
    return;
  }
  const zones = settings.availabilityZones;
  const strange = pool.zones.filter((zone) => !zones.includes(zone));
  if (strange.length > 0) problems.add(at('zones'), `has ${strange.join(', ')}`, { allowed: zones.join(', ') });
}

/**
 * Karpenter would never choose an instance type that is too small for a replica, and a managed group would pay for it in
 * vain. A warning reports the types that are not known here.
 */
function checkInstanceTypes(
  pool: GpuNodePoolSettings,
  triton: Settings['triton'],
  problems: ProblemList,
  at: At,
): void {
  for (const field of ['instanceTypes', 'capacityTypes'] as const) {
    if (pool[field].length === 0) {
      const { choices } = { choices: GPU_INSTANCE_TYPE_NAMES, ...POOL_FIELDS[field] };
      problems.add(at(field), 'is empty', { allowed: `one or more of ${choices.join(', ')}` });
    }
  }
  const { gpusPerPod } = triton;
  const needed = getReplicaRoom(triton);
  const known = getKnownTypes(pool.instanceTypes);
  for (const facts of known) {
    const { type, gpus, vcpus, memoryGiB } = facts;
    const room = getNodeRoom(pool, facts);
    if (gpusPerPod > 0 && (room.memoryMiB < needed.memoryMiB || room.cores < needed.cores)) {
      problems.add(
        at('instanceTypes'),
        `has ${type} with ${formatRoom(room)} for pods of its ${vcpus} cores and ${memoryGiB} GiB, but a replica needs ${formatRoom(needed)}`,
        { hint: 'use larger instance types, or lower resources.cpu and resources.memoryGiB' },
      );
    }
    if (gpus < gpusPerPod) {
      problems.add(at('instanceTypes'), `has ${type} with ${gpus} GPU, but a replica needs ${gpusPerPod}`, {
        hint: 'use instance types with more GPUs, or lower gpusPerPod',
      });
    }
  }
  const smallest = Math.min(...known.map(({ gpus }) => gpus));
  if (pool.nodes === undefined && known.length > 0 && pool.maximumGpus < smallest) {
    problems.add(at('maximumGpus'), `is ${pool.maximumGpus}`, {
      allowed: `at least ${smallest}, the number of GPUs of one node`,
    });
  }
}
