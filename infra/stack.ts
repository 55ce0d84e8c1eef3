import { getCallerIdentityOutput } from '@pulumi/aws/getCallerIdentity';
import { Namespace } from '@pulumi/kubernetes/core/v1/namespace';
import * as pulumi from '@pulumi/pulumi';
import { formatLocation } from '../src/release/location';
import type { STACK_OUTPUTS } from '../src/cluster/stack-outputs';
import { Cluster } from './cluster/cluster';
import { defined } from './defined';
import { cloudWatchLogsStatement, EncryptionKey } from './storage/encryption-key';
import { getKnownTypes } from './gpu/gpu-instance-types';
import { GPU_LABEL } from './gpu/gpu-labels';
import { GpuNodes } from './gpu/gpu-nodes';
import { existingAccess, kubernetesProvider, type ClusterAccess } from './cluster/kubernetes-provider';
import { ModelRepository } from './storage/model-repository';
import { Network } from './network/network';
import { getPartition } from './iam/policy-document';
import { PublisherRole } from './iam/publisher-role';
import type { RepositoryRef } from './iam/repository-policies';
import { readSettings, type ClusterSettings, type Settings } from './settings';
import { COMPONENT_NAME } from './settings/triton';
import { TritonAccess } from './iam/triton-access';
import { TritonServer, type RepositoryCredentials } from './triton/server';
import { completeOptions } from './triton/settings';
import { drainSeconds } from './triton/timeouts';
import { isExampleSubject } from './trust-subject';

/** Outputs that publishing reads (src/cluster/stack-outputs.ts), and outputs for people. */
export type ProgramOutputs = { [K in keyof typeof STACK_OUTPUTS]?: pulumi.Input<string> } & {
  clusterName?: pulumi.Input<string>;
  serviceUrl: pulumi.Output<string>;
  externalUrl?: pulumi.Output<string | undefined>;
  publisherRoleArn?: pulumi.Output<string>;
  prunerRoleArn?: pulumi.Output<string>;
};

/** Creates all resources of a stack from its settings. */
export function program(settings: Settings = readSettings()): ProgramOutputs {
  const cluster = getCluster(settings);
  const repository = getRepository(settings);
  const kubernetes = kubernetesProvider(cluster.access);
  const options = completeOptions(COMPONENT_NAME, settings.triton);
  const nodes = new GpuNodes(
    'gpu',
    {
      title: getTitle(settings, 'gpu'),
      pools: settings.gpuNodePools,
      drainSeconds: drainSeconds(options),
      region: settings.region,
      tags: settings.tags,
      ...cluster.nodes,
    },
    { providers: { kubernetes }, dependsOn: cluster.ready },
  );
  const credentials = getCredentials(settings, cluster, repository);
  const triton = new TritonServer(
    COMPONENT_NAME,
    {
      ...settings.triton,
      ...onGpuNodes(settings),
      // The role of an existing cluster may not be allowed to set tags, and AWS then creates no load balancer.
      loadBalancerTags: settings.cluster.kind === 'create' ? settings.tags : {},
      modelRepository: repository.url,
      region: settings.modelRepository.region,
      credentials: credentials.value,
      endpointUrl: repository.endpointUrl,
    },
    {
      providers: { kubernetes },
      dependsOn: [...cluster.ready, ...nodes.pools, ...credentials.ready, ...repository.ready],
    },
  );
  // Reading the namespace releases it from a stack that created it. Without this Pulumi would delete the namespace with
  // all its objects.
  const { namespace } = settings.triton;
  if (!namespace.create) Namespace.get(COMPONENT_NAME, namespace.name, { parent: triton });
  const publisher = getPublisher(settings, cluster, repository);
  // Without undefined outputs, because Pulumi warns about each of them.
  return defined({
    modelRepository: repository.url,
    region: settings.modelRepository.region,
    endpointUrl: repository.endpointUrl,
    kubeconfig: cluster.access.kubeconfigText,
    namespace: triton.namespace,
    podSelector: triton.podSelector,
    clusterName: cluster.nodes?.cluster.clusterName,
    serviceUrl: triton.serviceUrl,
    externalUrl: settings.triton.exposure.kind === 'cluster' ? undefined : triton.externalUrl,
    publisherRoleArn: publisher?.roleArn,
    prunerRoleArn: publisher?.prunerRoleArn,
  });
}

/**
 * A name for tags and descriptions. Only names in AWS contain the name of the stack, because stacks share an account:
 * "pulumi stack rename" then replaces nothing.
 */
const getTitle = ({ stack }: Settings, name: string): string => `triton-${stack}-${name}`;

interface PlacedCluster {
  access: ClusterAccess;
  /** If undefined, pods cannot assume IAM roles. */
  oidcProviderArn: pulumi.Input<string> | undefined;
  /** Only for a cluster that this program creates. */
  nodes?: { cluster: Cluster; subnetIds: pulumi.Input<string>[]; zones: string[] };
  ready: pulumi.Resource[];
}

function getCluster(settings: Settings): PlacedCluster {
  if (settings.cluster.kind === 'existing') {
    const { kubeconfig, context, identifier, oidcProviderArn } = settings.cluster;
    return { access: existingAccess(kubeconfig, context, identifier), oidcProviderArn, ready: [] };
  }
  return newCluster(settings, settings.cluster);
}

function newCluster(all: Settings, settings: ClusterSettings & { kind: 'create' }): PlacedCluster {
  const { stack, protect, gpuNodePools, region, tags } = all;
  const accountId = getCallerIdentityOutput().accountId;
  const logKey = new EncryptionKey('logs', {
    description: `Logs of triton-${stack}`,
    accountId,
    region,
    statements: [cloudWatchLogsStatement(region, accountId)],
    protect,
  });
  const secretsKey = new EncryptionKey('secrets', {
    description: `Kubernetes secrets of triton-${stack}`,
    accountId,
    region,
    protect,
  });
  const network =
    settings.network.kind === 'existing'
      ? { privateSubnetIds: settings.network.privateSubnetIds, routes: [], zones: [] }
      : new Network('network', {
          title: getTitle(all, 'network'),
          ...settings.network,
          region,
          logKeyArn: logKey.arn,
          protect,
        });
  const cluster = new Cluster(
    'cluster',
    {
      title: getTitle(all, 'cluster'),
      clusterName: settings.name,
      region,
      version: settings.version,
      support: settings.support,
      autoMode: settings.autoMode,
      subnetIds: network.privateSubnetIds,
      systemNodes: settings.systemNodes,
      nodeTags: tags,
      hasNodeGroups: gpuNodePools.some(({ nodes }) => nodes !== undefined),
      admins: settings.admins,
      viewers: settings.viewers,
      publicAccessCidrs: settings.publicAccessCidrs,
      logDays: settings.logDays,
      logKeyArn: logKey.arn,
      identity: settings.identity,
      secretsKeyArn: secretsKey.arn,
      protect,
    },
    { dependsOn: network.routes },
  );
  return {
    access: {
      kubeconfigText: pulumi.secret(cluster.kubeconfig),
      providerKubeconfigText: pulumi.secret(cluster.providerKubeconfig),
      clusterIdentifier: cluster.arn,
      names: [settings.name],
    },
    oidcProviderArn: cluster.oidcProviderArn,
    nodes: { cluster, subnetIds: network.privateSubnetIds, zones: network.zones },
    ready: cluster.ready,
  };
}

interface PlacedRepository {
  /** `s3://BUCKET/PREFIX` */
  url: pulumi.Input<string>;
  endpointUrl: string | undefined;
  /** Undefined if the bucket is not in AWS. */
  place: RepositoryRef | undefined;
  ready: pulumi.Resource[];
}

function getRepository(all: Settings): PlacedRepository {
  const { modelRepository: settings, protect } = all;
  const { prefix, region } = settings;
  if (settings.kind === 'create') {
    const made = new ModelRepository('models', {
      title: getTitle(all, 'models'),
      ...settings,
      accountId: getCallerIdentityOutput().accountId,
      protect,
    });
    const place = { bucketArn: made.bucketArn, prefix, keyArn: made.keyArn };
    return { url: made.url, endpointUrl: undefined, place, ready: made.ready };
  }
  const url = formatLocation({ bucket: settings.bucket, prefix });
  if (settings.kind === 'elsewhere') return { url, endpointUrl: settings.endpointUrl, place: undefined, ready: [] };
  const bucketArn = `arn:${getPartition(region)}:s3:::${settings.bucket}`;
  const key = settings.kmsKeyArn === undefined ? {} : { keyArn: settings.kmsKeyArn };
  return { url, endpointUrl: undefined, place: { bucketArn, prefix, ...key }, ready: [] };
}

function getCredentials(
  settings: Settings,
  { oidcProviderArn }: PlacedCluster,
  { place }: PlacedRepository,
): { value: RepositoryCredentials; ready: pulumi.Resource[] } {
  const { modelRepository, triton } = settings;
  if (modelRepository.kind === 'elsewhere') {
    const { accessKeyId, secretAccessKey } = modelRepository;
    return { value: { kind: 'static-keys', accessKeyId, secretAccessKey }, ready: [] };
  }
  if (oidcProviderArn === undefined || place === undefined)
    throw new Error('oidcProviderArn is missing, although the settings were validated');
  const access = new TritonAccess('server', {
    title: getTitle(settings, 'server'),
    repository: place,
    oidcProviderArn,
    namespace: triton.namespace.name,
    serviceAccount: COMPONENT_NAME,
  });
  return { value: { kind: 'role', roleArn: access.roleArn }, ready: access.ready };
}

function getPublisher(
  settings: Settings,
  { nodes }: PlacedCluster,
  { place }: PlacedRepository,
): PublisherRole | undefined {
  const { protect, publisher, triton } = settings;
  if (publisher === undefined || place === undefined || publisher.subjects.every(isExampleSubject)) return undefined;
  return new PublisherRole('publisher', {
    title: getTitle(settings, 'publisher'),
    repository: place,
    publisher,
    cluster: nodes && { name: nodes.cluster.clusterName, group: triton.publisherGroup },
    protect,
  });
}

/** Schedules replicas that need GPUs onto the nodes of our pools, even if the cluster has other GPU nodes. */
function onGpuNodes({ gpuNodePools: pools, triton }: Settings): Partial<Settings['triton']> {
  if (pools.length === 0 || triton.gpusPerPod === 0) return {};
  // One toleration for a taint of several pools, so that another pool with it does not replace the replicas.
  const taints = [
    ...new Map(pools.flatMap((pool) => pool.taints).map((taint) => [JSON.stringify(taint), taint])).values(),
  ];
  return {
    nodeSelector: { ...triton.nodeSelector, [GPU_LABEL]: 'true' },
    tolerations: [...(triton.tolerations ?? []), ...taints],
    sharedGpus: false,
    sharedNodes: pools.some(({ instanceTypes }) =>
      getKnownTypes(instanceTypes).some(({ gpus }) => gpus >= 2 * triton.gpusPerPod),
    ),
  };
}
