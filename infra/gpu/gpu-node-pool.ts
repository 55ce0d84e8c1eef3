import { CustomResource } from '@pulumi/kubernetes/apiextensions/customResource';
import * as pulumi from '@pulumi/pulumi';
import { toRunError } from '../run-error';
import type { TaintEffect } from './gpu-labels';
import {
  deleteTimeout,
  getVolume,
  IMAGE_DISK,
  nodePoolSpec,
  poolLabels,
  poolTaints,
  type NodeClassReference,
} from './gpu-node-pool-spec';
import { NodeGroup } from '../cluster/node-group';
import { completePool } from '../settings/gpu-node-pools';
import type { GpuNodePoolInput, GpuNodePoolSettings } from '../settings/types';

/** Cluster and placement of the nodes, for pools whose nodes AWS creates. */
export interface NodePlacement {
  clusterName: pulumi.Input<string>;
  version: string;
  /** Private subnets, one for each zone. */
  subnetIds: pulumi.Input<string>[];
  /** The zones of `subnetIds`, in the same order; empty if they are unknown. */
  zones: string[];
  /** Tags of the nodes and their disks. Default: none. */
  tags?: Readonly<Record<string, string>>;
  /** Security group of the nodes. */
  securityGroupId: pulumi.Input<string>;
  /** Role of the nodes. */
  nodeRole: { name: pulumi.Input<string>; arn: pulumi.Input<string> };
}

export interface GpuNodePoolArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  /** Name and instance types; all other fields have defaults (settings/pool-fields.ts). */
  pool: GpuNodePoolInput;
  /** Not for a pool with a nodeClass, which determines the placement. */
  place?: NodePlacement;
  /** Time in which all replicas can be replaced one after the other, in seconds. Default: four hours. */
  drainSeconds?: number;
  /** Pools of Karpenter with a higher weight are filled first. Default: 0. */
  weight?: number;
}

/** Tag for splitting bills by pool. */
const POOL_TAG = 'triton-serving/gpu-pool';

/**
 * "pulumi up" waits until Karpenter accepts the object, and otherwise fails after 10 minutes with its name. Without this
 * annotation, the replicas would wait for nodes that no pool can create.
 */
const WAIT_UNTIL_READY = { 'pulumi.com/waitFor': 'condition=Ready' };

/** Taint effects in EKS's spelling. */
const NODE_GROUP_EFFECTS: Record<TaintEffect, string> = {
  NoSchedule: 'NO_SCHEDULE',
  PreferNoSchedule: 'PREFER_NO_SCHEDULE',
  NoExecute: 'NO_EXECUTE',
};

/**
 * User data of the nodes of a managed group whose images are on the instance store, which EKS merges with its own: all
 * NVMe disks become one file system for containerd, the kubelet and logs of pods, and SOCI pulls and unpacks the layers of
 * an image in parallel. On EBS it does not, because the small types have less than the 600 MiB/s that it needs:
 * https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (2026-11-26), "Amazon EC2 user data";
 * https://github.com/awslabs/amazon-eks-ami/blob/81fec2e89585/nodeadm/doc/api.md (2026-07-23).
 */
const INSTANCE_STORE = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  featureGates:
    FastImagePull: true
  instance:
    localStorage:
      strategy: RAID0

--//--
`;

/**
 * A pool of GPU nodes: a managed node group if it has `nodes`; else a NodePool, for the Karpenter of an existing cluster if
 * it has a `nodeClass`, and for EKS Auto Mode otherwise.
 */
export class GpuNodePool extends pulumi.ComponentResource {
  constructor(name: string, args: GpuNodePoolArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:GpuNodePool', name, {}, options);
    const pool = toRunError(() => completePool(args.pool));
    const { nodes, nodeClass } = pool;
    if (nodes !== undefined) this.nodeGroup(name, pool, nodes, getPlace(name, args.place), args.title ?? name);
    else if (nodeClass !== undefined) this.nodePool(name, pool, { reference: nodeClass, dependsOn: [] }, args);
    else this.nodePool(name, pool, this.nodeClass(name, pool, getPlace(name, args.place), args), args);
    this.registerOutputs();
  }

  /**
   * The NodeClass of a pool of Auto Mode, which itself uses the instance store of nodes that have more of it than `size`,
   * and pulls images in parallel on G and P types with an instance store:
   * https://docs.aws.amazon.com/eks/latest/userguide/auto-change.html (2026-11-26), "November 19, 2025".
   */
  private nodeClass(name: string, pool: GpuNodePoolSettings, place: NodePlacement, { drainSeconds }: GpuNodePoolArgs) {
    const tags = poolTags(pool, place);
    const reservations = pool.capacityReservationIds.map((id) => ({ id }));
    const nodeClass = new CustomResource(
      `${name}-class`,
      {
        apiVersion: 'eks.amazonaws.com/v1',
        kind: 'NodeClass',
        metadata: { name: pool.name, annotations: WAIT_UNTIL_READY },
        spec: {
          role: place.nodeRole.name,
          subnetSelectorTerms: getSubnets(pool, place).map((id) => ({ id })),
          securityGroupSelectorTerms: [{ id: place.securityGroupId }],
          ephemeralStorage: { size: `${pool.diskGiB}Gi`, ...IMAGE_DISK },
          networkPolicy: 'DefaultAllow',
          tags: Object.keys(tags).length === 0 ? undefined : tags,
          capacityReservationSelectorTerms: reservations.length === 0 ? undefined : reservations,
        },
      },
      { parent: this, customTimeouts: { delete: deleteTimeout(drainSeconds) } },
    );
    return {
      reference: { group: 'eks.amazonaws.com', kind: 'NodeClass', name: pool.name },
      dependsOn: [nodeClass],
    };
  }

  private nodePool(
    name: string,
    pool: GpuNodePoolSettings,
    nodeClass: { reference: NodeClassReference; dependsOn: pulumi.Resource[] },
    { drainSeconds, weight }: GpuNodePoolArgs,
  ): void {
    new CustomResource(
      name,
      {
        apiVersion: 'karpenter.sh/v1',
        kind: 'NodePool',
        metadata: { name: pool.name, annotations: WAIT_UNTIL_READY },
        spec: nodePoolSpec(pool, nodeClass.reference, { drainSeconds, weight }),
      },
      { parent: this, dependsOn: nodeClass.dependsOn, customTimeouts: { delete: deleteTimeout(drainSeconds) } },
    );
  }

  private nodeGroup(name: string, pool: GpuNodePoolSettings, nodes: number, place: NodePlacement, title: string): void {
    const { GiB, hasImages } = getVolume(pool, '');
    new NodeGroup(
      name,
      {
        title,
        clusterName: place.clusterName,
        nodeRoleArn: place.nodeRole.arn,
        version: place.version,
        subnetIds: getSubnets(pool, place),
        amiType: 'AL2023_x86_64_NVIDIA',
        instanceTypes: pool.instanceTypes,
        capacityType: pool.capacityTypes.includes('spot') ? 'SPOT' : 'ON_DEMAND',
        nodes,
        disk: { volumeSize: GiB, ...(hasImages && IMAGE_DISK) },
        tags: poolTags(pool, place),
        labels: poolLabels(pool),
        taints: poolTaints(pool).map((taint) => ({ ...taint, effect: NODE_GROUP_EFFECTS[taint.effect] })),
        userData: hasImages ? undefined : INSTANCE_STORE,
      },
      { parent: this },
    );
  }
}

function getPlace(name: string, place: NodePlacement | undefined): NodePlacement {
  if (place === undefined)
    throw new pulumi.RunError(`${name}: place is missing; only a pool with nodeClass needs none`);
  return place;
}

/** Empty if the stack sets no tags, because the cluster's role then lacks the permission to tag nodes. */
const poolTags = (pool: GpuNodePoolSettings, { tags = {} }: NodePlacement): Record<string, string> =>
  Object.keys(tags).length === 0 ? {} : { ...tags, [POOL_TAG]: pool.name };

function getSubnets(pool: GpuNodePoolSettings, { subnetIds, zones }: NodePlacement): pulumi.Input<string>[] {
  if (pool.zones.length === 0 || zones.length === 0) return subnetIds;
  return subnetIds.filter((_, index) => pool.zones.includes(zones[index] ?? ''));
}
