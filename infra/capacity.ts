import { findFacts, type GpuInstanceFacts } from './gpu/gpu-instance-types';
import type { GpuNodePoolSettings, Settings } from './settings/types';

/** The most nodes of a pool, if all of them have an instance type with these GPUs. */
export const getMostNodes = ({ nodes, maximumGpus }: GpuNodePoolSettings, { gpus }: GpuInstanceFacts): number =>
  nodes ?? Math.floor(maximumGpus / gpus);

/**
 * The most replicas that a pool can hold at its limit, whichever of its instance types it uses. An unknown type may
 * have room for all.
 */
function mostReplicas(pool: GpuNodePoolSettings, gpusPerPod: number): number {
  const counts = pool.instanceTypes.map((type) => {
    const facts = findFacts(type);
    return facts === undefined ? Infinity : getMostNodes(pool, facts) * Math.floor(facts.gpus / gpusPerPod);
  });
  return Math.max(0, ...counts);
}

/** Returns a warning if the GPU node pools of a stack cannot hold its desired replicas, otherwise undefined. */
export function capacityWarning({ gpuNodePools: pools, triton }: Settings): string | undefined {
  const { gpusPerPod, autoscaling, replicas } = triton;
  if (gpusPerPod === 0 || pools.length === 0) return undefined;
  const room = pools.reduce((sum, pool) => sum + mostReplicas(pool, gpusPerPod), 0);
  const [key, asked] =
    autoscaling === undefined ? ['replicas', replicas] : ['autoscaling.maxReplicas', autoscaling.maxReplicas];
  if (asked <= room) return undefined;
  const limits = [...new Set(pools.map(({ nodes }) => (nodes === undefined ? 'maximumGpus' : 'nodes')))].join(' and ');
  return `${key} is ${asked}, but the GPU node pools have room for ${room} at most (${limits}), so the other replicas would stay pending. Raise ${limits}, or lower ${key}`;
}
