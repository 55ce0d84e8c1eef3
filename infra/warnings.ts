import { didYouMean } from '../src/core/nearest';
import { capacityWarning } from './capacity';
import { findFacts, GPU_INSTANCE_TYPE_NAMES } from './gpu/gpu-instance-types';
import { createsNetwork } from './settings/rules';
import type { GpuNodePoolSettings, Settings } from './settings/types';
import { podReadySeconds } from './triton/timeouts';
import { findSubjectFaults } from './trust-subject';

/** Warnings about settings that are valid but probably unintended. */
export function getWarnings(settings: Settings): string[] {
  const { gpuNodePools, publicAccessCidrs } = settings;
  const capacity = capacityWarning(settings);
  const always = [
    ...(capacity === undefined ? [] : [capacity]),
    ...spotWarning(settings),
    ...gpuNodePools.flatMap(unknownTypes),
    ...findSubjectFaults(settings).map(({ problem, fix }) => `${problem}: ${fix}`),
  ];
  if (publicAccessCidrs.length > 0 || !createsNetwork(settings)) return always;
  return [
    ...always,
    'publicAccessCidrs is empty, so the Kubernetes API can be reached from the new VPC only. A "pulumi up" from elsewhere fails, the first one after it created the cluster. If you run pulumi elsewhere, set your addresses: pulumi config set --path "publicAccessCidrs[0]" ADDRESS/32',
  ];
}

function unknownTypes({ name, instanceTypes }: GpuNodePoolSettings): string[] {
  return instanceTypes
    .filter((type) => findFacts(type) === undefined)
    .map((type) => {
      const hint = didYouMean(type, GPU_INSTANCE_TYPE_NAMES);
      return `pool ${name}: this package does not know ${type}, so it checks neither whether a replica fits, nor quota and price${hint === undefined ? '' : `: ${hint}`}`;
    });
}

/** AWS takes back spot nodes with two minutes' notice, without regard to budgets, and often many of a type together. */
function spotWarning({ protect, triton, gpuNodePools: pools }: Settings): string[] {
  const isFloor = ({ capacityTypes }: GpuNodePoolSettings): boolean => !capacityTypes.includes('spot');
  if (!protect || triton.gpusPerPod === 0 || pools.length === 0 || pools.some(isFloor)) return [];
  const minutes = Math.ceil(podReadySeconds(triton) / 60);
  return [
    `protect is true, but every GPU node pool prefers spot instances (${pools.map(({ name }) => name).join(', ')}): AWS may take back all of them at once, and a replica may need ${minutes} minutes on a new node. Begin gpuNodePools with a pool whose capacityTypes are [on-demand] or [reserved], for the replicas that must always run`,
  ];
}
