import { didYouMean } from '../src/core/nearest';
import { capacityWarning, replicaRoom } from './capacity';
import { supportWarning } from './cluster/eks-versions';
import { findFacts, GPU_INSTANCE_TYPE_NAMES } from './gpu/gpu-instance-types';
import { createsNetwork } from './settings/rules';
import type { GpuNodePoolSettings, Settings } from './settings/types';
import { podReadySeconds } from './triton/timeouts';
import { isExampleSubject, subjectsWithoutIds } from './trust-subject';

/** Address ranges that are reserved for documentation. */
const EXAMPLE_RANGES = /^(192\.0\.2|198\.51\.100|203\.0\.113)\./;

/**
 * Warnings about settings that are valid but probably unintended.
 * @param today a parameter for tests
 */
export function getWarnings(settings: Settings, today: Date): string[] {
  const { existingCluster, gpuNodePools, publicAccessCidrs: from } = settings;
  const capacity = capacityWarning(settings);
  const always = [
    ...(capacity === undefined ? [] : [capacity]),
    ...spotWarning(settings),
    ...gpuNodePools.flatMap(unknownTypes),
    ...publisherWarnings(settings),
  ];
  if (existingCluster !== undefined) return always;
  const examples = from.filter((cidr) => EXAMPLE_RANGES.test(cidr));
  const support = supportWarning(settings.kubernetesVersion, today);
  return [
    ...always,
    ...(support === undefined ? [] : [support]),
    ...(examples.length > 0
      ? [
          `publicAccessCidrs has ${examples.join(', ')}, which is an example range: set the addresses from which you run pulumi`,
        ]
      : []),
    ...(from.length === 0 && createsNetwork(settings)
      ? [
          'publicAccessCidrs is empty, so the Kubernetes API can be reached from the new VPC only. A "pulumi up" from elsewhere fails, the first one after it created the cluster. If you run pulumi elsewhere, set your addresses: pulumi config set --path "publicAccessCidrs[0]" ADDRESS/32',
        ]
      : []),
  ];
}

function publisherWarnings({ publisherIssuer, publisherSubjects: subjects, prunerSubjects }: Settings): string[] {
  if (subjects.some(isExampleSubject)) {
    return [
      'publisherSubjects names -your-organisation-, which is an example value, so CI cannot publish: set the subjects of your CI',
    ];
  }
  if (prunerSubjects.some(isExampleSubject)) {
    return [
      'prunerSubjects names -your-organisation-, which is an example value, so nothing can prune: set the subjects of the job that prunes',
    ];
  }
  const old = subjectsWithoutIds(publisherIssuer, [...subjects, ...prunerSubjects]);
  if (old.length === 0) return [];
  return [
    `${old.join(', ')} has no ids of owner and repository. AWS rejects the tokens of a repository that was created, renamed or transferred since 2026-07-15, because their subjects are repo:OWNER@ID/NAME@ID:... "gh api /repos/OWNER/NAME/actions/oidc/customization/sub" shows the form. Set publisherSubjects and prunerSubjects to it, or list both forms`,
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

/** Whether the pool keeps nodes if AWS takes back all spot instances. */
const hasFloor = ({ capacityTypes }: GpuNodePoolSettings): boolean => !capacityTypes.includes('spot');

/** The time that a replica may need on a new node. */
const newNodeMinutes = ({ triton }: Settings): number => Math.ceil(podReadySeconds(triton) / 60);

/** AWS takes back spot nodes with two minutes' notice, without regard to budgets, and often many of a type together. */
function spotWarning(settings: Settings): string[] {
  const { protect, triton, gpuNodePools: pools } = settings;
  if (!protect || triton.gpusPerPod === 0 || pools.length === 0 || pools.some(hasFloor)) return [];
  return [
    `protect is true, but every GPU node pool prefers spot instances (${pools.map(({ name }) => name).join(', ')}): AWS may take back all of them at once, and a replica may need ${newNodeMinutes(settings)} minutes on a new node. Begin gpuNodePools with a pool whose capacityTypes are [on-demand] or [reserved], for the replicas that must always run`,
  ];
}

/** What remains if AWS takes back all spot instances at once; empty for a stack without them. */
export function getSpotNotes(settings: Settings): string[] {
  const { triton, gpuNodePools: pools } = settings;
  if (triton.gpusPerPod === 0 || !pools.some(({ capacityTypes }) => capacityTypes.includes('spot'))) return [];
  const most = triton.autoscaling?.maxReplicas ?? triton.replicas;
  const floor = pools.filter(hasFloor);
  const left = Math.min(most, replicaRoom(floor, triton.gpusPerPod));
  if (left === most) return [];
  const where = left === 0 ? '' : ` (${floor.map(({ name }) => name).join(', ')})`;
  return [
    `if AWS takes back all spot instances at once, ${left} of ${most} replicas remain${where}, and the others are missing for up to ${newNodeMinutes(settings)} minutes, or as long as AWS has no other instances`,
  ];
}
