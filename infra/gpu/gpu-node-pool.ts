import { CustomResource } from '@pulumi/kubernetes/apiextensions/customResource';
import * as pulumi from '@pulumi/pulumi';
import { toRunError } from '../run-error';
import type { TaintEffect } from './gpu-labels';
import {
  deleteTimeout,
  nodeClassSpec,
  nodePoolSpec,
  poolLabels,
  poolTaints,
  type NodeClassReference,
} from './gpu-node-pool-spec';
import { getVolumeGiB, IMAGE_DISK, typesOnEbs } from './node-storage';
import { nodeUserData } from './node-user-data';
import { NodeGroup } from '../cluster/node-group';
import { completePool } from '../settings/complete-pool';
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
  /** Not for the mechanism karpenter, where the existing node class determines the placement. */
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
const NODE_GROUP_EFFECTS: Record<TaintEffect, 'NO_SCHEDULE' | 'PREFER_NO_SCHEDULE' | 'NO_EXECUTE'> = {
  NoSchedule: 'NO_SCHEDULE',
  PreferNoSchedule: 'PREFER_NO_SCHEDULE',
  NoExecute: 'NO_EXECUTE',
};

/** A pool of GPU nodes, created by one of three mechanisms. */
export class GpuNodePool extends pulumi.ComponentResource {
  constructor(name: string, args: GpuNodePoolArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:GpuNodePool', name, {}, options);
    const { place } = args;
    const pool = toRunError(() => completePool(args.pool));
    switch (pool.mechanism) {
      case 'auto-mode':
        this.nodePool(name, pool, this.nodeClass(name, pool, getPlace(name, place), args), args);
        break;
      case 'karpenter':
        this.nodePool(name, pool, { reference: pool.nodeClass as NodeClassReference, dependsOn: [] }, args);
        break;
      case 'managed-node-group':
        this.nodeGroups(name, pool, getPlace(name, place), args.title ?? name);
        break;
      default:
        pool.mechanism satisfies never;
    }
    this.registerOutputs();
  }

  private nodeClass(name: string, pool: GpuNodePoolSettings, place: NodePlacement, { drainSeconds }: GpuNodePoolArgs) {
    const nodeClass = new CustomResource(
      `${name}-class`,
      {
        apiVersion: 'eks.amazonaws.com/v1',
        kind: 'NodeClass',
        metadata: { name: pool.name, annotations: WAIT_UNTIL_READY },
        spec: nodeClassSpec<pulumi.Input<string>>(pool, {
          roleName: place.nodeRole.name,
          subnetIds: getSubnets(pool, place),
          securityGroupId: place.securityGroupId,
          tags: poolTags(pool, place),
        }),
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

  /** Creates one group for each capacity type, because a group cannot mix spot and on-demand instances. */
  private nodeGroups(name: string, pool: GpuNodePoolSettings, place: NodePlacement, title: string): void {
    for (const capacityType of pool.capacityTypes) {
      new NodeGroup(
        `${name}-${capacityType}`,
        {
          title: `${title}-${capacityType}`,
          clusterName: place.clusterName,
          nodeRoleArn: place.nodeRole.arn,
          version: place.version,
          subnetIds: getSubnets(pool, place),
          amiType: pool.ami === 'AL2023' ? 'AL2023_x86_64_NVIDIA' : 'BOTTLEROCKET_x86_64_NVIDIA',
          instanceTypes: pool.instanceTypes,
          capacityType: capacityType === 'spot' ? 'SPOT' : 'ON_DEMAND',
          minimumNodes: pool.minimumNodes,
          maximumNodes: pool.maximumNodes,
          diskGiB: Math.max(...pool.instanceTypes.map((type) => getVolumeGiB(pool, type))),
          diskSpeed: typesOnEbs(pool).length > 0 ? IMAGE_DISK : undefined,
          tags: poolTags(pool, place),
          labels: poolLabels(pool),
          taints: poolTaints(pool).map((taint) => ({ ...taint, effect: NODE_GROUP_EFFECTS[taint.effect] })),
          userData: nodeUserData(pool),
        },
        { parent: this },
      );
    }
  }
}

function getPlace(name: string, place: NodePlacement | undefined): NodePlacement {
  if (place === undefined) throw new Error(`${name}: place is missing; only the mechanism karpenter needs no place`);
  return place;
}

/** Empty if the stack sets no tags, because the cluster's role then lacks the permission to tag nodes. */
const poolTags = (pool: GpuNodePoolSettings, { tags = {} }: NodePlacement): Record<string, string> =>
  Object.keys(tags).length === 0 ? {} : { ...tags, [POOL_TAG]: pool.name };

function getSubnets(pool: GpuNodePoolSettings, { subnetIds, zones }: NodePlacement): pulumi.Input<string>[] {
  if (pool.zones.length === 0 || zones.length === 0) return subnetIds;
  return subnetIds.filter((_, index) => pool.zones.includes(zones[index] ?? ''));
}
