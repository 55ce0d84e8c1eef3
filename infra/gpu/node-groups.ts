import * as ec2 from '@pulumi/aws/ec2';
import * as eks from '@pulumi/aws/eks';
import { DaemonSet } from '@pulumi/kubernetes/apps/v1/daemonSet';
import type * as pulumi from '@pulumi/pulumi';
import type { Cluster } from '../cluster/cluster';
import { serviceTrust } from '../iam/policy-document';
import { NODE_GROUP_POLICIES, roleWithPolicies } from '../iam/role';
import type { GpuNodePoolSettings } from '../settings/types';
import { GPU_POOL_LABEL, type TaintEffect } from './gpu-labels';
import { getSubnets, getTags, getVolume, IMAGE_DISK, poolLabels, poolTaints } from './pool';

/** A pool whose nodes run all the time. */
export type FixedPool = GpuNodePoolSettings & { nodes: number };

/** Taint effects in EKS's spelling. */
const EFFECTS: Record<TaintEffect, string> = {
  NoSchedule: 'NO_SCHEDULE',
  PreferNoSchedule: 'PREFER_NO_SCHEDULE',
  NoExecute: 'NO_EXECUTE',
};

/**
 * User data of nodes whose images are on the instance store, which EKS merges with its own: all NVMe disks become one file
 * system for containerd, the kubelet and logs of pods, and SOCI pulls and unpacks the layers of an image in parallel. On
 * EBS it does not, because the small types have less than the 600 MiB/s that it needs:
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

const DEVICE_PLUGIN = 'nvcr.io/nvidia/k8s-device-plugin:v0.20.1';
const SOCKETS = '/var/lib/kubelet/device-plugins';

/**
 * Creates managed node groups in a cluster with Auto Mode, and what Auto Mode provides for its own nodes only: the add-ons
 * for network and DNS, and the device plugin.
 * @returns `network` must exist before nodes become ready, `ready` before pods
 */
export function createNodeGroups(
  name: string,
  title: string,
  pools: readonly FixedPool[],
  cluster: Cluster,
  parent: pulumi.Resource,
): { network: pulumi.Resource[]; ready: pulumi.Resource[] } {
  if (pools.length === 0) return { network: [], ready: [] };
  const { clusterName, place } = cluster;
  const inCluster = { parent, dependsOn: cluster.ready };
  const addon = (addonName: string, configurationValues?: string): eks.Addon => {
    const conflicts = { resolveConflictsOnCreate: 'OVERWRITE', resolveConflictsOnUpdate: 'PRESERVE' };
    const args = { clusterName, addonName, ...conflicts, configurationValues };
    return new eks.Addon(`${name}-${addonName}`, args, inCluster);
  };
  // Network policies protect Triton's model control API.
  const network = [addon('vpc-cni', JSON.stringify({ enableNetworkPolicy: 'true' })), addon('kube-proxy')];
  const { role, attachments } = roleWithPolicies(
    `${name}-groups`,
    place.region,
    {
      description: `GPU nodes of ${title}`,
      trust: serviceTrust('ec2.amazonaws.com'),
      policies: NODE_GROUP_POLICIES,
    },
    parent,
  );
  // A node becomes ready only with a network.
  const options = { parent, dependsOn: [...cluster.ready, ...attachments, ...network] };
  const groups = pools.map((pool) =>
    createGroup(`${name}-${pool.name}`, `${title}-${pool.name}`, pool, cluster, role.arn, options),
  );
  // The pods of CoreDNS run on CPU nodes of Auto Mode, which do not use them: each has a DNS server of its own.
  return {
    network,
    ready: [...groups, addon('coredns'), createDevicePlugin(`${name}-device-plugin`, pools, inCluster)],
  };
}

/** Creates a group of AL2023, and the launch template of its instances. */
function createGroup(
  name: string,
  title: string,
  pool: FixedPool,
  cluster: Cluster,
  nodeRoleArn: pulumi.Input<string>,
  options: pulumi.CustomResourceOptions,
): eks.NodeGroup {
  const { GiB, hasImages } = getVolume(pool, '');
  const template = new ec2.LaunchTemplate(
    name,
    {
      updateDefaultVersion: true,
      blockDeviceMappings: [
        {
          deviceName: '/dev/xvda',
          ebs: {
            volumeSize: GiB,
            ...(hasImages && IMAGE_DISK),
            volumeType: 'gp3',
            encrypted: 'true',
            deleteOnTermination: 'true',
          },
        },
      ],
      // IMDSv2 only and a hop limit of one, so that pods cannot reach the credentials of the node.
      metadataOptions: { httpEndpoint: 'enabled', httpTokens: 'required', httpPutResponseHopLimit: 1 },
      monitoring: { enabled: true },
      tagSpecifications: ['instance', 'volume'].map((resourceType) => ({
        resourceType,
        tags: { ...getTags(pool, cluster), Name: title },
      })),
      userData: hasImages ? undefined : Buffer.from(INSTANCE_STORE).toString('base64'),
    },
    { parent: options.parent },
  );
  const { nodes } = pool;
  return new eks.NodeGroup(
    name,
    {
      // Without a fixed name, a group that must be replaced can be created before the old one is deleted.
      clusterName: cluster.clusterName,
      nodeRoleArn,
      version: cluster.place.kubernetesVersion,
      subnetIds: getSubnets(pool, cluster),
      amiType: 'AL2023_x86_64_NVIDIA',
      instanceTypes: pool.instanceTypes,
      capacityType: pool.capacityTypes.includes('spot') ? 'SPOT' : 'ON_DEMAND',
      labels: poolLabels(pool),
      taints: poolTaints(pool).map((taint) => ({ ...taint, effect: EFFECTS[taint.effect] })),
      launchTemplate: { id: template.id, version: template.latestVersion.apply(String) },
      scalingConfig: { minSize: nodes, maxSize: nodes, desiredSize: nodes },
      updateConfig: { maxUnavailable: 1 },
      // EKS replaces nodes that stay not Ready.
      nodeRepairConfig: { enabled: true },
    },
    {
      ...options,
      // An update replaces the nodes. Each has 10 minutes to start and 15 for the eviction of the pods, after which EKS
      // fails the update. The default of the provider is an hour for all.
      customTimeouts: { update: `${60 + 25 * nodes}m` },
    },
  );
}

/**
 * NVIDIA's device plugin, without which the nodes offer no nvidia.com/gpu: AL2023 includes the driver, but not the plugin.
 * It uses a folder of the node, which the namespace kube-system admits.
 */
function createDevicePlugin(
  name: string,
  pools: readonly FixedPool[],
  options: pulumi.CustomResourceOptions,
): DaemonSet {
  const labels = { 'app.kubernetes.io/name': 'nvidia-device-plugin', 'app.kubernetes.io/part-of': 'triton-serving' };
  const inPools = { key: GPU_POOL_LABEL, operator: 'In', values: pools.map((pool) => pool.name) };
  return new DaemonSet(
    name,
    {
      metadata: { namespace: 'kube-system', labels },
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            priorityClassName: 'system-node-critical',
            automountServiceAccountToken: false,
            tolerations: [{ operator: 'Exists' }],
            affinity: {
              nodeAffinity: {
                requiredDuringSchedulingIgnoredDuringExecution: {
                  nodeSelectorTerms: [{ matchExpressions: [inPools] }],
                },
              },
            },
            containers: [
              {
                name: 'device-plugin',
                image: DEVICE_PLUGIN,
                resources: { requests: { cpu: '50m', memory: '64Mi' }, limits: { memory: '128Mi' } },
                securityContext: {
                  allowPrivilegeEscalation: false,
                  readOnlyRootFilesystem: true,
                  capabilities: { drop: ['ALL'] },
                },
                volumeMounts: [{ name: 'sockets', mountPath: SOCKETS }],
              },
            ],
            volumes: [{ name: 'sockets', hostPath: { path: SOCKETS, type: 'Directory' } }],
          },
        },
      },
    },
    options,
  );
}
