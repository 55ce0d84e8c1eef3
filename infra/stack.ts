import { getCallerIdentityOutput } from '@pulumi/aws/getCallerIdentity';
import * as pulumi from '@pulumi/pulumi';
import { formatLocation } from '../src/publish/location';
import type { STACK_OUTPUTS } from '../src/cluster/stack-outputs';
import { Cluster } from './cluster/cluster';
import { defined } from './defined';
import { cloudWatchLogsStatement, EncryptionKey } from './storage/encryption-key';
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
import { getWarnings } from './warnings';

/** Outputs that publishing reads (src/cluster/stack-outputs.ts), and outputs for people. */
export type ProgramOutputs = { [K in keyof typeof STACK_OUTPUTS]?: pulumi.Input<string> } & {
  clusterName?: pulumi.Input<string>;
  serviceUrl: pulumi.Output<string>;
  externalUrl?: pulumi.Output<string | undefined>;
  publisherRoleArn?: pulumi.Output<string>;
};

/** Creates all resources of a stack from its settings. */
export function program(settings: Settings = readSettings()): ProgramOutputs {
  for (const warning of getWarnings(settings, new Date())) void pulumi.log.warn(warning);
  const name = `triton-${settings.stack}`;
  const cluster = getCluster(name, settings);
  const repository = getRepository(name, settings);
  const kubernetes = kubernetesProvider(name, cluster.access, settings.renderManifestsTo);
  const nodes = new GpuNodes(
    `${name}-gpu`,
    { pools: settings.gpuNodePools, region: settings.region, tags: settings.tags, ...cluster.nodes },
    { providers: { kubernetes }, dependsOn: cluster.ready },
  );
  const credentials = getCredentials(name, settings, cluster, repository);
  const triton = new TritonServer(
    COMPONENT_NAME,
    {
      ...settings.triton,
      ...onGpuNodes(settings),
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
  const publisher = getPublisher(name, settings, cluster, repository);
  // Publishing needs either all three of these outputs or none.
  const publishing = cluster.access && {
    kubeconfig: cluster.access.kubeconfigText,
    namespace: triton.namespace,
    podSelector: triton.podSelector,
  };
  // Without undefined outputs, because Pulumi warns about each of them.
  return defined({
    modelRepository: repository.url,
    region: settings.modelRepository.region,
    endpointUrl: repository.endpointUrl,
    ...publishing,
    clusterName: cluster.nodes?.cluster.clusterName,
    serviceUrl: triton.serviceUrl,
    modelControlKey: triton.modelControlKey,
    externalUrl: settings.triton.exposure.kind === 'cluster' ? undefined : triton.externalUrl,
    publisherRoleArn: publisher?.roleArn,
  });
}

interface PlacedCluster {
  /** Undefined for an existing cluster to which nothing is applied. */
  access: ClusterAccess | undefined;
  /** If undefined, pods cannot assume IAM roles. */
  oidcProviderArn: pulumi.Input<string> | undefined;
  /** Only for a cluster that this program creates. */
  nodes?: { cluster: Cluster; subnetIds: pulumi.Input<string>[]; zones: string[] };
  ready: pulumi.Resource[];
}

function getCluster(name: string, settings: Settings): PlacedCluster {
  if (settings.cluster.kind === 'existing') {
    const { kubeconfig, context, oidcProviderArn } = settings.cluster;
    // Rendering manifests needs no cluster. A kubeconfig that is set nevertheless is for publishing.
    const isNeeded = settings.renderManifestsTo === undefined || kubeconfig !== undefined;
    return { access: isNeeded ? existingAccess(kubeconfig, context) : undefined, oidcProviderArn, ready: [] };
  }
  return newCluster(name, settings, settings.cluster);
}

function newCluster(
  name: string,
  { protect, gpuNodePools, region, tags }: Settings,
  settings: ClusterSettings & { kind: 'create' },
): PlacedCluster {
  const accountId = getCallerIdentityOutput().accountId;
  const logKey = new EncryptionKey(`${name}-logs`, {
    description: `Logs of ${name}`,
    accountId,
    region,
    statements: [cloudWatchLogsStatement(region, accountId)],
  });
  const secretsKey = new EncryptionKey(`${name}-secrets`, {
    description: `Kubernetes secrets of ${name}`,
    accountId,
    region,
    protect,
  });
  const network =
    settings.network.kind === 'existing'
      ? { privateSubnetIds: settings.network.privateSubnetIds, routes: [], zones: [] }
      : new Network(`${name}-network`, { ...settings.network, region, logKeyArn: logKey.arn });
  const cluster = new Cluster(
    `${name}-cluster`,
    {
      clusterName: settings.name,
      region,
      version: settings.version,
      autoMode: settings.autoMode,
      subnetIds: network.privateSubnetIds,
      systemNodes: settings.systemNodes,
      nodeTags: tags,
      hasNodeGroups: gpuNodePools.some(({ mechanism }) => mechanism === 'managed-node-group'),
      admins: settings.admins,
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

function getRepository(name: string, { modelRepository: settings, protect }: Settings): PlacedRepository {
  const { prefix, region } = settings;
  if (settings.kind === 'create') {
    const made = new ModelRepository(`${name}-models`, {
      ...settings,
      accountId: getCallerIdentityOutput().accountId,
      protect,
    });
    const url = made.bucket.apply((bucket) => formatLocation({ bucket, prefix }));
    const place = { bucketArn: made.bucketArn, prefix, keyArn: made.keyArn };
    return { url, endpointUrl: undefined, place, ready: made.ready };
  }
  const url = formatLocation({ bucket: settings.bucket, prefix });
  if (settings.kind === 'elsewhere') return { url, endpointUrl: settings.endpointUrl, place: undefined, ready: [] };
  const bucketArn = `arn:${getPartition(region)}:s3:::${settings.bucket}`;
  const key = settings.kmsKeyArn === undefined ? {} : { keyArn: settings.kmsKeyArn };
  return { url, endpointUrl: undefined, place: { bucketArn, prefix, ...key }, ready: [] };
}

function getCredentials(
  name: string,
  { modelRepository, triton }: Settings,
  { oidcProviderArn }: PlacedCluster,
  { place }: PlacedRepository,
): { value: RepositoryCredentials; ready: pulumi.Resource[] } {
  if (modelRepository.kind === 'elsewhere') {
    const { accessKeyId, secretAccessKey } = modelRepository;
    return { value: { kind: 'static-keys', accessKeyId, secretAccessKey }, ready: [] };
  }
  if (oidcProviderArn === undefined || place === undefined)
    throw new Error('oidcProviderArn is missing, although the settings were validated');
  const access = new TritonAccess(`${name}-server`, {
    repository: place,
    oidcProviderArn,
    namespace: triton.namespace.name,
    serviceAccount: COMPONENT_NAME,
  });
  return { value: { kind: 'role', roleArn: access.roleArn }, ready: access.ready };
}

function getPublisher(
  name: string,
  { publisher, triton }: Settings,
  { nodes }: PlacedCluster,
  { place }: PlacedRepository,
): PublisherRole | undefined {
  if (publisher === undefined || place === undefined) return undefined;
  return new PublisherRole(`${name}-publisher`, {
    repository: place,
    publisher,
    cluster: nodes && { name: nodes.cluster.clusterName, group: triton.publisherGroup },
  });
}

/** Schedules replicas that need GPUs onto the nodes of our pools, even if the cluster has other GPU nodes. */
function onGpuNodes({ gpuNodePools: pools, triton }: Settings): Partial<Settings['triton']> {
  if (pools.length === 0 || triton.gpusPerPod === 0) return {};
  const taints = pools.flatMap((pool) => pool.taints);
  return {
    nodeSelector: { ...triton.nodeSelector, [GPU_LABEL]: 'true' },
    tolerations: [...(triton.tolerations ?? []), ...taints],
  };
}
