import type { GpuNodePoolSettings } from '../settings/types';
import { getNvmeGiB } from './gpu-instance-types';

/**
 * Throughput in MiB/s and operations per second of an EBS volume with images. Below 600 MiB/s, images may be pulled more
 * slowly in parallel than without, and 3000 operations are included in the price:
 * https://github.com/awslabs/amazon-eks-ami/blob/81fec2e89585/nodeadm/doc/examples.md (2026-07-23), "fast image pull",
 * https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html (2026-11-26), which allows 0.25 MiB/s for each
 * operation.
 */
export const IMAGE_DISK = { throughput: 600, iops: 3000 } as const;

/** GiB of the EBS volume of a managed node with images on the instance store: for the operating system and its logs. */
const SYSTEM_GIB = 40;

/**
 * GiB of the EBS data volume of a node of Auto Mode with images on the instance store:
 * https://docs.aws.amazon.com/eks/latest/userguide/automode-learn-instances.html (2026-11-26), "Considerations".
 */
const AUTO_MODE_GIB = 20;

type OfPool = Pick<GpuNodePoolSettings, 'mechanism' | 'diskGiB' | 'instanceTypes' | 'instanceTypeFacts'>;

/**
 * Whether images and pods of a node are on its local NVMe storage, the instance store, and not on EBS. Auto Mode decides
 * it for each node, by the rule on the page above. The nodes of a managed group have the same user data, so one rule for
 * all of them. Undefined if the node class of another Karpenter decides.
 */
export function usesInstanceStore(pool: OfPool, type: string): boolean | undefined {
  if (pool.mechanism === 'karpenter') return undefined;
  const types = pool.mechanism === 'auto-mode' ? [type] : pool.instanceTypes;
  return types.every((one) => pool.diskGiB < getNvmeGiB(pool, one));
}

/** GiB of the EBS volume of a node. */
export function getVolumeGiB(pool: OfPool, type: string): number {
  if (usesInstanceStore(pool, type) !== true) return pool.diskGiB;
  return pool.mechanism === 'auto-mode' ? AUTO_MODE_GIB : SYSTEM_GIB;
}

/** Instance types whose nodes have images on EBS, because `diskGiB` is at least as large as their local NVMe storage. */
export function typesOnEbs(pool: OfPool): string[] {
  if (pool.mechanism === 'karpenter') return [];
  return pool.instanceTypes.filter((type) => pool.diskGiB >= getNvmeGiB(pool, type));
}

/** What to do about instance types whose images are on EBS. */
export const STORAGE_FIX = 'lower diskGiB, remove these instance types, or give nvmeGB in their instanceTypeFacts';

/** Why images and models of a pool are not on local NVMe storage, if they are not. */
export function findSlowStorage(pool: OfPool & Pick<GpuNodePoolSettings, 'name'>): string | undefined {
  const slow = typesOnEbs(pool);
  if (slow.length === 0) return undefined;
  const list = slow.map((type) => `${type} (${getNvmeGiB(pool, type)} GiB)`).join(', ');
  const nodes = pool.mechanism === 'auto-mode' ? 'these nodes' : 'all nodes of the pool';
  return `pool ${pool.name}: diskGiB (${pool.diskGiB}) is at least as large as the local NVMe storage of ${list}, so ${nodes} have images and models on an EBS volume, which is slower and costs extra`;
}
