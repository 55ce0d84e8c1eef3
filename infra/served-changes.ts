import { UserError } from '../src/core/errors';
import { getServer, readKubeconfig } from './cluster/kubeconfig';
import type { StateResources } from './cluster/live-objects';
import { nodeDrainTime } from './gpu/gpu-node-pool-spec';
import { GPU_POOL_LABEL } from './gpu/gpu-labels';
import type { GpuNodePoolSettings, Settings } from './settings/types';
import { COMPONENT_NAME } from './settings/triton';
import { DEFAULTS } from './triton/limits';
import { labels } from './triton/names';
import { completeOptions } from './triton/settings';
import { drainSeconds } from './triton/timeouts';

/** A setting whose change replaces or deletes what a stack serves. */
interface ServedSetting {
  setting: string;
  /** The value in the last state; undefined if the stack has no such resource, or if it stays. */
  live: (state: LiveStack) => string | undefined;
  /** The value in the stack file; undefined if this setting then changes nothing. */
  next: (settings: Settings) => string | undefined;
  /** What `pulumi up` does, and what the user should do first. */
  effect: string;
}

/** The last state of a stack, with its resources by type. */
class LiveStack {
  constructor(private readonly state: StateResources) {}

  all(type: string): Record<string, unknown>[] {
    return Object.values(this.state)
      .filter((resource) => resource.type === type)
      .map(({ outputs }) => outputs);
  }

  /** A property of the only resource of a type, by its path. */
  get(type: string, ...path: string[]): string | undefined {
    const value = path.reduce<unknown>(
      (at, key) => (at as Record<string, unknown> | undefined)?.[key],
      this.all(type)[0],
    );
    return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined;
  }

  get nodeGroups(): LiveGroup[] {
    return this.all('aws:eks/nodeGroup:NodeGroup') as unknown as LiveGroup[];
  }

  has(type: string): boolean {
    return this.all(type).length > 0;
  }
}

const CLUSTER = 'aws:eks/cluster:Cluster';
const VPC = 'aws:ec2/vpc:Vpc';
const BUCKET = 'aws:s3/bucket:Bucket';
const SERVICE = 'kubernetes:core/v1:Service';
const INGRESS = 'kubernetes:networking.k8s.io/v1:Ingress';
const DEPLOYMENT = 'kubernetes:apps/v1:Deployment';
const STACK = 'pulumi:pulumi:Stack';
const KUBERNETES = 'pulumi:providers:kubernetes';
const NAMESPACE = 'kubernetes:core/v1:Namespace';
const NODE_POOL = 'kubernetes:karpenter.sh/v1:NodePool';

const created = ({ cluster }: Settings) => (cluster.kind === 'create' ? cluster : undefined);

const liveLoadBalancer = (state: LiveStack): Record<string, unknown> | undefined =>
  state
    .all(SERVICE)
    .map(({ spec }) => spec as Record<string, unknown> | undefined)
    .find((spec) => spec?.['type'] === 'LoadBalancer');

const liveClass = (state: LiveStack): string | undefined =>
  liveLoadBalancer(state)?.['loadBalancerClass'] as string | undefined;

const nextClass = ({ triton: { exposure } }: Settings): string | undefined =>
  exposure.kind === 'internal-load-balancer' ? (exposure.loadBalancerClass ?? DEFAULTS.loadBalancerClass) : undefined;

/**
 * Refuses another namespace together with `createNamespace: false` in a protected stack: Pulumi would delete the namespace
 * that the stack created, with all that others have in it, because it does not ask for protection when a resource is
 * replaced by one that is only read.
 * @throws UserError
 */
export function refuseToDropNamespace(
  state: StateResources,
  { protect, triton: { namespace } }: Pick<Settings, 'protect' | 'triton'>,
): void {
  if (!protect || namespace.create) return;
  const live = new LiveStack(state)
    .all(NAMESPACE)
    .map(({ metadata }) => metadata as { name?: string; labels?: Record<string, string> } | undefined)
    .find((metadata) => isSubset(labels(COMPONENT_NAME), metadata?.labels))?.name;
  if (live === undefined || live === namespace.name) return;
  throw new UserError(
    `protect is true, and this stack created the namespace ${live}: Pulumi would delete it with everything in it, because namespace changes together with createNamespace: false`,
    {
      hint: `first release it: set only createNamespace: false, with namespace: ${live}, and run "pulumi up". Then set protect: false and the new namespace`,
    },
  );
}

const isSubset = (some: Record<string, string>, all: Record<string, string> = {}): boolean =>
  Object.entries(some).every(([key, value]) => all[key] === value);

/** Whether the load balancer gets another class, so that its Service must be deleted before its replacement is created. */
export function isLoadBalancerClassChanged(state: StateResources, settings: Settings): boolean {
  const live = liveClass(new LiveStack(state));
  return live !== undefined && live !== nextClass(settings);
}

const SERVED: readonly ServedSetting[] = [
  {
    setting: 'aws:region',
    live: (state) => state.get(CLUSTER, 'arn')?.split(':')[3],
    next: ({ region, cluster }) => (cluster.kind === 'create' ? region : undefined),
    effect: 'replaces every resource of the stack, the bucket with its models included: use another stack instead',
  },
  {
    setting: 'cluster',
    live: (state) => (state.has(CLUSTER) ? 'create' : undefined),
    next: ({ cluster }) => cluster.kind,
    effect: 'deletes the cluster of this stack with all replicas, its nodes and its network: use another stack instead',
  },
  {
    setting: 'kubeconfig',
    live: (state) => {
      const kubeconfig = state.get(KUBERNETES, 'kubeconfig');
      const isNamed = state.has(CLUSTER) || state.get(KUBERNETES, 'clusterIdentifier') !== undefined;
      return isNamed || kubeconfig === undefined ? undefined : getServer(kubeconfig);
    },
    next: ({ cluster, renderManifestsTo }) =>
      cluster.kind === 'create' || renderManifestsTo !== undefined
        ? undefined
        : getServer(readKubeconfig(cluster.kubeconfig, cluster.context)),
    effect:
      'creates all objects and replicas in another cluster, and then deletes the present ones. If this is another address of the same cluster, pulumi up fails because they exist: set clusterIdentifier first, in an update of its own with the present address',
  },
  {
    setting: 'clusterName',
    live: (state) => state.get(CLUSTER, 'name'),
    next: (settings) => created(settings)?.name,
    effect:
      'creates another cluster with its own replicas, and then deletes the present one: clients and publishers need the new addresses. With autoscaling it starts with minReplicas: raise them to the present number first',
  },
  {
    setting: 'vpcId',
    live: (state) => (state.has(VPC) ? 'empty' : undefined),
    next: (settings) => {
      const network = created(settings)?.network;
      return network?.kind === 'existing' ? network.vpcId : undefined;
    },
    effect:
      'deletes the network of this stack, and AWS moves no cluster to another VPC: change clusterName in the same step',
  },
  {
    setting: 'vpcCidr',
    live: (state) => state.get(VPC, 'cidrBlock'),
    next: (settings) => {
      const network = created(settings)?.network;
      return network?.kind === 'create' ? network.cidr : undefined;
    },
    effect: 'replaces the network, and AWS moves no cluster to another VPC: change clusterName in the same step',
  },
  {
    setting: 'autoMode',
    live: (state) =>
      state.has(CLUSTER) ? String(state.get(CLUSTER, 'computeConfig', 'enabled') === 'true') : undefined,
    next: (settings) => created(settings)?.autoMode.toString(),
    effect: 'replaces all nodes: add the pools of the new kind in an update of their own first',
  },
  {
    setting: 'systemInstanceTypes',
    live: (state) => state.nodeGroups.find((group) => getPool(group) === undefined)?.instanceTypes.join(', '),
    next: (settings) => {
      const cluster = created(settings);
      return cluster?.autoMode === false ? cluster.systemNodes.instanceTypes.join(', ') : undefined;
    },
    effect: 'replaces the system nodes: the new ones are created first, and both need quota at the same time',
  },
  {
    setting: 'bucketName',
    live: (state) => (state.has(BUCKET) ? 'empty' : undefined),
    next: ({ modelRepository }) => (modelRepository.kind === 'create' ? undefined : modelRepository.bucket),
    effect:
      'deletes the bucket of this stack, with its models if bucketForceDestroy is true and otherwise with an error: publish to the other bucket first',
  },
  {
    setting: 'modelRepositoryPrefix',
    // s3://BUCKET/PREFIX
    live: (state) => state.get(STACK, 'modelRepository')?.split('/').slice(3).join('/'),
    next: ({ modelRepository }) => modelRepository.prefix,
    effect: 'replicas that start read only the new prefix: publish to it first',
  },
  {
    setting: 'namespace',
    live: (state) => state.get(DEPLOYMENT, 'metadata', 'namespace'),
    next: ({ triton }) => triton.namespace.name,
    effect:
      'creates all objects and replicas in the new namespace, and then deletes the old ones: both sets need GPUs, and clients and publishers need the new addresses. With autoscaling the new set starts with minReplicas: raise them to the present number first',
  },
  {
    setting: 'exposure',
    live: (state) => {
      if (state.has(INGRESS)) return 'ingress';
      return liveLoadBalancer(state) === undefined ? undefined : 'internal-load-balancer';
    },
    next: ({ triton }) => triton.exposure.kind,
    effect: 'deletes the present way in, and its address: clients outside the cluster need the new address',
  },
  {
    setting: 'loadBalancerClass',
    live: liveClass,
    next: nextClass,
    effect: 'deletes the load balancer, and then creates another one: clients need the new address',
  },
];

/** The settings whose change replaces or deletes what a stack serves. */
export const SERVED_SETTINGS: readonly string[] = [...SERVED.map(({ setting }) => setting), 'gpuNodePools'];

/**
 * Warnings about settings that were changed since the last update and whose change replaces or deletes what the stack
 * serves. Pulumi prints them in the preview, before it asks whether to go ahead.
 */
export function getServedChanges(state: StateResources, settings: Settings): string[] {
  const live = new LiveStack(state);
  const changes = SERVED.flatMap(({ setting, live: read, next, effect }) => {
    const from = read(live);
    const to = from === undefined ? undefined : next(settings);
    return from === undefined || to === undefined || from === to ? [] : [`${setting} ${from} -> ${to} ${effect}`];
  });
  return [...changes, ...poolChanges(live, settings), ...drainTimeChange(live, settings)];
}

/** A change of the drain time, which Karpenter applies by replacing every node. */
function drainTimeChange(state: LiveStack, { gpuNodePools: pools, triton }: Settings): string[] {
  const from = state.get(NODE_POOL, 'spec', 'template', 'spec', 'terminationGracePeriod');
  const to = nodeDrainTime(drainSeconds(completeOptions(COMPONENT_NAME, triton)));
  if (from === undefined || from === to || pools.every(({ mechanism }) => mechanism === 'managed-node-group'))
    return [];
  return [
    `the drain time of the nodes changes from ${from} to ${to}, because of replicas, autoscaling, rollout, shutdown or a newer version of this package: Karpenter replaces every node, as many at once as disruptedNodes of the pool allows`,
  ];
}

const DRAINED = 'nodes are drained and deleted, and the replicas on them need GPUs elsewhere';

/** Pools whose nodes are replaced, and pools that are no longer in the stack file or have another mechanism. */
function poolChanges(state: LiveStack, { gpuNodePools: pools, cluster }: Settings): string[] {
  const nodePools = state.all(NODE_POOL).map(({ metadata }) => (metadata as { name?: string } | undefined)?.name);
  const groups = state.nodeGroups;
  const find = (name: string | undefined, isGroup: boolean): GpuNodePoolSettings | undefined =>
    pools.find((pool) => pool.name === name && (pool.mechanism === 'managed-node-group') === isGroup);
  const deleted = [
    ...nodePools.filter((name) => find(name, false) === undefined),
    ...groups.map(getPool).filter((name) => find(name, true) === undefined),
  ].filter((name) => name !== undefined);
  const network = cluster.kind === 'create' ? cluster.network : undefined;
  const zones = network?.kind === 'create' ? network.zones : [];
  const replaced = groups.flatMap((group) => {
    const pool = find(getPool(group), true);
    return pool === undefined || isSameGroup(state, group, pool, zones) ? [] : [pool.name];
  });
  return [
    ...[...new Set(deleted)].map(
      (name) =>
        `gpuNodePools no longer has the pool ${name}, or has it with another mechanism: its ${DRAINED}. Add their new pool in an update of its own first`,
    ),
    ...[...new Set(replaced)].map(
      (name) =>
        `gpuNodePools replaces the nodes of ${name}: the new ones are created first, then the old ${DRAINED}. Both need quota at the same time`,
    ),
  ];
}

interface LiveGroup {
  labels?: Record<string, string> | null;
  amiType: string;
  capacityType: string;
  instanceTypes: string[];
  subnetIds: string[];
}

/** The pool of a managed node group; undefined for that of the system nodes. */
const getPool = ({ labels }: LiveGroup): string | undefined => labels?.[GPU_POOL_LABEL];

/** Whether EKS can keep a managed node group: it cannot change these properties. */
function isSameGroup(state: LiveStack, group: LiveGroup, pool: GpuNodePoolSettings, zones: readonly string[]): boolean {
  const subnetZones = new Map(
    state.all('aws:ec2/subnet:Subnet').map(({ id, availabilityZone }) => [id, availabilityZone]),
  );
  const liveZones = group.subnetIds.map((id) => subnetZones.get(id));
  const nextZones = pool.zones.length === 0 ? zones : pool.zones;
  return (
    group.amiType.toLowerCase().startsWith(pool.ami.toLowerCase()) &&
    pool.capacityTypes.some((type) => group.capacityType === (type === 'spot' ? 'SPOT' : 'ON_DEMAND')) &&
    isSameSet(group.instanceTypes, pool.instanceTypes) &&
    (nextZones.length === 0 || liveZones.includes(undefined) || isSameSet(liveZones, nextZones))
  );
}

const isSameSet = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  a.length === b.length && a.every((item) => b.includes(item));
