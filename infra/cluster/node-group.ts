import * as ec2 from '@pulumi/aws/ec2';
import * as eks from '@pulumi/aws/eks';
import * as pulumi from '@pulumi/pulumi';

/** Machine images of nodes. The data device holds container images and the scratch space of pods. */
const AMI_TYPES = {
  AL2023_x86_64_STANDARD: { dataDevice: '/dev/xvda', systemDevice: undefined },
  AL2023_x86_64_NVIDIA: { dataDevice: '/dev/xvda', systemDevice: undefined },
  // Bottlerocket has its operating system on a separate volume.
  BOTTLEROCKET_x86_64_NVIDIA: { dataDevice: '/dev/xvdb', systemDevice: '/dev/xvda' },
} as const satisfies Record<string, { dataDevice: string; systemDevice: string | undefined }>;

export interface NodeGroupArgs {
  /** Name of the instances and disks in their tags. Default: the name of the component. */
  title?: string;
  clusterName: pulumi.Input<string>;
  nodeRoleArn: pulumi.Input<string>;
  version: string;
  subnetIds: pulumi.Input<string>[];
  amiType: keyof typeof AMI_TYPES;
  instanceTypes: string[];
  capacityType: 'SPOT' | 'ON_DEMAND';
  minimumNodes: number;
  maximumNodes: number;
  /** Size of the volume for container images and the scratch space of pods. */
  diskGiB: number;
  /** MiB/s and operations per second of that volume. Default: those that cost nothing, 125 and 3000. */
  diskSpeed?: { throughput: number; iops: number };
  /** Tags of the instances and their disks, in addition to their name. Default: none. */
  tags?: Readonly<Record<string, string>>;
  labels: Record<string, string>;
  taints: { key: string; value?: string; effect: 'NO_SCHEDULE' | 'PREFER_NO_SCHEDULE' | 'NO_EXECUTE' }[];
  /** User data that the instance reads at its start. Default: none. */
  userData?: string;
}

const SYSTEM_VOLUME_GIB = 4;

/**
 * Time limit of an update that replaces the nodes of a group. For each node it adds 10 minutes for the start of the new
 * node and 15 for the eviction of the pods, after which EKS fails the update. The default of the provider is an hour.
 */
const rollTimeout = (nodes: number): string => `${60 + 25 * nodes}m`;

/** A managed node group, and the launch template of its instances. */
export class NodeGroup extends pulumi.ComponentResource {
  readonly group: eks.NodeGroup;

  constructor(name: string, args: NodeGroupArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:NodeGroup', name, {}, options);
    const template = this.launchTemplate(name, args);
    const isFixed = args.minimumNodes === args.maximumNodes;
    this.group = new eks.NodeGroup(
      name,
      {
        // Without a fixed name, a group that must be replaced can be created before the old one is deleted.
        clusterName: args.clusterName,
        nodeRoleArn: args.nodeRoleArn,
        version: args.version,
        subnetIds: args.subnetIds,
        amiType: args.amiType,
        capacityType: args.capacityType,
        instanceTypes: args.instanceTypes,
        launchTemplate: { id: template.id, version: template.latestVersion.apply(String) },
        scalingConfig: {
          minSize: args.minimumNodes,
          maxSize: args.maximumNodes,
          desiredSize: args.minimumNodes,
        },
        updateConfig: { maxUnavailable: 1 },
        // EKS replaces nodes that stay not Ready.
        nodeRepairConfig: { enabled: true },
        labels: args.labels,
        taints: args.taints,
      },
      {
        parent: this,
        // In a group that may grow an autoscaler changes the desired size, so Pulumi ignores it. In a fixed group Pulumi
        // must set it, because AWS rejects a minimum above the desired size.
        ignoreChanges: isFixed ? undefined : ['scalingConfig.desiredSize'],
        customTimeouts: { update: rollTimeout(args.maximumNodes) },
      },
    );
    this.registerOutputs({ group: this.group });
  }

  private launchTemplate(name: string, args: NodeGroupArgs): ec2.LaunchTemplate {
    const { dataDevice, systemDevice } = AMI_TYPES[args.amiType];
    const volume = (deviceName: string, volumeSize: number, speed?: NodeGroupArgs['diskSpeed']) => ({
      deviceName,
      ebs: { volumeSize, volumeType: 'gp3', ...speed, encrypted: 'true', deleteOnTermination: 'true' },
    });
    return new ec2.LaunchTemplate(
      name,
      {
        updateDefaultVersion: true,
        blockDeviceMappings: [
          ...(systemDevice === undefined ? [] : [volume(systemDevice, SYSTEM_VOLUME_GIB)]),
          volume(dataDevice, args.diskGiB, args.diskSpeed),
        ],
        // IMDSv2 only and a hop limit of one, so that pods cannot reach the credentials of the node.
        metadataOptions: { httpEndpoint: 'enabled', httpTokens: 'required', httpPutResponseHopLimit: 1 },
        monitoring: { enabled: true },
        tagSpecifications: ['instance', 'volume'].map((resourceType) => ({
          resourceType,
          tags: { ...args.tags, Name: args.title ?? name },
        })),
        userData: args.userData === undefined ? undefined : Buffer.from(args.userData).toString('base64'),
      },
      { parent: this },
    );
  }
}
