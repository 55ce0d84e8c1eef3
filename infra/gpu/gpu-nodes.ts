import { ConfigMapPatch } from '@pulumi/kubernetes/core/v1/configMapPatch';
import * as pulumi from '@pulumi/pulumi';
import type { Cluster } from '../cluster/cluster';
import { toRunError } from '../run-error';
import { completePool } from '../settings/gpu-node-pools';
import type { GpuNodePoolInput, GpuNodePoolSettings } from '../settings/types';
import { createNodePool, type DrainOptions } from './karpenter';
import { createNodeGroups, type FixedPool } from './node-groups';

export interface GpuNodesArgs extends DrainOptions {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  /**
   * Names and instance types; all other fields have defaults (settings/pool-fields.ts). Karpenter fills the pools in this
   * order.
   */
  pools: GpuNodePoolInput[];
  /** The cluster, if this program creates it. Default: none, which allows only pools with a nodeClass. */
  cluster?: Cluster;
}

/**
 * The GPU node pools of a cluster. A pool with `nodes` is a managed node group, a pool with `nodeClass` belongs to the
 * Karpenter of an existing cluster, and all others to EKS Auto Mode.
 */
export class GpuNodes extends pulumi.ComponentResource {
  /** Must exist before pods that need a GPU, and must be deleted after them. */
  readonly pools: pulumi.Resource[];

  constructor(name: string, args: GpuNodesArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:GpuNodes', name, {}, options);
    const { cluster, title = name } = args;
    const pools = toRunError(() => args.pools.map(completePool));
    const nodePools = pools
      .map((pool, index) => ({ pool, weight: pools.length - 1 - index }))
      .filter(({ pool }) => cluster === undefined || !isFixed(pool))
      .map(({ pool, weight }) =>
        createNodePool(`${name}-${pool.name}`, pool, cluster, { ...args, weight }, { parent: this }),
      );
    const groups = cluster && createNodeGroups(name, title, pools.filter(isFixed), cluster, this);
    this.pools = [...nodePools, ...(groups?.ready ?? [])];
    if (cluster !== undefined) this.enforceNetworkPolicies(name, [...cluster.ready, ...(groups?.network ?? [])]);
    this.registerOutputs();
  }

  /**
   * Auto Mode accepts network policies, but enforces them only with this setting. The add-on vpc-cni, which nodes of
   * managed groups need, has its settings in the same ConfigMap. A patch sets one field, whether the ConfigMap exists or
   * not. The field stays, so that a cluster that is replaced enforces the policies to its end.
   */
  private enforceNetworkPolicies(name: string, dependsOn: pulumi.Resource[]): void {
    new ConfigMapPatch(
      `${name}-network-policies`,
      {
        metadata: { name: 'amazon-vpc-cni', namespace: 'kube-system' },
        data: { 'enable-network-policy-controller': 'true' },
      },
      { parent: this, dependsOn, retainOnDelete: true },
    );
  }
}

const isFixed = (pool: GpuNodePoolSettings): pool is FixedPool => pool.nodes !== undefined;
