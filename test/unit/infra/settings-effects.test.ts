import type { TritonServerArgs } from '../../../infra/triton/args';
import { TritonServer } from '../../../infra/triton/server';
import {
  LOCAL_VALUES,
  registered,
  registeredStack,
  type RegisteredResource,
  type RegisteredStack,
} from '../../support/registered-stack';
import { ARGS } from '../../support/render';
import { CERTIFICATE, MANAGED_GROUP, PUBLISHER } from '../../support/setting-values';

/**
 * The snapshots have all that the stack staging is made of, and what each setting changes. `npx jest -u` updates them: read
 * the difference as a reviewer reads the output of "pulumi preview".
 */

/** A value with its path takes one line if it fits into it. Longer texts, such as scripts, are tested where they run. */
const WIDTH = 160;

/** Options that Pulumi gets beside the inputs of a resource; the usual values are omitted. */
function getOptions(resource: RegisteredResource): Record<string, unknown> {
  const { protect, ignoreChanges, replaceOnChanges, deleteBeforeReplace, retainOnDelete, deletedWith, timeouts } =
    resource;
  return {
    ...(protect && { protect }),
    ...(ignoreChanges.length > 0 && { ignoreChanges }),
    ...(replaceOnChanges.length > 0 && { replaceOnChanges }),
    ...(deleteBeforeReplace !== undefined && { deleteBeforeReplace }),
    ...(retainOnDelete && { retainOnDelete }),
    ...(deletedWith !== '' && { deletedWith: deletedWith.split('::').slice(-2).join(' ').split(':').at(-1) }),
    ...(Object.values(timeouts).some((time) => time !== '') && { timeouts }),
  };
}

/** Text in JSON, such as a policy, replaced by the value in it. */
function parsed(value: unknown): unknown {
  if (typeof value === 'string' && /^[[{]/.test(value)) return parsed(JSON.parse(value));
  if (Array.isArray(value)) return value.map(parsed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, parsed(inner)]));
}

/** A value as `PATH = VALUE`; a longer one as a line for each part of it, but labels and a list of texts are one line. */
function flatten(path: string, value: unknown): string[] {
  const line = `${path} = ${JSON.stringify(value)}`;
  const isFlat = Array.isArray(value) ? !value.some((one) => typeof one === 'object') : /labels$/i.test(path);
  if (path !== '' && (line.length <= WIDTH || isFlat)) return [line];
  if (typeof value !== 'object' || value === null) return [`${line.slice(0, path.length + 43)}...`];
  return Object.entries(value).flatMap(([key, inner]) =>
    flatten(Array.isArray(value) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`, inner),
  );
}

/** The resources of a program as lines, `KIND NAME: PATH = VALUE`. Components, and the program of the agent, are omitted. */
function getLines(resources: readonly RegisteredResource[]): string[] {
  return resources
    .filter(({ custom }) => custom)
    .flatMap((resource) => {
      const of = `${resource.type.split(':').at(-1)} ${resource.name}: `;
      const options = Object.entries(getOptions(resource)).flatMap(([key, value]) => flatten(`(${key})`, value));
      // The line begins with the kind.
      const inputs = flatten('', parsed(resource.marked)).filter((line) => !/^(binaryData|kind = )/.test(line));
      return [...options, ...inputs].map((line) => `${of}${line}`);
    })
    .sort();
}

const getResource = (line: string): string => line.split(': ')[0] ?? '';

/**
 * What the resources of a program have that those of another one do not have (+), and the other way round (-). A resource
 * that only the other one has takes one line, without its properties.
 */
function getChanges(before: readonly string[], after: readonly string[]): string {
  const left = new Set(after.map(getResource));
  const shown = before.map((line) => (left.has(getResource(line)) ? line : getResource(line)));
  const [old, added] = [new Set(shown), new Set(after)];
  const lines = [
    ...[...old].filter((line) => !added.has(line)).map((line) => ({ line, sign: '-' })),
    ...[...added].filter((line) => !old.has(line)).map((line) => ({ line, sign: '+' })),
  ];
  return lines
    .sort((a, b) => (a.line < b.line ? -1 : a.line > b.line ? 1 : 0))
    .map(({ sign, line }) => `${sign} ${line}`)
    .join('\n');
}

const created = new Map<string, Promise<string[]>>();

/** Creates the resources that several cases compare with only once. */
function once(key: unknown[], create: () => Promise<RegisteredStack>): Promise<string[]> {
  const name = JSON.stringify(key);
  const lines = created.get(name) ?? create().then(({ resources }) => getLines(resources));
  created.set(name, lines);
  return lines;
}

const of = (stack: string, values: object = {}, source = {}): Promise<string[]> =>
  once([stack, values, source], () => registeredStack(stack, { ...values }, source));

const staging = (values: object = {}): Promise<string[]> => of('staging', { ...PUBLISHER, ...values });

test('the stack staging', async () => {
  expect(`\n${(await staging()).join('\n')}\n`).toMatchSnapshot();
});

test('prod, beside staging', async () => {
  // The name of a provider of Kubernetes depends on the name of its cluster.
  const rename = (line: string): string =>
    line.replaceAll(/\bprod\b/g, 'staging').replace(/^kubernetes \S+/, 'kubernetes ID');
  const prod = await of('prod', { ...PUBLISHER, vpcCidr: '10.0.0.0/16' });
  expect(getChanges((await staging()).map(rename), prod.map(rename))).toMatchSnapshot();
});

const POOL = { name: 'a10g', instanceTypes: ['g5.xlarge'] };
const LOAD_BALANCER = { kind: 'internal-load-balancer', clientCidrs: ['203.0.113.0/24'] };
const OWN_INGRESS = { kind: 'ingress', host: 'a.example.com', certificateArn: CERTIFICATE };
const ALB = 'alb.ingress.kubernetes.io';

/** Changes of the stack staging. */
const SETTINGS: Readonly<Record<string, object>> = {
  'a managed node group in place of the pool': { gpuNodePools: [MANAGED_GROUP] },
  'a managed node group with a disk larger than its local storage': {
    gpuNodePools: [{ ...MANAGED_GROUP, diskGiB: 300 }],
  },
  'a managed node group in one zone': { gpuNodePools: [{ ...MANAGED_GROUP, zones: ['us-east-1c'] }] },
  'a pool of machines with several GPUs': { gpuNodePools: [{ ...POOL, instanceTypes: ['g5.12xlarge'] }] },
  'a pool with a disruption block': {
    gpuNodePools: [
      {
        ...POOL,
        disruption: {
          consolidateAfter: 'Never',
          budgets: [{ nodes: '20%' }, { nodes: '0', schedule: '0 6 * * *', duration: '20h', reasons: ['Drifted'] }],
        },
      },
    ],
  },
  'a pool with reserved capacity': {
    gpuNodePools: [
      {
        ...POOL,
        instanceTypes: ['p5.48xlarge'],
        capacityTypes: ['reserved', 'on-demand'],
        capacityReservationIds: ['cr-0a'],
      },
    ],
  },
  'replicas without GPUs': { gpusPerPod: 0 },
  'the first and the last zone of a small network': {
    vpcCidr: '172.16.16.0/20',
    availabilityZones: ['us-east-1a', 'us-east-1g'],
  },
  'an existing network': { privateSubnetIds: ['subnet-0a', 'subnet-0b'] },
  'a public API': { publicAccessCidrs: ['203.0.113.0/24'] },
  'viewers of the cluster': { clusterViewers: ['arn:aws:iam::123456789012:role/ci-triton-staging-drift'] },
  'administrators of the same last name': {
    clusterAdmins: ['arn:aws:iam::123456789012:role/ops', 'arn:aws:iam::123456789012:user/ops'],
  },
  'an issuer of GitLab': { publisherIssuer: 'https://gitlab.example.com' },
  'readers of the bucket': { bucketReaders: ['arn:aws:iam::444455556666:role/deploy-prod'] },
  'a pruner': { prunerSubjects: ['repo:acme/serving:environment:prune'] },
  'a load balancer': { exposure: LOAD_BALANCER },
  'a load balancer elsewhere': { exposure: { ...LOAD_BALANCER, controllerCidrs: ['10.9.0.0/24'] } },
  'a load balancer of another class': { exposure: { ...LOAD_BALANCER, loadBalancerClass: 'service.k8s.aws/nlb' } },
  'an ingress': { exposure: OWN_INGRESS },
  'an ingress on the internet': {
    exposure: {
      ...OWN_INGRESS,
      scheme: 'internet-facing',
      clientCidrs: ['192.0.2.0/24', '198.51.100.0/24'],
      annotations: { [`${ALB}/auth-type`]: 'oidc', [`${ALB}/healthcheck-path`]: '/v2/health/live' },
    },
  },
  'an ingress of a given class': { exposure: { ...OWN_INGRESS, className: 'serving' } },
  'an ingress of another controller': {
    exposure: {
      ...OWN_INGRESS,
      className: 'traefik',
      certificateArn: undefined,
      tlsSecretName: 'triton-tls',
      annotations: { 'traefik.ingress.kubernetes.io/router.middlewares': 'auth@crd' },
    },
  },
};

/** Cases whose snapshot has the difference to another case, because the difference to the usual values repeats most of it. */
const BESIDE: Readonly<Record<string, string>> = {
  'a managed node group with a disk larger than its local storage': 'a managed node group in place of the pool',
  'a managed node group in one zone': 'a managed node group in place of the pool',
  'a load balancer elsewhere': 'a load balancer',
  'an ingress on the internet': 'an ingress',
  'a load balancer of another class': 'a load balancer',
  'an ingress of a given class': 'an ingress',
  'an ingress of another controller': 'an ingress',
  'a collector in the cluster, by its whole name': 'a collector in the cluster',
  'a collector elsewhere': 'a collector in the cluster',
  'a collector at an address': 'a collector in the cluster',
  'autoscaling with other goals': 'autoscaling',
};

test.each(Object.entries(SETTINGS))('staging with %s', async (name, values) => {
  const beside = SETTINGS[BESIDE[name] ?? ''];
  expect(getChanges(await staging(beside), await staging(values))).toMatchSnapshot();
});

test('staging without tags', async () => {
  expect(getChanges(await staging(), await of('staging', PUBLISHER, { tags: {} }))).toMatchSnapshot();
});

const OIDC = 'arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/X';

/** Changes of the stack local. */
const ON_LOCAL: Readonly<Record<string, object>> = {
  'a pool of its Karpenter': {
    ...LOCAL_VALUES,
    gpusPerPod: 1,
    gpuNodePools: [{ ...POOL, nodeClass: { group: 'karpenter.kwok.sh', kind: 'KWOKNodeClass', name: 'default' } }],
  },
  'a bucket of AWS, on EKS': {
    existingCluster: { ...LOCAL_VALUES.existingCluster, oidcProviderArn: OIDC },
    modelRepository: 's3://models-bucket/models/',
  },
};

const IN_EUROPE = { region: 'eu-west-1' };

test.each(Object.entries(ON_LOCAL))('local with %s', async (_, values) => {
  expect(
    getChanges(await of('local', LOCAL_VALUES, IN_EUROPE), await of('local', values, IN_EUROPE)),
  ).toMatchSnapshot();
});

const traced = (otlpEndpoint: string, sampleRate?: number): Partial<TritonServerArgs> => ({
  tracing: { otlpEndpoint, sampleRate },
  egressCidrs: ['10.0.0.0/8'],
});

/** Changes of a server. */
const ARGUMENTS: Readonly<Record<string, Partial<TritonServerArgs>>> = {
  'an existing namespace': { namespace: { name: 'shared', create: false } },
  'client namespaces': { clientNamespaces: ['web', 'batch'] },
  'an endpoint and keys': {
    endpointUrl: 'http://minio.storage.svc:9000',
    credentials: { accessKeyId: 'id', secretAccessKey: 'key' },
  },
  'an endpoint with TLS': { endpointUrl: 'https://s3.example.com' },
  'egress to some ranges': { egressCidrs: ['10.0.0.0/8', '52.0.0.0/8'] },
  'egress to ranges with link-local addresses': { egressCidrs: ['0.0.0.0/0', '128.0.0.0/1', '168.0.0.0/5'] },
  'a collector in the cluster': traced('http://collector.monitoring.svc:4318/'),
  'a collector in the cluster, by its whole name': traced('http://collector.monitoring.svc.cluster.local:4318/otlp', 1),
  'a collector elsewhere': traced('https://otlp.example.com/otlp', 0.3),
  'a collector at an address': traced('http://10.0.0.9:4318', 1e-12),
  autoscaling: { autoscaling: { minReplicas: 2, maxReplicas: 8 } },
  'autoscaling with other goals': {
    autoscaling: {
      minReplicas: 1,
      maxReplicas: 3,
      queueMilliseconds: 200,
      instancesPerReplica: 4,
      prometheusUrl: 'http://prometheus.monitoring.svc:80',
    },
    replicas: 5,
  },
  resources: { gpusPerPod: 4, resources: { cpu: 7.5, memoryGiB: 60, sharedMemoryGiB: 8, scratchGiB: 200 } },
  'the longest drain': { drainSeconds: 3600 },
  'a longer start': { startSeconds: 2000 },
  'several replicas that are replaced at once': { replicas: 6, rollout: { maxUnavailable: 3 } },
  'a surge': { rollout: { maxSurge: 1, maxUnavailable: 0 } },
  'no replicas': { replicas: 0 },
  'fields of the pod': {
    pod: {
      nodeSelector: { 'triton-serving/pool': 'a10g' },
      tolerations: [
        { key: 'pool', value: 'a10g', effect: 'NoSchedule' },
        { key: 'spot' },
        { key: 'any', operator: 'Exists', effect: 'NoExecute' },
      ],
      runtimeClassName: 'nvidia',
      priorityClassName: 'serving',
      imagePullSecrets: ['registry'],
    },
  },
  images: { image: `triton@sha256:${'0'.repeat(64)}`, agent: { image: 'registry.example/node:24.1.0' } },
  'arguments and variables': {
    extraArguments: ['--log-verbose=1'],
    environment: { NVIDIA_TF32_OVERRIDE: '0', OMP_WAIT_POLICY: 'ACTIVE', NO_PROXY: '10.0.0.0/8' },
    secretEnvironment: { HTTPS_PROXY: 'http://user:password@proxy:3128', HF_TOKEN: 'token' },
  },
};

const server = (more: Partial<TritonServerArgs> = {}): Promise<string[]> =>
  once([more], () => registered(() => new TritonServer('triton', { ...ARGS, ...more }), 'test'));

test.each(Object.entries(ARGUMENTS))('TritonServer with %s', async (name, args) => {
  const beside = ARGUMENTS[BESIDE[name] ?? ''];
  expect(getChanges(await server(beside), await server(args))).toMatchSnapshot();
});
