import { ConfigMapPatch } from '@pulumi/kubernetes/core/v1/configMapPatch';
import * as pulumi from '@pulumi/pulumi';
import type { Cluster } from '../cluster/cluster';
import { createAccessEntry } from '../cluster/cluster-access';
import { toRunError } from '../run-error';
import { devicePlugin } from './device-plugin';
import { GpuNodePool, type NodePlacement } from './gpu-node-pool';
import { serviceTrust } from '../iam/policy-document';
import { AUTO_MODE_NODE_POLICIES, NODE_GROUP_POLICIES, roleWithPolicies, type RoleWithPolicies } from '../iam/role';
import { completePool, isAutoMode } from '../settings/gpu-node-pools';
import type { GpuNodePoolInput, GpuNodePoolSettings } from '../settings/types';

export interface GpuNodesArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  /**
   * Names and instance types; all other fields have defaults (settings/pool-fields.ts). Karpenter fills the pools in this
   * order.
   */
  pools: GpuNodePoolInput[];
  /** Time in which all replicas can be replaced one after the other, in seconds. Default: four hours. */
  drainSeconds?: number;
  region: string;
  /** The cluster, if this program creates it. Default: none, which allows only pools with a nodeClass. */
  cluster?: Cluster;
  /** Private subnets of that cluster, one for each zone. Default: none. */
  subnetIds?: pulumi.Input<string>[];
  /** The zones of `subnetIds`, in the same order. Default: unknown. */
  zones?: string[];
  /** Tags of the nodes and their disks. With Auto Mode the cluster needs the same tags (`nodeTags`). Default: none. */
  tags?: Readonly<Record<string, string>>;
}

/** Arguments with the defaults of the pools filled in. */
type Completed = Omit<GpuNodesArgs, 'pools'> & { pools: GpuNodePoolSettings[] };

/** All GPU node pools of a cluster, with their shared node roles and the device plugin. */
export class GpuNodes extends pulumi.ComponentResource {
  /** Must exist before pods that need a GPU, and must be deleted after them. */
  readonly pools: GpuNodePool[];

  constructor(name: string, given: GpuNodesArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:GpuNodes', name, {}, options);
    const args = { ...given, pools: toRunError(() => given.pools.map(completePool)) };
    const autoMode = this.autoMode(name, args);
    const groups = this.nodeGroupRole(name, args);
    this.pools = args.pools.map((pool, index) => {
      const shared = isAutoMode(pool) ? autoMode : groups;
      return new GpuNodePool(
        `${name}-${pool.name}`,
        {
          title: `${args.title ?? name}-${pool.name}`,
          pool,
          place: shared === undefined ? undefined : this.place(args, shared),
          drainSeconds: args.drainSeconds,
          weight: args.pools.length - 1 - index,
        },
        { parent: this, dependsOn: [...(shared?.dependsOn ?? []), ...(args.cluster?.ready ?? [])] },
      );
    });
    const managed = getManaged(args);
    if (managed.length > 0) {
      const waits = { parent: this, dependsOn: args.cluster?.ready ?? [] };
      devicePlugin(`${name}-device-plugin`, managed, waits);
    }
    if (args.cluster?.autoMode === true) this.enforceNetworkPolicies(name, args.cluster);
    this.registerOutputs();
  }

  /**
   * Auto Mode accepts network policies, but enforces them only with this setting. The add-on vpc-cni, which nodes of
   * managed groups need, has its settings in the same ConfigMap. A patch sets one field, whether the ConfigMap exists or
   * not; the field stays when Auto Mode is switched off, because the add-on needs it from then on.
   */
  private enforceNetworkPolicies(name: string, cluster: Cluster): void {
    new ConfigMapPatch(
      `${name}-network-policies`,
      {
        metadata: { name: 'amazon-vpc-cni', namespace: 'kube-system' },
        data: { 'enable-network-policy-controller': 'true' },
      },
      {
        parent: this,
        dependsOn: cluster.ready,
        retainOnDelete: true,
      },
    );
  }

  private place(args: GpuNodesArgs, { role }: RoleWithPolicies): NodePlacement {
    const { cluster, subnetIds = [], zones = [], tags = {} } = args;
    if (cluster === undefined)
      throw new pulumi.RunError('cluster is missing; only pools with a nodeClass need no cluster');
    const { clusterName, version, securityGroupId } = cluster;
    const nodeRole = { name: role.name, arn: role.arn };
    return { clusterName, version, securityGroupId, subnetIds, zones, tags, nodeRole };
  }

  /** The role of Auto Mode's GPU nodes. The cluster needs an access entry for it. */
  private autoMode(name: string, { pools, region, cluster, title = name }: Completed) {
    if (cluster === undefined || !pools.some(isAutoMode)) return undefined;
    const label = `${name}-auto-mode`;
    const nodes = roleWithPolicies(
      label,
      region,
      {
        description: `GPU nodes of ${title}`,
        trust: serviceTrust('ec2.amazonaws.com'),
        policies: AUTO_MODE_NODE_POLICIES,
      },
      this,
    );
    const { clusterName } = cluster;
    const policy = 'AmazonEKSAutoNodePolicy';
    const admission = createAccessEntry(
      label,
      { clusterName, principalArn: nodes.role.arn, region, policy, type: 'EC2' },
      this,
    );
    return { ...nodes, dependsOn: [...nodes.attachments, admission] };
  }

  /** The role of managed node groups. EKS creates its access entry. */
  private nodeGroupRole(name: string, args: Completed) {
    const { region, title = name } = args;
    if (getManaged(args).length === 0) return undefined;
    const nodes: RoleWithPolicies = roleWithPolicies(
      `${name}-groups`,
      region,
      {
        description: `GPU nodes of ${title}`,
        trust: serviceTrust('ec2.amazonaws.com'),
        policies: NODE_GROUP_POLICIES,
      },
      this,
    );
    return { ...nodes, dependsOn: nodes.attachments };
  }
}

/** Names of the pools with managed node groups. */
const getManaged = ({ pools }: Completed): string[] =>
  pools.filter(({ nodes }) => nodes !== undefined).map(({ name }) => name);
