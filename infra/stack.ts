import { getCallerIdentityOutput } from '@pulumi/aws/getCallerIdentity';
import { Namespace } from '@pulumi/kubernetes/core/v1/namespace';
import * as pulumi from '@pulumi/pulumi';
import { formatLocation } from '../src/release/location';
import type { STACK_OUTPUTS } from '../src/cluster/stack-outputs';
import { Cluster } from './cluster/cluster';
import { defined } from './defined';
import { formerNames } from './former-names';
import { cloudWatchLogsStatement, EncryptionKey } from './storage/encryption-key';
import { GPU_LABEL } from './gpu/gpu-labels';
import { GpuNodes } from './gpu/gpu-nodes';
import { existingAccess, kubernetesProvider, type ClusterAccess } from './cluster/kubernetes-provider';
import { ModelRepository } from './storage/model-repository';
import { Network } from './network/network';
import { ImageMirror } from './images/image-mirror';
import { mirroredImages } from './images/mirrored-image';
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
  const names = getNames(settings);
  const cluster = getCluster(names, settings);
  const repository = getRepository(names, settings);
  if (settings.mirrorImages) {
    const repositories = mirroredImages(settings).map((image) => image.repository);
    new ImageMirror('images', { repositories, protect: settings.protect }, names.options);
  }
  const kubernetes = kubernetesProvider(cluster.access, settings.renderManifestsTo, names.options);
  const { monitoring, ...options } = completeOptions(COMPONENT_NAME, settings.triton);
  const nodes = new GpuNodes(
    'gpu',
    {
      title: names.title('gpu'),
      pools: settings.gpuNodePools,
      drainSeconds: drainSeconds(options),
      monitoring: monitoring?.serviceMonitor === true ? monitoring : undefined,
      region: settings.region,
      tags: settings.tags,
      ...cluster.nodes,
    },
    { ...names.options, providers: { kubernetes }, dependsOn: cluster.ready },
  );
  const credentials = getCredentials(names, settings, cluster, repository);
  const triton = new TritonServer(
    COMPONENT_NAME,
    {
      ...settings.triton,
      ...onGpuNodes(settings),
      omitReplicas: settings.renderManifestsTo !== undefined,
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
  const publisher = getPublisher(names, settings, cluster, repository);
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
    externalUrl: settings.triton.exposure.kind === 'cluster' ? undefined : triton.externalUrl,
    publisherRoleArn: publisher?.roleArn,
    prunerRoleArn: publisher?.prunerRoleArn,
  });
}

/**
 * Names of a stack's resources. In the program they do not contain the name of the stack, so "pulumi stack rename"
 * replaces nothing. In AWS they do, because stacks share an account: in tags and descriptions (`title`), and in the names
 * that Pulumi generates ("pulumi:autonaming" in Pulumi.yaml).
 */
interface Names {
  title: (name: string) => string;
  /** For each resource and component whose name had the name of the stack. */
  options: pulumi.ResourceOptions;
}

function getNames({ stack }: Settings): Names {
  const prefix = `triton-${stack}-`;
  return { title: (name) => `${prefix}${name}`, options: { transformations: [formerNames(prefix)] } };
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

function getCluster(names: Names, settings: Settings): PlacedCluster {
  if (settings.cluster.kind === 'existing') {
    const { kubeconfig, context, identifier, oidcProviderArn } = settings.cluster;
    // Rendering manifests needs no cluster. A kubeconfig that is set nevertheless is for publishing.
    const isNeeded = settings.renderManifestsTo === undefined || kubeconfig !== undefined;
    const access = isNeeded ? existingAccess(kubeconfig, context, identifier) : undefined;
    return { access, oidcProviderArn, ready: [] };
  }
  return newCluster(names, settings, settings.cluster);
}

function newCluster(
  { title, options }: Names,
  { stack, protect, gpuNodePools, region, tags }: Settings,
  settings: ClusterSettings & { kind: 'create' },
): PlacedCluster {
  const accountId = getCallerIdentityOutput().accountId;
  const logKey = new EncryptionKey(
    'logs',
    {
      description: `Logs of triton-${stack}`,
      accountId,
      region,
      statements: [cloudWatchLogsStatement(region, accountId)],
      protect,
    },
    options,
  );
  const secretsKey = new EncryptionKey(
    'secrets',
    { description: `Kubernetes secrets of triton-${stack}`, accountId, region, protect },
    options,
  );
  const network =
    settings.network.kind === 'existing'
      ? { privateSubnetIds: settings.network.privateSubnetIds, routes: [], zones: [] }
      : new Network(
          'network',
          { title: title('network'), ...settings.network, region, logKeyArn: logKey.arn, protect },
          options,
        );
  const cluster = new Cluster(
    'cluster',
    {
      title: title('cluster'),
      clusterName: settings.name,
      keepName: settings.hasDefaultName,
      region,
      version: settings.version,
      support: settings.support,
      autoMode: settings.autoMode,
      subnetIds: network.privateSubnetIds,
      systemNodes: settings.systemNodes,
      nodeTags: tags,
      hasNodeGroups: gpuNodePools.some(({ mechanism }) => mechanism === 'managed-node-group'),
      admins: settings.admins,
      viewers: settings.viewers,
      publicAccessCidrs: settings.publicAccessCidrs,
      logDays: settings.logDays,
      logKeyArn: logKey.arn,
      identity: settings.identity,
      secretsKeyArn: secretsKey.arn,
      protect,
    },
    { ...options, dependsOn: network.routes },
  );
  return {
    access: {
      kubeconfigText: pulumi.secret(cluster.kubeconfig),
      providerKubeconfigText: pulumi.secret(cluster.providerKubeconfig),
      clusterIdentifier: cluster.arn,
      names: [settings.liveName ?? settings.name],
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

function getRepository(names: Names, { modelRepository: settings, protect }: Settings): PlacedRepository {
  const { prefix, region } = settings;
  if (settings.kind === 'create') {
    const made = new ModelRepository(
      'models',
      { title: names.title('models'), ...settings, accountId: getCallerIdentityOutput().accountId, protect },
      names.options,
    );
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
  { title, options }: Names,
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
  const access = new TritonAccess(
    'server',
    {
      title: title('server'),
      repository: place,
      oidcProviderArn,
      namespace: triton.namespace.name,
      serviceAccount: COMPONENT_NAME,
    },
    options,
  );
  return { value: { kind: 'role', roleArn: access.roleArn }, ready: access.ready };
}

function getPublisher(
  { title, options }: Names,
  { protect, publisher, triton }: Settings,
  { nodes }: PlacedCluster,
  { place }: PlacedRepository,
): PublisherRole | undefined {
  if (publisher === undefined || place === undefined) return undefined;
  if (publisher.subjects.every(isExampleSubject) && publisher.isLive !== true) return undefined;
  return new PublisherRole(
    'publisher',
    {
      title: title('publisher'),
      repository: place,
      publisher,
      cluster: nodes && { name: nodes.cluster.clusterName, group: triton.publisherGroup },
      protect,
    },
    options,
  );
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
    sharedGpus: pools.some(({ timeSlices }) => timeSlices > 1),
  };
}
