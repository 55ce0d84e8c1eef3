import { load } from 'js-yaml';
import { getIssuer } from '../../../infra/cluster/cluster';
import { findIdentityProvider } from '../../../infra/iam/identity-provider';
import { PUBLISHER } from '../../support/publisher-settings';
import {
  ACCOUNT,
  LOCAL_S3,
  MISSING_ISSUER,
  registeredStack,
  type RegisteredStack,
} from '../../support/registered-stack';

const variant = (values: Record<string, unknown>, stack = 'staging'): Promise<RegisteredStack> =>
  registeredStack(stack, values);

const KUBECONFIG = JSON.stringify({
  'current-context': 'kind-kind',
  contexts: [{ name: 'kind-kind', context: { cluster: 'kind', user: 'me' } }],
  clusters: [{ name: 'kind', cluster: { server: 'https://127.0.0.1:6443' } }],
  users: [{ name: 'me', user: { token: 'secret-token' } }],
});

/** Names of the resources that the first one waits for. */
const getDependencies = ({ dependencies }: { dependencies: string[] }): (string | undefined)[] =>
  dependencies.map((urn) => urn.split('::').at(-1));

const GROUP = {
  name: 'fixed',
  instanceTypes: ['g5.xlarge'],
  capacityTypes: ['on-demand'],
  nodes: 2,
  labels: { team: 'vision' },
  taints: [{ key: 'team', value: 'vision', effect: 'NoExecute' }],
};

test('a taint of two pools gives the replicas one toleration, so another such pool replaces no replica', async () => {
  const tolerations = async (...names: string[]): Promise<unknown> => {
    const pools = names.map((name) => ({ ...GROUP, name }));
    const { inputs } = (await variant({ gpuNodePools: pools })).only('kubernetes:apps/v1:Deployment');
    return (inputs as { spec: { template: { spec: { tolerations: object[] } } } }).spec.template.spec.tolerations;
  };
  expect(await tolerations('fixed', 'second')).toEqual(await tolerations('fixed'));
});

describe('a managed node group', () => {
  let made: RegisteredStack;
  beforeAll(async () => {
    made = await variant({ gpuNodePools: [GROUP] });
  });

  test('has a fixed size and no fixed name, labels and taints', () => {
    const group = made.only('aws:eks/nodeGroup:NodeGroup', 'gpu-fixed');
    expect(group.inputs).toEqual({
      clusterName: 'triton-staging',
      nodeRoleArn: `arn:aws:iam::${ACCOUNT}:role/gpu-groups-a1b2c3d`,
      version: '1.36',
      subnetIds: ['a', 'b', 'c'].map((zone) => `network-private-us-east-1${zone}-id`),
      amiType: 'AL2023_x86_64_NVIDIA',
      capacityType: 'ON_DEMAND',
      instanceTypes: ['g5.xlarge'],
      launchTemplate: { id: 'lt-gpu-fixed', version: '1' },
      scalingConfig: { minSize: 2, maxSize: 2, desiredSize: 2 },
      updateConfig: { maxUnavailable: 1 },
      nodeRepairConfig: { enabled: true },
      labels: { team: 'vision', 'triton-serving/gpu': 'true', 'triton-serving/gpu-pool': 'fixed' },
      taints: [
        { key: 'nvidia.com/gpu', value: 'true', effect: 'NO_SCHEDULE' },
        { key: 'team', value: 'vision', effect: 'NO_EXECUTE' },
      ],
    });
    expect(group.deleteBeforeReplace).toBeUndefined();
  });

  test('sets IMDSv2 with one hop, an encrypted disk, and local storage for images', () => {
    const { inputs } = made.only('aws:ec2/launchTemplate:LaunchTemplate', 'gpu-fixed');
    expect(inputs).toMatchObject({
      metadataOptions: { httpEndpoint: 'enabled', httpTokens: 'required', httpPutResponseHopLimit: 1 },
      blockDeviceMappings: [
        {
          deviceName: '/dev/xvda',
          ebs: { volumeSize: 40, volumeType: 'gp3', encrypted: 'true', deleteOnTermination: 'true' },
        },
      ],
    });
    const [head = '', part = '', ...rest] = Buffer.from(inputs['userData'] as string, 'base64')
      .toString()
      .split(/^--\/\/(?:--)?\n/m);
    expect(head).toBe('MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n');
    expect(rest).toEqual(['']);
    const [type, ...config] = part.split('\n');
    expect(type).toBe('Content-Type: application/node.eks.aws');
    expect(load(config.join('\n'))).toEqual({
      apiVersion: 'node.eks.aws/v1alpha1',
      kind: 'NodeConfig',
      spec: { featureGates: { FastImagePull: true }, instance: { localStorage: { strategy: 'RAID0' } } },
    });
  });

  test('has images on a fast EBS volume if that is larger than the local storage', async () => {
    const { inputs } = (await variant({ gpuNodePools: [{ ...GROUP, diskGiB: 300 }] })).only(
      'aws:ec2/launchTemplate:LaunchTemplate',
    );
    expect(inputs['blockDeviceMappings']).toMatchObject([{ ebs: { volumeSize: 300, throughput: 600, iops: 3000 } }]);
    expect(inputs['userData']).toBeUndefined();
  });

  test('creates the add-ons that Auto Mode provides for its own nodes only, and a device plugin', () => {
    const addons = made.all('aws:eks/addon:Addon').map(({ inputs }) => inputs['addonName']);
    expect(addons.sort()).toEqual(['coredns', 'kube-proxy', 'vpc-cni']);
    // A node becomes ready only with a network, and the add-on creates the ConfigMap that is patched.
    const network = ['gpu-vpc-cni', 'gpu-kube-proxy'];
    const group = made.only('aws:eks/nodeGroup:NodeGroup', 'gpu-fixed');
    expect(getDependencies(group)).toEqual(expect.arrayContaining(network));
    const patch = made.only('kubernetes:core/v1:ConfigMapPatch', 'gpu-network-policies');
    expect(getDependencies(patch)).toEqual(expect.arrayContaining(network));
    const replicas = made.only('triton-serving:index:TritonServer');
    expect(getDependencies(replicas)).toEqual(expect.arrayContaining(['gpu-fixed', 'gpu-coredns']));
    const { inputs } = made.only('kubernetes:apps/v1:DaemonSet');
    const affinity = JSON.stringify(inputs);
    expect(affinity).toContain('"key":"triton-serving/gpu-pool","operator":"In","values":["fixed"]');
    expect(affinity).toContain('nvcr.io/nvidia/k8s-device-plugin:v');
    // Other pods with a host path are refused outside of kube-system.
    expect(inputs['metadata']).toMatchObject({ namespace: 'kube-system' });
  });

  test('adds tolerations for its taints to the replicas', () => {
    const deployment = made.only('kubernetes:apps/v1:Deployment').inputs as {
      spec: { template: { spec: { tolerations: object[] } } };
    };
    expect(deployment.spec.template.spec.tolerations).toContainEqual({
      key: 'team',
      operator: 'Equal',
      value: 'vision',
      effect: 'NoExecute',
    });
  });
});

describe('a node of Karpenter may drain until all replicas are replaced', () => {
  const KEDA = { minReplicas: 1 };
  const POOL = { name: 'a10g', instanceTypes: ['g5.xlarge'], maximumGpus: 1000 };

  // A replica takes 1120 s by default.
  test.each([
    ['two replicas', {}, 4, 336],
    ['12 replicas, which need 13440 s', { replicas: 12 }, 4, 336],
    ['13 replicas of an autoscaler', { autoscaling: { ...KEDA, maxReplicas: 13 } }, 8, 336],
    ['12 replicas, 4 at once', { autoscaling: { ...KEDA, maxReplicas: 12 }, rollout: { maxUnavailable: 4 } }, 4, 336],
    ['replicas that take an hour to drain', { replicas: 4, drainSeconds: 3600 }, 8, 336],
    [
      'a node that lives as long as Auto Mode allows',
      { gpuNodePools: [{ ...POOL, disruption: { expireAfter: '504h' } }] },
      4,
      500,
    ],
    ['replicas that take longer than a node lives', { replicas: 1000, startSeconds: 86_400 }, 252, 252],
  ])('%s', async (_, values, hours, expireAfter) => {
    const made = await variant({ gpuNodePools: [POOL], ...values });
    const pool = made.only('kubernetes:karpenter.sh/v1:NodePool');
    expect((pool.inputs['spec'] as { template: { spec: object } }).template.spec).toMatchObject({
      terminationGracePeriod: `${hours}h`,
      expireAfter: `${expireAfter}h`,
    });
    const timeout = `${hours * 60 + 15}m`;
    expect(pool.timeouts.delete).toBe(timeout);
    expect(made.only('kubernetes:eks.amazonaws.com/v1:NodeClass').timeouts.delete).toBe(timeout);
  });
});

test('Karpenter fills pools in the order of the stack file', async () => {
  const pools = ['reserved', 'floor', 'burst'].map((name) => ({ name, instanceTypes: ['g5.xlarge'] }));
  const made = await variant({ gpuNodePools: pools });
  expect(
    made
      .all('kubernetes:karpenter.sh/v1:NodePool')
      .map(({ name, inputs }) => [name, (inputs['spec'] as { weight?: number }).weight]),
  ).toEqual([
    ['gpu-reserved', 2],
    ['gpu-floor', 1],
    ['gpu-burst', undefined],
  ]);
});

test.each([
  ['prefer different nodes', 'g5.xlarge', true],
  ['share nodes with GPUs for several', 'g5.12xlarge', false],
])('the replicas %s', async (_, type, isSpread) => {
  const made = await variant({ gpuNodePools: [{ name: 'a10g', instanceTypes: [type] }] });
  const { spec } = made.only('kubernetes:apps/v1:Deployment').inputs as { spec: { template: { spec: object } } };
  expect('affinity' in spec.template.spec).toBe(isSpread);
});

test('a disruption block replaces the defaults of the NodePool', async () => {
  const disruption = {
    consolidateAfter: 'Never',
    budgets: [{ nodes: '20%' }, { nodes: '0', schedule: '0 6 * * *', duration: '20h', reasons: ['Drifted'] }],
  };
  const made = await variant({ gpuNodePools: [{ name: 'a10g', instanceTypes: ['g5.xlarge'], disruption }] });
  expect(made.only('kubernetes:karpenter.sh/v1:NodePool').inputs['spec']).toMatchObject({
    disruption: { consolidationPolicy: 'WhenEmpty', ...disruption },
  });
});

test('a pool with zones uses the subnets of these zones', async () => {
  const made = await variant({ gpuNodePools: [{ ...GROUP, zones: ['us-east-1c'] }] });
  expect(made.only('aws:eks/nodeGroup:NodeGroup').inputs['subnetIds']).toEqual(['network-private-us-east-1c-id']);
});

test('nodes of managed groups have the tags of the stack', async () => {
  const made = await variant({ gpuNodePools: [GROUP] });
  const tags = Object.fromEntries(
    made.all('aws:ec2/launchTemplate:LaunchTemplate').map(({ name, inputs }) => [name, inputs['tagSpecifications']]),
  );
  const own = { project: 'triton-serving', stack: 'staging' };
  const of = (all: object) => ['instance', 'volume'].map((resourceType) => ({ resourceType, tags: all }));
  const group = `gpu-${GROUP.name}`;
  expect(tags).toEqual({
    [group]: of({ ...own, 'triton-serving/gpu-pool': GROUP.name, Name: `triton-staging-${group}` }),
  });
});

test('a stack without tags neither sets tags nor allows Auto Mode to set them', async () => {
  const made = await registeredStack('staging', {}, { tags: {} });
  const policies = made.all('aws:iam/rolePolicy:RolePolicy').map(({ name }) => name);
  expect(policies.filter((name) => name.endsWith('-tags'))).toEqual([]);
  expect(made.only('kubernetes:eks.amazonaws.com/v1:NodeClass').inputs['spec']).not.toHaveProperty('tags');
});

test.each<[string, string, Record<string, unknown>, string | undefined]>([
  ['a cluster of the stack', 'staging', {}, 'project=a,team=b'],
  [
    'an existing cluster, whose role may not set tags',
    'local',
    { existingCluster: { kubeconfig: KUBECONFIG }, s3: LOCAL_S3 },
    undefined,
  ],
])('the tags of a load balancer in %s', async (_, stack, values, tags) => {
  const kind = 'internal-load-balancer';
  const exposure = { kind, controllerCidrs: ['10.9.0.0/24'], clientCidrs: ['203.0.113.0/24'] };
  const config = { exposure, ...values };
  const made = await registeredStack(stack, config, { tags: { project: 'a', team: 'b' } });
  const { metadata } = made.only('kubernetes:core/v1:Service', 'triton-internal').inputs as {
    metadata: { annotations: Record<string, string> };
  };
  expect(metadata.annotations['service.beta.kubernetes.io/aws-load-balancer-additional-resource-tags']).toBe(tags);
});

test('a pool with reserved capacity selects its reservation', async () => {
  const pool = {
    name: 'h100',
    instanceTypes: ['p5.48xlarge'],
    capacityTypes: ['reserved', 'on-demand'],
    capacityReservationIds: ['cr-0a'],
  };
  const made = await variant({ gpuNodePools: [pool] });
  expect(made.only('kubernetes:eks.amazonaws.com/v1:NodeClass').inputs['spec']).toMatchObject({
    capacityReservationSelectorTerms: [{ id: 'cr-0a' }],
  });
});

test('a zone that is removed from the middle of the list changes no other subnet', async () => {
  const subnets = async (letters: string): Promise<Record<string, unknown>> => {
    const made = await variant({ availabilityZones: Array.from(letters, (letter) => `us-east-1${letter}`) });
    return Object.fromEntries(made.all('aws:ec2/subnet:Subnet').map(({ name, inputs }) => [name, inputs['cidrBlock']]));
  };
  const [all, fewer] = [await subnets('abc'), await subnets('ac')];
  expect(Object.keys(fewer)).toHaveLength(4);
  expect(all).toMatchObject(fewer);
});

test('privateSubnetIds creates no network resources', async () => {
  const made = await variant({ privateSubnetIds: ['subnet-0a', 'subnet-0b'] });
  expect(made.resources.filter(({ type }) => type.startsWith('aws:ec2/'))).toEqual([]);
  expect(made.only('aws:eks/cluster:Cluster').inputs['vpcConfig']).toMatchObject({
    subnetIds: ['subnet-0a', 'subnet-0b'],
  });
});

test('publicAccessCidrs opens the API to the listed addresses', async () => {
  const made = await variant({ publicAccessCidrs: ['203.0.113.0/24'] });
  expect(made.only('aws:eks/cluster:Cluster').inputs['vpcConfig']).toEqual({
    subnetIds: expect.any(Array) as unknown,
    endpointPrivateAccess: true,
    endpointPublicAccess: true,
    publicAccessCidrs: ['203.0.113.0/24'],
  });
});

describe('without exposure.controllerCidrs, the replicas admit the subnets of the load balancer', () => {
  const availabilityZones = ['us-east-1a', 'us-east-1b'];
  const PRIVATE = ['10.0.0.0/19', '10.0.32.0/19'];
  const PUBLIC = ['10.0.224.0/22', '10.0.228.0/22'];
  const clientCidrs = ['203.0.113.0/24'];
  const certificateArn = 'arn:aws:acm:us-east-1:1:certificate/1';
  const ingress = { kind: 'ingress', host: 'a.example.com', certificateArn, clientCidrs };
  const annotations = { 'alb.ingress.kubernetes.io/auth-type': 'oidc' };
  const own = { ...ingress, clientCidrs: [], certificateArn: '', tlsSecretName: 'tls', className: 'nginx' };
  const scheme = 'internet-facing';

  test.each<[string, Record<string, unknown>, string[]]>([
    ['an internal load balancer', { kind: 'internal-load-balancer', clientCidrs }, [...clientCidrs, ...PRIVATE]],
    ['an internal ingress', ingress, PRIVATE],
    ['an ingress on the internet', { ...ingress, annotations, scheme }, PUBLIC],
    ['an ingress controller in the cluster', { ...own, annotations, scheme }, PRIVATE],
    ['a load balancer elsewhere', { ...ingress, controllerCidrs: ['10.9.0.0/24'] }, ['10.9.0.0/24']],
  ])('%s', async (_, exposure, ranges) => {
    const made = await variant({ availabilityZones, exposure });
    const { spec } = made.only('kubernetes:networking.k8s.io/v1:NetworkPolicy', 'triton').inputs as {
      spec: { ingress: { from: { ipBlock?: { cidr: string } }[] }[] };
    };
    const blocks = spec.ingress.flatMap(({ from }) => from.flatMap(({ ipBlock }) => ipBlock?.cidr ?? []));
    expect(blocks).toEqual(ranges);
  });
});

test('clusterViewers creates access entries that allow to read all objects, and nothing else', async () => {
  const drift = 'arn:aws:iam::123456789012:role/ci-triton-staging-drift';
  const made = await variant({ clusterViewers: [drift] });
  const ofDrift = (type: string) => made.all(type).filter(({ inputs }) => inputs['principalArn'] === drift);
  expect(ofDrift('aws:eks/accessEntry:AccessEntry')).toHaveLength(1);
  expect(ofDrift('aws:eks/accessPolicyAssociation:AccessPolicyAssociation').map(({ inputs }) => inputs)).toMatchObject([
    { policyArn: 'arn:aws:eks::aws:cluster-access-policy/AmazonEKSAdminViewPolicy', accessScope: { type: 'cluster' } },
  ]);
});

test('clusterAdmins creates access entries, also for two administrators of the same last name', async () => {
  const admins = ['role/ops', 'user/ops'].map((end) => `arn:aws:iam::123456789012:${end}`);
  const made = await variant({ clusterAdmins: admins });
  const associations = made
    .all('aws:eks/accessPolicyAssociation:AccessPolicyAssociation')
    .filter(({ name }) => name.includes('admin-ops'))
    .sort((a, b) => (String(a.inputs['principalArn']) < String(b.inputs['principalArn']) ? -1 : 1));
  expect(associations.map(({ inputs }) => inputs)).toMatchObject(
    admins.map((principalArn) => ({
      principalArn,
      policyArn: 'arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy',
    })),
  );
  expect(new Set(associations.map(({ name }) => name)).size).toBe(2);
  // An administrator is admitted until everything in the cluster is deleted.
  for (const component of ['index:TritonServer', 'infra:GpuNodes']) {
    const { dependencies } = made.only(`triton-serving:${component}`);
    expect(dependencies).toEqual(expect.arrayContaining(associations.map(({ urn }) => urn)));
  }
});

test.each([[[]], [[{ oidcs: [] }]]])('getIssuer throws if AWS answers %j', (identities) => {
  expect(() => getIssuer('triton-prod', identities)).toThrow(
    'AWS names no OpenID Connect issuer for the cluster triton-prod',
  );
});

test('the Kubernetes provider signs in with the profile and role of the AWS provider, publishers with their own', async () => {
  const roleArn = `arn:aws:iam::${ACCOUNT}:role/deploy`;
  const made = await registeredStack('staging', {}, { identity: { profile: 'ops', assumeRoles: [{ roleArn }] } });
  const signIn = (kubeconfig: unknown): string[] =>
    (JSON.parse(kubeconfig as string) as { users: [{ user: { exec: { args: string[] } } }] }).users[0].user.exec.args;
  const own = ['eks', 'get-token', '--cluster-name', 'triton-staging', '--region', 'us-east-1', '--output', 'json'];
  const provider = made.only('pulumi:providers:kubernetes').inputs['kubeconfig'];
  expect(signIn(provider)).toEqual([...own, '--profile', 'ops', '--role-arn', roleArn]);
  expect(signIn((made.outputs['kubeconfig'] as { secret: unknown }).secret)).toEqual(own);
});

test('an encrypted environment is kept in a Secret, and no other resource contains its values', async () => {
  const environment = { HF_TOKEN: 'hidden-token', HF_HOME: '/tmp' };
  const made = await registeredStack('staging', { environment }, { encrypted: new Set(['environment']) });
  expect(made.only('kubernetes:core/v1:Secret', 'triton-environment').marked['stringData']).toEqual({
    secret: environment,
  });
  expect(JSON.stringify(made.resources.map(({ marked }) => marked)).match(/hidden-token/g)).toHaveLength(1);
  const { spec } = made.only('kubernetes:apps/v1:Deployment').inputs as {
    spec: { template: { spec: { containers: [{ env: object[] }] } } };
  };
  expect(spec.template.spec.containers[0].env).toContainEqual({
    name: 'HF_TOKEN',
    valueFrom: { secretKeyRef: { name: 'triton-environment-a1b2c3d', key: 'HF_TOKEN' } },
  });
});

describe('the provider of publisherIssuer', () => {
  const PROVIDER = 'aws:iam/openIdConnectProvider:OpenIdConnectProvider';
  const { publisherSubjects } = PUBLISHER;
  const providers = (made: RegisteredStack): string[] => made.all(PROVIDER).map(({ name }) => name);
  const trust = (made: RegisteredStack): unknown => made.only('aws:iam/role:Role', 'publisher').inputs;

  test.each(['staging', 'prod'])('is not created for the example subject of %s, nor is the role', async (stack) => {
    const made = await variant({}, stack);
    expect(providers(made)).toEqual(['cluster-pods']);
    expect(made.all('triton-serving:infra:PublisherRole')).toEqual([]);
    expect(made.outputs).not.toHaveProperty('publisherRoleArn');
  });

  test('is looked up in the account', async () => {
    const made = await variant({ publisherSubjects, publisherIssuer: 'https://gitlab.example.com' });
    expect(providers(made)).toEqual(['cluster-pods']);
    expect(JSON.stringify(trust(made))).toContain(`arn:aws:iam::${ACCOUNT}:oidc-provider/gitlab.example.com`);
  });

  test('findIdentityProvider reports an account without it, with the hint of its caller', async () => {
    await variant({});
    await expect(findIdentityProvider(MISSING_ISSUER, 'Set it.')).rejects.toThrow(
      /^cannot find the IAM provider of https:\/\/missing\.example\.com in this account: .*\. Set it\.$/s,
    );
  });
});

test('replicas without GPUs are not scheduled onto GPU nodes', async () => {
  const made = await variant({ gpusPerPod: 0 });
  expect(JSON.stringify(made.only('kubernetes:apps/v1:Deployment').inputs)).not.toContain('triton-serving/gpu');
});

describe('an existing cluster', () => {
  const local = { existingCluster: { kubeconfig: KUBECONFIG }, s3: LOCAL_S3 };

  test('needs no AWS resources for the stack local', async () => {
    const made = await variant(local, 'local');
    expect(made.resources.filter(({ type }) => type.startsWith('aws:'))).toEqual([]);
    expect(made.outputs).toMatchObject({
      modelRepository: 's3://local/models',
      region: 'us-east-1',
      endpointUrl: LOCAL_S3.endpoint,
      kubeconfig: { secret: expect.stringContaining('secret-token') as string },
    });
    expect(made.outputs).not.toHaveProperty('publisherRoleArn');
  });

  test('keeps keys and kubeconfig secret in all inputs', async () => {
    const made = await variant(local, 'local');
    const shown = JSON.stringify(made.resources.map(({ marked }) => withoutSecrets(marked)));
    expect(shown).not.toContain('hidden-key');
    expect(shown).not.toContain('secret-token');
    expect(JSON.stringify(made.resources)).toContain('secret-token');
  });

  test('gets a NodePool for its Karpenter', async () => {
    const nodeClass = { group: 'karpenter.kwok.sh', kind: 'KWOKNodeClass', name: 'default' };
    const pool = { name: 'gpu', instanceTypes: ['g5.xlarge'], nodeClass };
    const made = await variant({ ...local, gpuNodePools: [pool], gpusPerPod: 1 }, 'local');
    expect(made.only('kubernetes:karpenter.sh/v1:NodePool').inputs).toMatchObject({
      spec: { template: { spec: { nodeClassRef: nodeClass } } },
    });
    expect(made.resources.filter(({ type }) => type.startsWith('aws:'))).toEqual([]);
    expect(made.only('kubernetes:apps/v1:Deployment').inputs).toMatchObject({
      spec: { template: { spec: { nodeSelector: { 'triton-serving/gpu': 'true' } } } },
    });
  });

  test('gives the pods on EKS a role that reads an existing bucket', async () => {
    const oidcProviderArn = 'arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/X';
    const existingCluster = { kubeconfig: KUBECONFIG, oidcProviderArn };
    const values = { existingCluster, modelRepository: 's3://models-bucket/models/' };
    const made = await registeredStack('local', values, { region: 'eu-west-1' });
    const aws = made.resources.filter(({ type }) => type.startsWith('aws:')).map(({ type }) => type.split(':').at(-1));
    expect(aws.sort()).toEqual(['Role', 'RolePolicy']);
    expect(JSON.stringify(made.only('aws:iam/rolePolicy:RolePolicy').inputs)).toContain(
      'arn:aws:s3:::models-bucket/models.releases/*',
    );
    expect(made.outputs['modelRepository']).toBe('s3://models-bucket/models');
  });
});

/** A copy without the values that are marked as secret. */
function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value !== 'object' || value === null) return value;
  if (Object.keys(value).join() === 'secret') return 'secret';
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutSecrets(one)]));
}
