import { CustomResource } from '@pulumi/kubernetes/apiextensions/customResource';
import { RunError, type CustomResourceOptions } from '@pulumi/pulumi';
import type { Cluster } from '../cluster/cluster';
import type { GpuNodePoolSettings } from '../settings/types';
import { getSubnets, getTags, IMAGE_DISK, poolLabels, poolTaints } from './pool';

export interface DrainOptions {
  /** Time in which all replicas can be replaced one after the other, in seconds. Default: four hours. */
  drainSeconds?: number | undefined;
}

/**
 * "pulumi up" waits until Karpenter accepts the object, and otherwise fails after 10 minutes with its name. Without this
 * annotation, the replicas would wait for nodes that no pool can create.
 */
const WAIT_UNTIL_READY = { 'pulumi.com/waitFor': 'condition=Ready' };

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
 * Creates a karpenter.sh/v1 NodePool, which is the same for EKS Auto Mode and any other Karpenter, and for Auto Mode also
 * its NodeClass.
 * @param cluster undefined for a pool with a nodeClass
 * @param weight pools with a higher weight are filled first; 0 is Karpenter's default
 */
export function createNodePool(
  name: string,
  pool: GpuNodePoolSettings,
  cluster: Cluster | undefined,
  { weight, drainSeconds }: DrainOptions & { weight: number },
  options: CustomResourceOptions,
): CustomResource {
  const grace = graceHours(drainSeconds);
  // Karpenter keeps a NodePool and its NodeClass until all nodes are drained and AWS has terminated the machines. Pulumi's
  // default is 10 minutes.
  const customTimeouts = { delete: `${grace * 60 + 15}m` };
  const { consolidateAfter = '10m', expireAfter = '336h', budgets = [{ nodes: '1' }] } = pool.disruption ?? {};
  const requirement = (key: string, values: readonly string[]) => ({ key, operator: 'In', values: [...values] });
  const nodeClass =
    pool.nodeClass === undefined
      ? createNodeClass(`${name}-class`, pool, cluster, { ...options, customTimeouts })
      : undefined;
  return new CustomResource(
    name,
    {
      apiVersion: 'karpenter.sh/v1',
      kind: 'NodePool',
      metadata: { name: pool.name, annotations: WAIT_UNTIL_READY },
      spec: {
        template: {
          metadata: { labels: poolLabels(pool) },
          spec: {
            nodeClassRef: pool.nodeClass ?? { group: 'eks.amazonaws.com', kind: 'NodeClass', name: pool.name },
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
        // Only empty nodes are consolidated: moving a replica saves little, but the replica would have to load its models
        // again.
        disruption: { consolidationPolicy: 'WhenEmpty', consolidateAfter, budgets },
        limits: { 'nvidia.com/gpu': String(pool.maximumGpus) },
        weight: weight === 0 ? undefined : weight,
      },
    },
    { ...options, ...(nodeClass && { dependsOn: nodeClass }), customTimeouts },
  );
}

/**
 * The NodeClass of a pool of Auto Mode, which itself uses the instance store of nodes that have more of it than `size`,
 * and pulls images in parallel on G and P types with an instance store:
 * https://docs.aws.amazon.com/eks/latest/userguide/auto-change.html (2026-11-26), "November 19, 2025".
 */
function createNodeClass(
  name: string,
  pool: GpuNodePoolSettings,
  cluster: Cluster | undefined,
  options: CustomResourceOptions,
): CustomResource {
  if (cluster === undefined) {
    throw new RunError(`pool ${pool.name}: cluster is missing; only pools with a nodeClass need no cluster`);
  }
  const tags = getTags(pool, cluster);
  const reservations = pool.capacityReservationIds.map((id) => ({ id }));
  return new CustomResource(
    name,
    {
      apiVersion: 'eks.amazonaws.com/v1',
      kind: 'NodeClass',
      metadata: { name: pool.name, annotations: WAIT_UNTIL_READY },
      spec: {
        // EKS admitted this role when it created the cluster, so the nodes need no access entry of their own.
        role: cluster.nodeRoleName,
        subnetSelectorTerms: getSubnets(pool, cluster).map((id) => ({ id })),
        securityGroupSelectorTerms: [{ id: cluster.securityGroupId }],
        ephemeralStorage: { size: `${pool.diskGiB}Gi`, ...IMAGE_DISK },
        networkPolicy: 'DefaultAllow',
        tags: Object.keys(tags).length === 0 ? undefined : tags,
        capacityReservationSelectorTerms: reservations.length === 0 ? undefined : reservations,
      },
    },
    { ...options, dependsOn: cluster.ready },
  );
}
