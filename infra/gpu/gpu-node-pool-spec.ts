import { isAutoMode } from '../settings/gpu-node-pools';
import type { GpuNodePoolSettings } from '../settings/types';
import { findFacts, getNvmeGiB } from './gpu-instance-types';
import { GPU_LABEL, GPU_POOL_LABEL, GPU_TAINT, type TaintEffect } from './gpu-labels';

/**
 * Throughput in MiB/s and operations per second of an EBS volume with images. Below 600 MiB/s, images may be pulled more
 * slowly in parallel than without, and 3000 operations are included in the price:
 * https://github.com/awslabs/amazon-eks-ami/blob/81fec2e89585/nodeadm/doc/examples.md (2026-07-23), "fast image pull",
 * https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html (2026-11-26), which allows 0.25 MiB/s for each
 * operation.
 */
export const IMAGE_DISK = { throughput: 600, iops: 3000 } as const;

/**
 * The EBS volume of a node. Images and pods are on the local NVMe storage of the instance, if that is larger than diskGiB.
 * Auto Mode decides it for each node, and then has a volume of 20 GiB:
 * https://docs.aws.amazon.com/eks/latest/userguide/automode-learn-instances.html (2026-11-26), "Considerations". The nodes
 * of a managed group have the same user data, so one rule for all of them, with 40 GiB for the system and its logs.
 */
export function getVolume(pool: GpuNodePoolSettings, type: string) {
  const fits = (one: string): boolean => {
    const facts = findFacts(one);
    return facts !== undefined && pool.diskGiB < getNvmeGiB(facts);
  };
  if (isAutoMode(pool)) return { GiB: fits(type) ? 20 : pool.diskGiB, hasImages: !fits(type), isFast: true };
  const isLocal = pool.nodes !== undefined && pool.instanceTypes.every(fits);
  return { GiB: isLocal ? 40 : pool.diskGiB, hasImages: !isLocal, isFast: !isLocal && pool.nodes !== undefined };
}

/**
 * Longest life of a node of Auto Mode, 21 days, with its drain
 * (https://docs.aws.amazon.com/eks/latest/userguide/automode.html, read 2026-11-25).
 */
const MOST_NODE_HOURS = 504;

/** Enough for eleven replicas with the default times. */
const LEAST_GRACE_HOURS = 4;

/**
 * Hours after which Karpenter deletes a node that it drains, so that a pod that does not terminate cannot keep the node.
 * All nodes of an update expire together, without regard to the disruption budget of the pool, and Karpenter deletes the
 * pods that are left then although their own budget still protects them
 * (https://karpenter.sh/docs/concepts/disruption, read 2026-11-25). So it is at least the time to replace all replicas.
 * Karpenter replaces the nodes when this value changes, so it is one of few values: scaling by a few replicas keeps it.
 */
function graceHours(drainSeconds = 0): number {
  let hours = LEAST_GRACE_HOURS;
  while (hours * 3600 < drainSeconds) hours *= 2;
  return Math.min(hours, MOST_NODE_HOURS / 2);
}

/**
 * Timeout for deleting a NodePool or NodeClass: the drain of its nodes, and time for AWS to terminate the machines.
 * Karpenter keeps both objects until all their nodes are gone, and Pulumi waits only 10 minutes by default.
 */
export const deleteTimeout = (drainSeconds?: number): string => `${graceHours(drainSeconds) * 60 + 15}m`;

export interface NodeClassReference {
  group: string;
  kind: string;
  name: string;
}

/** Labels that every node of a pool has. */
export const poolLabels = (pool: GpuNodePoolSettings): Record<string, string> => ({
  ...pool.labels,
  [GPU_LABEL]: 'true',
  [GPU_POOL_LABEL]: pool.name,
});

/** Taints of every node of a pool, in Kubernetes' format. */
export const poolTaints = (pool: GpuNodePoolSettings): { key: string; value?: string; effect: TaintEffect }[] => [
  GPU_TAINT,
  ...pool.taints,
];

/**
 * Spec of the karpenter.sh/v1 NodePool, which is the same for EKS Auto Mode and any other Karpenter.
 * @param weight pools with a higher weight are filled first; 0 is Karpenter's default
 */
export function nodePoolSpec(
  pool: GpuNodePoolSettings,
  nodeClassRef: NodeClassReference,
  { drainSeconds, weight = 0 }: { drainSeconds?: number; weight?: number },
): object {
  const grace = graceHours(drainSeconds);
  const { consolidateAfter = '10m', expireAfter = '336h', budgets = [{ nodes: '1' }] } = pool.disruption ?? {};
  const requirement = (key: string, values: readonly string[]) => ({ key, operator: 'In', values: [...values] });
  return {
    template: {
      metadata: { labels: poolLabels(pool) },
      spec: {
        nodeClassRef,
        requirements: [
          requirement('node.kubernetes.io/instance-type', pool.instanceTypes),
          // Karpenter prefers reserved to spot, and spot to on-demand; the order here has no effect.
          requirement('karpenter.sh/capacity-type', pool.capacityTypes),
          requirement('kubernetes.io/arch', ['amd64']),
          ...(pool.zones.length === 0 ? [] : [requirement('topology.kubernetes.io/zone', pool.zones)]),
        ],
        taints: poolTaints(pool),
        expireAfter: `${Math.min(parseInt(expireAfter, 10), MOST_NODE_HOURS - grace)}h`,
        terminationGracePeriod: `${grace}h`,
      },
    },
    disruption: {
      // Only empty nodes are consolidated: moving a replica saves little, but the replica would have to load its models
      // again.
      consolidationPolicy: 'WhenEmpty',
      consolidateAfter,
      budgets,
    },
    limits: { 'nvidia.com/gpu': String(pool.maximumGpus) },
    weight: weight === 0 ? undefined : weight,
  };
}
