import { getCallerIdentityOutput } from '@pulumi/aws/getCallerIdentity';
import { Namespace } from '@pulumi/kubernetes/core/v1/namespace';
import * as pulumi from '@pulumi/pulumi';
import type { BakeSetting } from '../src/release/bake';
import { formatLocation, parseLocation } from '../src/release/location';
import type { STACK_OUTPUTS } from '../src/publish/cluster/stack-outputs';
import { Cluster } from './cluster/cluster';
import { defined } from './defined';
import { cloudWatchLogsStatement, EncryptionKey } from './storage/encryption-key';
import { getCapabilities, getKnownTypes } from './gpu/gpu-instance-types';
import { GPU_LABEL } from './gpu/gpu-labels';
import { GpuNodes } from './gpu/gpu-nodes';
import { existingAccess, kubernetesProvider, type ClusterAccess } from './cluster/kubernetes-provider';
import { ModelRepository } from './storage/model-repository';
import { Network } from './network/network';
import { getPartition } from './iam/policy-document';
import { PublisherRole } from './iam/publisher-role';
import type { RepositoryRef } from './iam/repository-policies';
import { readSettings, type Settings } from './settings';
import { createsNetwork } from './settings/rules';
import { COMPONENT_NAME } from './settings/triton';
import { TritonAccess } from './iam/triton-access';
import { TritonServer, type RepositoryCredentials, type TritonServerArgs } from './triton/server';
import { PUBLISHER_GROUP } from './triton/settings';
import { allDrainSeconds } from './triton/timeouts';
import { isExampleSubject } from './trust-subject';

/** Outputs that publishing reads (src/publish/cluster/stack-outputs.ts), and outputs for people. */
export type ProgramOutputs = { [K in keyof typeof STACK_OUTPUTS]?: pulumi.Input<string> } & {
  clusterName?: pulumi.Input<string>;
  serviceUrl: pulumi.Output<string>;
  externalUrl?: pulumi.Output<string | undefined>;
  publisherRoleArn?: pulumi.Output<string>;
  prunerRoleArn?: pulumi.Output<string>;
};

export function program(settings: Settings = readSettings()): ProgramOutputs {
  const cluster = getCluster(settings);
  const repository = getRepository(settings);
  const kubernetes = kubernetesProvider(cluster.access);
  const nodes = new GpuNodes(
    'gpu',
    {
      title: getTitle(settings, 'gpu'),
      pools: settings.gpuNodePools,
      drainSeconds: allDrainSeconds(settings.triton),
      cluster: cluster.created,
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
      protect: settings.protect,
      loadBalancerTags: settings.existingCluster === undefined ? settings.tags : {},
      modelRepository: repository.url,
      region: settings.region,
      credentials: credentials.value,
      endpointUrl: settings.s3?.endpoint,
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
    region: settings.region,
    endpointUrl: settings.s3?.endpoint,
    kubeconfig: cluster.access.kubeconfigText,
    namespace: triton.namespace,
    podSelector: triton.podSelector,
    builder: triton.builder,
    bake: settings.bake && bakeOutput(settings.bake),
    clusterName: cluster.created?.clusterName,
    serviceUrl: triton.serviceUrl,
    externalUrl: settings.triton.exposure.kind === 'cluster' ? undefined : triton.externalUrl,
    publisherRoleArn: publisher?.roleArn,
    prunerRoleArn: publisher?.prunerRoleArn,
  });
}

const bakeOutput = ({ minutes, maxErrorRate, maxLatencyRatio }: BakeSetting): string =>
  JSON.stringify({ minutes, maxErrorRate, maxLatencyRatio });

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
  created?: Cluster;
  ready: pulumi.Resource[];
}

function getCluster(settings: Settings): PlacedCluster {
  if (settings.existingCluster === undefined) return newCluster(settings);
  const { kubeconfig, context, identifier, oidcProviderArn } = settings.existingCluster;
  return { access: existingAccess(kubeconfig, context, identifier), oidcProviderArn, ready: [] };
}

function newCluster(settings: Settings): PlacedCluster {
  const { stack, protect, clusterName, region } = settings;
  const accountId = getCallerIdentityOutput().accountId;
  const logKey = new EncryptionKey('logs', {
    description: `Logs of triton-${stack}`,
    statements: [cloudWatchLogsStatement(region, accountId)],
    ...{ accountId, region, protect },
  });
  const secretsKey = new EncryptionKey('secrets', {
    description: `Kubernetes secrets of triton-${stack}`,
    ...{ accountId, region, protect },
  });
  const network = createsNetwork(settings)
    ? new Network('network', { ...settings, title: getTitle(settings, 'network'), logKeyArn: logKey.arn })
    : { privateSubnetIds: settings.privateSubnetIds, routes: [], zones: [] };
  const cluster = new Cluster(
    'cluster',
    {
      ...settings,
      title: getTitle(settings, 'cluster'),
      subnetIds: network.privateSubnetIds,
      zones: network.zones,
      nodeTags: settings.tags,
      logKeyArn: logKey.arn,
      secretsKeyArn: secretsKey.arn,
    },
    { dependsOn: network.routes },
  );
  return {
    access: {
      kubeconfigText: pulumi.secret(cluster.kubeconfig),
      providerKubeconfigText: pulumi.secret(cluster.providerKubeconfig),
      clusterIdentifier: cluster.arn,
      names: [clusterName],
    },
    oidcProviderArn: cluster.oidcProviderArn,
    created: cluster,
    ready: cluster.ready,
  };
}

interface PlacedRepository {
  /** `s3://BUCKET/PREFIX` */
  url: pulumi.Input<string>;
  /** Undefined if the bucket is not in AWS. */
  place: RepositoryRef | undefined;
  ready: pulumi.Resource[];
}

const PREFIX = 'models';

function getRepository(settings: Settings): PlacedRepository {
  const { bucketKmsKeyArn: keyArn, region } = settings;
  if (settings.modelRepository === undefined) {
    const made = new ModelRepository('models', {
      ...settings,
      title: getTitle(settings, 'models'),
      prefix: PREFIX,
      accountId: getCallerIdentityOutput().accountId,
    });
    const place = { bucketArn: made.bucketArn, prefix: PREFIX, keyArn: made.keyArn };
    return { url: made.url, place, ready: made.ready };
  }
  const location = parseLocation(settings.modelRepository);
  const bucketArn = `arn:${getPartition(region)}:s3:::${location.bucket}`;
  const place = settings.s3 === undefined ? defined({ bucketArn, prefix: location.prefix, keyArn }) : undefined;
  return { url: formatLocation(location), place, ready: [] };
}

function getCredentials(
  settings: Settings,
  { oidcProviderArn }: PlacedCluster,
  { place }: PlacedRepository,
): { value: RepositoryCredentials; ready: pulumi.Resource[] } {
  const { s3, triton } = settings;
  if (s3 !== undefined) {
    const [accessKeyId, secretAccessKey] = [pulumi.secret(s3.accessKeyId), pulumi.secret(s3.secretAccessKey)];
    return { value: { accessKeyId, secretAccessKey }, ready: [] };
  }
  if (oidcProviderArn === undefined || place === undefined)
    throw new Error('existingCluster.oidcProviderArn is missing, although the settings were validated');
  const access = new TritonAccess('server', {
    title: getTitle(settings, 'server'),
    repository: place,
    oidcProviderArn,
    namespace: triton.namespace.name,
    serviceAccount: COMPONENT_NAME,
  });
  return { value: { roleArn: access.roleArn }, ready: access.ready };
}

function getPublisher(
  settings: Settings,
  { created }: PlacedCluster,
  { place }: PlacedRepository,
): PublisherRole | undefined {
  if (place === undefined || settings.publisherSubjects.every(isExampleSubject)) return undefined;
  return new PublisherRole('publisher', {
    ...settings,
    title: getTitle(settings, 'publisher'),
    repository: place,
    cluster: created && { name: created.clusterName, group: PUBLISHER_GROUP },
  });
}

/** Schedules replicas that need GPUs onto the nodes of our pools, even if the cluster has other GPU nodes. */
function onGpuNodes({ gpuNodePools: pools, triton }: Settings): Partial<TritonServerArgs> {
  if (pools.length === 0 || triton.gpusPerPod === 0) return {};
  // One toleration for a taint of several pools, so that another pool with it does not replace the replicas.
  const taints = [
    ...new Map(pools.flatMap((pool) => pool.taints).map((taint) => [JSON.stringify(taint), taint])).values(),
  ];
  return {
    pod: {
      ...triton.pod,
      nodeSelector: { ...triton.pod.nodeSelector, [GPU_LABEL]: 'true' },
      tolerations: [...triton.pod.tolerations, ...taints],
    },
    gpuCapabilities:
      triton.gpuCapabilities.length > 0
        ? triton.gpuCapabilities
        : getCapabilities(pools.flatMap(({ instanceTypes }) => instanceTypes)),
    sharedGpus: false,
    sharedNodes: pools.some(({ instanceTypes }) =>
      getKnownTypes(instanceTypes).some(({ gpus }) => gpus >= 2 * triton.gpusPerPod),
    ),
  };
}
