import { GPU_POOL_LABEL } from '../../infra/gpu/gpu-labels';
import { HERE, ONE_NODE_GROUP } from './aws-stack';
import type { StackConfig, Step } from './stack';
import { PUBLISHER } from './publisher-settings';

/**
 * The live stacks whose settings are changed one at a time: `auto` creates everything, with Auto Mode and a managed node
 * group; `groups` is the same without Auto Mode; `existing` uses an existing cluster and an S3 API other than that of AWS.
 */
export type Shape = 'auto' | 'groups' | 'existing';

export interface SettingChange {
  /** As printed: `replicas`, or `gpuNodePools: diskGiB`. */
  setting: string;
  shape: Shape;
  /** The other values. A secret is set encrypted. */
  values: StackConfig;
  secrets?: Readonly<Record<string, string>>;
  /** What the user does, if more than `pulumi up`. */
  advice?: string;
  /** How `pulumi up` fails although the preview succeeds. */
  failure?: string;
  /** What happens to requests, if the steps do not determine this. */
  requests?: string;
}

const ADMIN = 'arn:aws:iam::123456789012:role/admins';
const AUTO = { name: 'a10g', instanceTypes: ['g5.xlarge', 'g5.2xlarge'], maximumGpus: 3 };
const FIXED = { name: 'fixed', ...ONE_NODE_GROUP };
const AUTOSCALING = { kind: 'keda', minReplicas: 2, maxReplicas: 3 };

/** Settings of the live stacks, in addition to those of the stack file. */
export const SHAPES: Readonly<Record<Shape, StackConfig>> = {
  auto: {
    publicAccessCidrs: [HERE],
    clusterAdmins: [ADMIN],
    ...PUBLISHER,
    kubernetesVersion: '1.34',
    bucketForceDestroy: false,
    gpuNodePools: [AUTO, FIXED],
    exposure: 'internal-load-balancer',
    clientCidrs: ['10.1.0.0/16'],
    // Both kinds of clusters can have a controller of this class.
    loadBalancerClass: 'service.k8s.aws/nlb',
  },
  groups: { autoMode: false, gpuNodePools: [FIXED] },
  existing: {
    exposure: 'ingress',
    clientCidrs: ['10.1.0.0/16'],
    loadBalancerCidrs: ['10.0.0.0/16'],
    ingress: {
      host: 'triton.example.com',
      className: 'alb',
      certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
    },
  },
};

export const POOL_LABELS = { 'triton-serving/gpu': 'true', [GPU_POOL_LABEL]: 'fixed' };

type More = Pick<SettingChange, 'advice' | 'failure' | 'requests' | 'secrets'> & { and?: StackConfig };

const on =
  (shape: Shape) =>
  (setting: string, value: unknown, { and = {}, ...more }: More = {}): SettingChange => ({
    setting,
    shape,
    values: value === undefined ? and : { [setting]: value, ...and },
    ...more,
  });
const auto = on('auto');
const existing = on('existing');

const pool = (field: string, value: unknown, more: More = {}): SettingChange => ({
  ...auto(`gpuNodePools: ${field}`, undefined, more),
  values: { gpuNodePools: [{ ...AUTO, [field]: value, ...more.and }, FIXED] },
});
const group = (field: string, value: unknown, more: More = {}): SettingChange => ({
  ...auto(`gpuNodePools: ${field} (managed-node-group)`, undefined, more),
  values: { gpuNodePools: [AUTO, { ...FIXED, [field]: value, ...more.and }] },
});

const NEW_ADDRESS = 'fail outside the cluster until clients use the new address';
const MOVE = 'add the new pool in an update of its own first';
const BOTH = 'provide quota for both groups at the same time';
const MOVED = 'served, if the replicas find GPUs elsewhere';
const LOADED = 'served with the loaded models; loads fail until the replicas are replaced';
const ROTATE = 'publish with the new outputs';

/** The default of loadBalancerCidrs in the stack file. */
const PRIVATE_SUBNETS = ['10.0.0.0/19', '10.0.32.0/19', '10.0.64.0/19'];

/** Each setting with one other value. A test requires that none is missing. */
export const SETTING_CHANGES: readonly SettingChange[] = [
  auto('protect', true),
  auto('vpcId', 'vpc-0a', {
    and: { privateSubnetIds: ['subnet-0a', 'subnet-0b'], loadBalancerCidrs: PRIVATE_SUBNETS },
    advice: 'change `clusterName` in the same step',
    requests: 'fail: EKS moves no cluster to another VPC',
  }),
  auto('privateSubnetIds', ['subnet-0a', 'subnet-0b'], { advice: 'goes with `vpcId`' }),
  auto('vpcCidr', '10.9.0.0/16', {
    advice: 'change `clusterName` in the same step',
    requests: 'fail: EKS moves no cluster to another VPC',
  }),
  auto('availabilityZones', ['us-east-1a', 'us-east-1c'], {
    advice: 'with `subnetRanges: by-position` only the last zone can be removed',
    requests: 'served, if the replicas in the zone find GPUs elsewhere',
  }),
  auto('subnetRanges', 'by-position', { advice: 'only for zones that begin with a and leave out no letter' }),
  auto('natGateways', 'per-zone'),
  auto('flowLogDays', 30),
  auto('cluster', 'existing', {
    and: {
      kubeContext: 'admin',
      oidcProviderArn: 'arn:aws:iam::123456789012:oidc-provider/a.b/id/C',
      publicAccessCidrs: undefined,
      gpuNodePools: [],
      loadBalancerCidrs: PRIVATE_SUBNETS,
    },
    advice: 'use another stack instead',
    requests: 'fail',
  }),
  auto('clusterName', 'triton-second', {
    advice: 'clients and publishers use the new outputs',
    requests: 'served by the old cluster until it is deleted',
  }),
  auto('kubernetesVersion', '1.35', {
    requests: 'served; nodes of pools are replaced within `disruptedNodes`, those of a group one at a time',
  }),
  auto('kubernetesSupport', 'extended'),
  auto('autoMode', false, { and: { gpuNodePools: [FIXED] }, advice: MOVE, requests: MOVED }),
  on('groups')('systemInstanceTypes', ['m7i.xlarge'], { advice: BOTH, requests: 'served' }),
  on('groups')('systemNodes', 3),
  auto('clusterAdmins', [ADMIN, 'arn:aws:iam::123456789012:role/others']),
  auto('clusterViewers', ['arn:aws:iam::123456789012:role/drift']),
  auto('publicAccessCidrs', [HERE, '10.9.8.6/32']),
  auto('controlPlaneLogDays', 30),
  // The test adds another address of the API server.
  existing('kubeconfig', undefined, {
    advice: 'set `clusterIdentifier` first, in an update of its own',
    failure: 'fails if the address of the cluster differs, because the objects exist',
    requests: 'served',
  }),
  existing('kubeContext', 'second', { advice: 'name a context of `kubeconfig` for the same cluster' }),
  existing('clusterIdentifier', 'one'),
  existing('oidcProviderArn', 'arn:aws:iam::123456789012:oidc-provider/a.b/id/C'),
  existing('renderManifestsTo', 'manifests', {
    advice: '[From Pulumi to GitOps](operations.md#from-pulumi-to-gitops)',
  }),
  pool('name', 'other', { advice: MOVE, requests: MOVED }),
  pool('mechanism', 'managed-node-group', {
    and: { maximumGpus: undefined, minimumNodes: 1, maximumNodes: 1 },
    advice: MOVE,
    requests: MOVED,
  }),
  pool('instanceTypes', ['g5.4xlarge']),
  group('instanceTypes', ['g5.4xlarge'], { advice: BOTH, requests: MOVED }),
  pool('capacityTypes', ['on-demand']),
  group('capacityTypes', ['spot'], { advice: BOTH, requests: MOVED }),
  pool('maximumGpus', 8),
  group('minimumNodes', 2, { and: { maximumNodes: 2 } }),
  group('maximumNodes', 2, { and: { minimumNodes: 2 } }),
  pool('zones', ['us-east-1a']),
  group('zones', ['us-east-1a'], { advice: BOTH, requests: MOVED }),
  pool('labels', { team: 'vision' }),
  group('labels', { team: 'vision' }),
  pool('taints', [{ key: 'team', value: 'vision' }]),
  group('taints', [{ key: 'team', value: 'vision' }]),
  pool('disruptedNodes', '2'),
  pool('maintenanceWindow', { days: ['Sun'], startHour: 2, hours: 4 }),
  pool('consolidateAfterMinutes', 30),
  pool('expireAfterHours', 100),
  pool('diskGiB', 200),
  group('diskGiB', 300), // More than the local storage, so the nodes change.
  pool('capacityReservationIds', ['cr-0a'], { and: { capacityTypes: ['reserved', 'on-demand'] } }),
  group('ami', 'Bottlerocket', { advice: BOTH, requests: MOVED }),
  group('timeSlices', 2),
  group('dcgmExporter', true),
  {
    ...existing('gpuNodePools: nodeClass', undefined),
    values: {
      gpuNodePools: [
        {
          name: 'a10g',
          mechanism: 'karpenter',
          instanceTypes: ['g5.xlarge'],
          nodeClass: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'other' },
        },
      ],
    },
  },
  auto('instanceTypeFacts', [
    { name: 'gr6.4xlarge', gpu: 'L4', gpus: 1, vcpus: 16, memoryGiB: 128, nvmeGB: 600, usdPerHour: 1.54 },
  ]),
  auto('modelGpus', [{ model: 'net', computeCapabilities: ['8.6'] }]),
  auto('modelRepositoryPrefix', 'new', { advice: 'publish to the new prefix first', requests: LOADED }),
  auto('bucketName', 'other-models', { advice: 'publish to the other bucket first', requests: LOADED }),
  auto('bucketKmsKeyArn', 'arn:aws:kms:us-east-1:123456789012:key/a', {
    and: { bucketName: 'other-models' },
    advice: 'goes with `bucketName`, whose change this row shows',
    requests: LOADED,
  }),
  existing('bucketRegion', 'eu-west-1'),
  auto('bucketReaders', ['arn:aws:iam::444455556666:role/deploy']),
  auto('bucketForceDestroy', true),
  auto('oldVersionDays', 60),
  auto('accessLogDays', 60),
  existing('s3Endpoint', 'http://127.0.0.1:10', { advice: 'publish to the other endpoint first' }),
  existing('s3AccessKeyId', undefined, { secrets: { s3AccessKeyId: 'other' } }),
  existing('s3SecretAccessKey', undefined, { secrets: { s3SecretAccessKey: 'other' } }),
  auto('publisherSubjects', ['repo:acme/serving:environment:staging']),
  auto('prunerSubjects', ['repo:acme/serving:environment:prune']),
  auto('publisherIssuer', 'https://gitlab.example.com'),
  auto('publisherAudience', 'triton'),
  auto('publisherOidcProviderArn', 'arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com', {
    and: { createPublisherOidcProvider: undefined },
  }),
  auto('createPublisherOidcProvider', false),
  auto('namespace', 'vision', {
    advice: `provide GPUs for both sets of replicas, or set \`replicas: 0\` first; ${ROTATE}`,
    requests: 'served by the old replicas until they are deleted',
  }),
  auto('createNamespace', false),
  auto('image', 'nvcr.io/nvidia/tritonserver:26.01-py3'),
  auto('agentImage', 'registry.example/node:24.1.0'),
  auto('mirrorImages', true, { advice: 'run `npm run mirror-image`, and then `pulumi up` again' }),
  auto('replicas', 3),
  existing('gpusPerPod', 0, { advice: 'no model may need a GPU' }),
  existing('nodeSelector', { disk: 'fast' }),
  auto('tolerations', [{ key: 'team', operator: 'Exists' }]),
  auto('runtimeClassName', 'nvidia', { advice: 'create the class first' }),
  auto('priorityClassName', 'system-cluster-critical', { advice: 'create the class first' }),
  auto('resources', { cpu: 1 }),
  auto('startup', { loadSeconds: 200 }),
  auto('shutdown', { drainSeconds: 20 }),
  auto('rollout', { strategy: 'surge' }),
  auto('exposure', 'cluster', { and: { clientCidrs: undefined }, requests: 'fail outside the cluster' }),
  auto('clientCidrs', ['10.2.0.0/16']),
  auto('loadBalancerCidrs', ['10.0.0.0/17']),
  auto('loadBalancerClass', 'eks.amazonaws.com/nlb', { requests: NEW_ADDRESS }),
  existing(
    'ingress',
    { ...(SHAPES.existing['ingress'] as object), host: 'other.example.com' },
    {
      advice: 'add the DNS record of the other host',
      requests: NEW_ADDRESS,
    },
  ),
  auto('clientNamespaces', ['web']),
  auto('monitoringNamespace', 'observability'),
  auto('egressCidrs', ['10.0.0.0/8']),
  auto('egressPorts', [443, 5432]),
  auto('autoscaling', AUTOSCALING, { advice: 'install KEDA first' }),
  auto('monitoring', { alerts: true }, { advice: 'install the Prometheus operator first' }),
  auto('slo', { errorRate: 0.001 }, { and: { monitoring: { alerts: true } }, advice: 'set `monitoring`' }),
  auto('tracing', { otlpEndpoint: 'http://collector.monitoring.svc:4318', sampleRate: 0.01 }),
  auto('publisherGroup', 'others', { advice: 'add the publishers to the group' }),
  auto('extraArguments', ['--log-verbose=1']),
  auto('environment', { TZ: 'UTC' }),
];

/** Kinds of resources that clients or replicas need, in the order in which a row names them. */
const SERVED_KINDS = [
  'Cluster',
  'Vpc',
  'NodeGroup',
  'NodePool',
  'Bucket',
  'Namespace',
  'Deployment',
  'Service',
  'Ingress',
] as const;
/** Rows with more kinds than these name groups, and count what is left. */
const NAMED_KINDS = 5;
const GROUPS: readonly (readonly [type: RegExp, name: string])[] = [
  [/^aws:ec2\/(?!vpc:|launchTemplate:)/, 'other parts of the network'],
  [/^aws:s3\/(?!bucket:)/, 'settings of the buckets'],
];

const typeOf = ({ urn }: Step): string => urn.split('::')[2]?.split('$').at(-1) ?? '';
const kindOf = (step: Step): string => typeOf(step).split(':').at(-1) ?? '';
const groupOf = (step: Step): string => GROUPS.find(([type]) => type.test(typeOf(step)))?.[1] ?? kindOf(step);

function names(steps: readonly Step[]): string {
  const all = new Set(steps.map(kindOf));
  const rank = (kind: string): number => (SERVED_KINDS as readonly string[]).indexOf(kind) >>> 0;
  const kinds = [...(all.size > NAMED_KINDS ? new Set(steps.map(groupOf)) : all)].sort(
    (a, b) => rank(a) - rank(b) || (a < b ? -1 : 1),
  );
  const named = kinds.length <= NAMED_KINDS + 1 ? kinds : kinds.slice(0, NAMED_KINDS);
  const more = kinds.length - named.length;
  return `${named.join(', ')}${more === 0 ? '' : ` and ${more} other kinds`}`;
}

/** In words: what is created, updated, replaced in which order, and deleted. */
export function describeSteps(all: readonly Step[]): string {
  // A component is a name for its parts.
  const steps = all.filter((step) => !typeOf(step).startsWith('triton-serving:'));
  const by = (op: string): Step[] => steps.filter((step) => step.op === op);
  const replaced = by('replace').map((step) => {
    const at = (op: string): number => steps.findIndex((other) => other.op === op && other.urn === step.urn);
    return { step, isNewFirst: at('create-replacement') < at('delete-replaced') };
  });
  const parts: readonly [verb: string, steps: Step[], order: string][] = [
    ['creates', by('create'), ''],
    ['updates', by('update'), ''],
    ['replaces', replaced.filter(({ isNewFirst }) => isNewFirst).map(({ step }) => step), ', the new first'],
    ['replaces', replaced.filter(({ isNewFirst }) => !isNewFirst).map(({ step }) => step), ', the old first'],
    ['deletes', by('delete'), ''],
    ['releases', by('discard'), ''],
  ];
  const texts = parts
    .filter(([, found]) => found.length > 0)
    .map(([verb, found, order]) => `${verb} ${names(found)}${order}`);
  return texts.length === 0 ? 'changes no resource' : texts.join('; ');
}

/** Whether the steps replace or delete what clients or replicas need. */
export const isServedReplaced = (steps: readonly Step[]): boolean =>
  steps.some((step) => /delete|replace/.test(step.op) && (SERVED_KINDS as readonly string[]).includes(kindOf(step)));

/** What happens to requests meanwhile. */
export function describeRequests({ setting, requests }: SettingChange, steps: readonly Step[]): string {
  if (requests !== undefined) return requests;
  if (isServedReplaced(steps)) throw new Error(`${setting} replaces or deletes what is served, and has no "requests"`);
  const updates = (kind: string, path: RegExp): boolean =>
    steps.some((step) => kindOf(step) === kind && step.op === 'update' && step.changed.some((name) => path.test(name)));
  const effects = [
    ...(updates('Deployment', /^spec\.template/) ? ['replicas are replaced within `rollout`'] : []),
    ...(updates('NodePool', /^spec\.template/) || updates('NodeClass', /^spec/)
      ? ['nodes that no longer match are replaced within `disruptedNodes`']
      : []),
    ...(updates('NodeGroup', /^(launchTemplate\.)?version/) ? ['the group replaces its nodes one at a time'] : []),
  ];
  return ['served', ...effects].join('; ');
}
