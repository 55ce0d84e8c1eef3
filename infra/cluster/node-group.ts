import * as ec2 from '@pulumi/aws/ec2';
import * as eks from '@pulumi/aws/eks';
import * as pulumi from '@pulumi/pulumi';

export interface NodeGroupArgs {
  /** Name of the instances and disks in their tags. Default: the name of the component. */
  title?: string;
  clusterName: pulumi.Input<string>;
  nodeRoleArn: pulumi.Input<string>;
  version: string;
  subnetIds: pulumi.Input<string>[];
  amiType: 'AL2023_x86_64_STANDARD' | 'AL2023_x86_64_NVIDIA';
  instanceTypes: string[];
  capacityType: 'SPOT' | 'ON_DEMAND';
  /** Number of nodes, which run all the time. */
  nodes: number;
  /** The EBS volume. Default of throughput and iops: those that cost nothing, 125 MiB/s and 3000. */
  disk: { volumeSize: number; throughput?: number; iops?: number };
  /** Tags of the instances and their disks, in addition to their name. Default: none. */
  tags?: Readonly<Record<string, string>>;
  labels?: Record<string, string>;
  taints?: { key: string; value?: string; effect: string }[];
  /** User data that the instance reads at its start. Default: none. */
  userData?: string | undefined;
}

/**
 * Time limit of an update that replaces the nodes of a group. For each node it adds 10 minutes for the start of the new
 * node and 15 for the eviction of the pods, after which EKS fails the update. The default of the provider is an hour.
 */
const rollTimeout = (nodes: number): string => `${60 + 25 * nodes}m`;

/** A managed node group of AL2023, and the launch template of its instances. */
export class NodeGroup extends pulumi.ComponentResource {
  readonly group: eks.NodeGroup;

  constructor(name: string, args: NodeGroupArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:NodeGroup', name, {}, options);
    const { title = name, nodes, disk, tags, userData, ...group } = args;
    const template = new ec2.LaunchTemplate(
      name,
      {
        updateDefaultVersion: true,
        blockDeviceMappings: [
          {
            deviceName: '/dev/xvda',
            ebs: { ...disk, volumeType: 'gp3', encrypted: 'true', deleteOnTermination: 'true' },
          },
        ],
        // IMDSv2 only and a hop limit of one, so that pods cannot reach the credentials of the node.
        metadataOptions: { httpEndpoint: 'enabled', httpTokens: 'required', httpPutResponseHopLimit: 1 },
        monitoring: { enabled: true },
        tagSpecifications: ['instance', 'volume'].map((resourceType) => ({
          resourceType,
          tags: { ...tags, Name: title },
        })),
        userData: userData === undefined ? undefined : Buffer.from(userData).toString('base64'),
      },
      { parent: this },
    );
    this.group = new eks.NodeGroup(
      name,
      {
        // Without a fixed name, a group that must be replaced can be created before the old one is deleted.
        ...group,
        launchTemplate: { id: template.id, version: template.latestVersion.apply(String) },
        scalingConfig: { minSize: nodes, maxSize: nodes, desiredSize: nodes },
        updateConfig: { maxUnavailable: 1 },
        // EKS replaces nodes that stay not Ready.
        nodeRepairConfig: { enabled: true },
      },
      { parent: this, customTimeouts: { update: rollTimeout(nodes) } },
    );
    this.registerOutputs({ group: this.group });
  }
}
