import * as ec2 from '@pulumi/aws/ec2';
import * as eks from '@pulumi/aws/eks';
import * as pulumi from '@pulumi/pulumi';
import type { EksVersion } from './eks-versions';

/** The machine images for nodes, and where they keep images and the scratch space of pods. */
const AMI_TYPES = {
  AL2023_x86_64_STANDARD: { dataDevice: '/dev/xvda', systemDevice: undefined },
  AL2023_x86_64_NVIDIA: { dataDevice: '/dev/xvda', systemDevice: undefined },
  // Its system is on a volume of its own.
  BOTTLEROCKET_x86_64_NVIDIA: { dataDevice: '/dev/xvdb', systemDevice: '/dev/xvda' },
} as const satisfies Record<string, { dataDevice: string; systemDevice: string | undefined }>;

export interface NodeGroupArgs {
  clusterName: pulumi.Input<string>;
  nodeRoleArn: pulumi.Input<string>;
  version: EksVersion;
  subnetIds: pulumi.Input<string>[];
  amiType: keyof typeof AMI_TYPES;
  instanceTypes: string[];
  capacityType: 'SPOT' | 'ON_DEMAND';
  minimumNodes: number;
  maximumNodes: number;
  /** Volume for images and the scratch space of pods. */
  diskGiB: number;
  /** Tags of the machines and their disks, besides their name. Default: none. */
  tags?: Readonly<Record<string, string>>;
  labels: Record<string, string>;
  taints: { key: string; value?: string; effect: 'NO_SCHEDULE' | 'PREFER_NO_SCHEDULE' | 'NO_EXECUTE' }[];
  /** Text that the machine's system reads at its start. Default: none. */
  userData?: string;
}

const SYSTEM_VOLUME_GIB = 4;

/** A managed node group, and the launch template of its machines. */
export class NodeGroup extends pulumi.ComponentResource {
  readonly group: eks.NodeGroup;

  constructor(name: string, args: NodeGroupArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:NodeGroup', name, {}, options);
    const template = this.launchTemplate(name, args);
    const isFixed = args.minimumNodes === args.maximumNodes;
    this.group = new eks.NodeGroup(
      name,
      {
        // No name of our own: a group that has to be replaced can then be made before the old one goes.
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
        labels: args.labels,
        taints: args.taints,
      },
      // An autoscaler moves the desired size of a group that may grow. Without one AWS refuses a minimum above it.
      { parent: this, ...(isFixed ? {} : { ignoreChanges: ['scalingConfig.desiredSize'] }) },
    );
    this.registerOutputs({ group: this.group });
  }

  private launchTemplate(name: string, args: NodeGroupArgs): ec2.LaunchTemplate {
    const { dataDevice, systemDevice } = AMI_TYPES[args.amiType];
    const volume = (deviceName: string, volumeSize: number) => ({
      deviceName,
      ebs: { volumeSize, volumeType: 'gp3', encrypted: 'true', deleteOnTermination: 'true' },
    });
    return new ec2.LaunchTemplate(
      name,
      {
        updateDefaultVersion: true,
        blockDeviceMappings: [
          ...(systemDevice === undefined ? [] : [volume(systemDevice, SYSTEM_VOLUME_GIB)]),
          volume(dataDevice, args.diskGiB),
        ],
        // IMDSv2 only, and one hop: pods do not reach the node's own credentials.
        metadataOptions: { httpEndpoint: 'enabled', httpTokens: 'required', httpPutResponseHopLimit: 1 },
        monitoring: { enabled: true },
        tagSpecifications: ['instance', 'volume'].map((resourceType) => ({
          resourceType,
          tags: { ...args.tags, Name: name },
        })),
        ...(args.userData === undefined ? {} : { userData: Buffer.from(args.userData).toString('base64') }),
      },
      { parent: this },
    );
  }
}
