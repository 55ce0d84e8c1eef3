import type * as pulumi from '@pulumi/pulumi';
import type { Cluster } from '../cluster/cluster';
import { isAutoMode } from '../settings/gpu-node-pools';
import type { GpuNodePoolSettings } from '../settings/types';
import { findFacts, getNvmeGiB } from './gpu-instance-types';
import { GPU_LABEL, GPU_POOL_LABEL, GPU_TAINT, type TaintEffect } from './gpu-labels';

/** Tag for splitting bills by pool. */
const POOL_TAG = 'triton-serving/gpu-pool';

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

/** Tags of the nodes. Empty if the cluster has none, because its role then lacks the permission to tag nodes. */
export const getTags = ({ name }: GpuNodePoolSettings, { place }: Cluster): Record<string, string> =>
  Object.keys(place.nodeTags).length === 0 ? {} : { ...place.nodeTags, [POOL_TAG]: name };

export function getSubnets(pool: GpuNodePoolSettings, { place }: Cluster): pulumi.Input<string>[] {
  if (pool.zones.length === 0 || place.zones.length === 0) return place.subnetIds;
  return place.subnetIds.filter((_, index) => pool.zones.includes(place.zones[index] ?? ''));
}

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
