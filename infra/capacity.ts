import { getFacts } from './gpu/gpu-instance-types';
import { schedulableGpus } from './settings/gpu-node-pools';
import type { GpuNodePoolSettings, Settings } from './settings/types';

/** Fewest and most nodes of a pool, if all of them have the given instance type. */
export function getNodes(pool: GpuNodePoolSettings, type: string): { fewest: number; most: number } {
  if (pool.mechanism === 'managed-node-group') {
    // One group for spot and one for on-demand, each of this size.
    const groups = pool.capacityTypes.length;
    return { fewest: pool.minimumNodes * groups, most: pool.maximumNodes * groups };
  }
  return { fewest: 0, most: Math.floor(pool.maximumGpus / getFacts(pool, type).gpus) };
}

/** The most replicas that a pool can hold at its limit, whichever of its instance types it uses. */
function mostServers(pool: GpuNodePoolSettings, gpusPerPod: number): number {
  const counts = pool.instanceTypes.map(
    (type) => getNodes(pool, type).most * Math.floor(schedulableGpus(pool, type) / gpusPerPod),
  );
  return Math.max(0, ...counts);
}

/** The most replicas that these pools can hold at their limits. */
export const replicaRoom = (pools: readonly GpuNodePoolSettings[], gpusPerPod: number): number =>
  pools.reduce((sum, pool) => sum + mostServers(pool, gpusPerPod), 0);

/** Returns a warning if the GPU node pools of a stack cannot hold its desired replicas, otherwise undefined. */
export function capacityWarning({ gpuNodePools: pools, triton }: Settings): string | undefined {
  const { gpusPerPod, autoscaling, replicas } = triton;
  if (gpusPerPod === 0 || pools.length === 0) return undefined;
  const room = replicaRoom(pools, gpusPerPod);
  const [key, asked] =
    autoscaling === undefined ? ['replicas', replicas] : ['autoscaling.maxReplicas', autoscaling.maxReplicas];
  if (asked <= room) return undefined;
  const limits = [...new Set(pools.map(({ mechanism }) => getLimit(mechanism)))].join(' and ');
  return `${key} is ${asked}, but the GPU node pools have room for ${room} at most (${limits}), so the other replicas would stay pending. Raise ${limits}, or lower ${key}`;
}

const getLimit = (mechanism: GpuNodePoolSettings['mechanism']): string =>
  mechanism === 'managed-node-group' ? 'maximumNodes' : 'maximumGpus';
