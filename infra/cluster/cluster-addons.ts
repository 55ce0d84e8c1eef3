import * as eks from '@pulumi/aws/eks';
import * as pulumi from '@pulumi/pulumi';
import { NodeGroup } from './node-group';
import { serviceTrust } from '../iam/policy-document';
import { NODE_GROUP_POLICIES, roleWithPolicies } from '../iam/role';

export interface ClusterAddonsArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  clusterName: pulumi.Input<string>;
  region: string;
  version: string;
  subnetIds: pulumi.Input<string>[];
  /** Tags of the nodes and their disks. Default: none. */
  nodeTags?: Readonly<Record<string, string>>;
  /** Nodes for system pods. Default: none, because Auto Mode provides them. */
  systemNodes?: { instanceTypes: string[]; count: number };
}

/** GiB of disk of a system node, for its images. */
const SYSTEM_DISK_GIB = 40;

/** EKS add-ons that nodes of managed groups need. Auto Mode provides them for its own nodes only. */
export class ClusterAddons extends pulumi.ComponentResource {
  readonly ready: pulumi.Resource[];

  constructor(name: string, args: ClusterAddonsArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:ClusterAddons', name, {}, options);
    // A node becomes ready only with a network, so these two add-ons are created before the nodes.
    const before = [this.addon(name, 'vpc-cni', args, []), this.addon(name, 'kube-proxy', args, [])];
    const nodes = args.systemNodes === undefined ? [] : this.systemNodes(name, args, args.systemNodes, before);
    this.ready = [...before, ...nodes, this.addon(name, 'coredns', args, nodes)];
    this.registerOutputs();
  }

  private addon(name: string, addonName: string, args: ClusterAddonsArgs, dependsOn: pulumi.Resource[]): eks.Addon {
    // Network policies protect Triton's model control API.
    const configurationValues = addonName === 'vpc-cni' ? JSON.stringify({ enableNetworkPolicy: 'true' }) : undefined;
    return new eks.Addon(
      `${name}-${addonName}`,
      {
        clusterName: args.clusterName,
        addonName,
        resolveConflictsOnCreate: 'OVERWRITE',
        resolveConflictsOnUpdate: 'PRESERVE',
        configurationValues,
      },
      { parent: this, dependsOn },
    );
  }

  private systemNodes(
    name: string,
    args: ClusterAddonsArgs,
    { instanceTypes, count }: { instanceTypes: string[]; count: number },
    dependsOn: pulumi.Resource[],
  ): pulumi.Resource[] {
    const { role, attachments } = roleWithPolicies(
      `${name}-system-nodes`,
      args.region,
      {
        description: `System nodes of ${args.title ?? name}`,
        trust: serviceTrust('ec2.amazonaws.com'),
        policies: NODE_GROUP_POLICIES,
      },
      this,
    );
    const group = new NodeGroup(
      `${name}-system`,
      {
        title: `${args.title ?? name}-system`,
        clusterName: args.clusterName,
        nodeRoleArn: role.arn,
        version: args.version,
        subnetIds: args.subnetIds,
        amiType: 'AL2023_x86_64_STANDARD',
        instanceTypes,
        capacityType: 'ON_DEMAND',
        nodes: count,
        disk: { volumeSize: SYSTEM_DISK_GIB },
        tags: args.nodeTags,
      },
      { parent: this, dependsOn: [...dependsOn, ...attachments] },
    );
    return [group.group];
  }
}
