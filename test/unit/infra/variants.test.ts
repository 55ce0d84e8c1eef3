import { load } from 'js-yaml';
import { ACCOUNT, LOCAL_S3, LOCAL_VALUES, registeredStack } from '../../support/registered-stack';
import { MANAGED_GROUP } from '../../support/setting-values';

/** Names of the resources that the first one waits for. */
const getDependencies = ({ dependencies }: { dependencies: string[] }): (string | undefined)[] =>
  dependencies.map((urn) => urn.split('::').at(-1));

test('a taint of two pools gives the replicas one toleration, so another such pool replaces no replica', async () => {
  const tolerations = async (...names: string[]): Promise<unknown> => {
    const pools = names.map((name) => ({ ...MANAGED_GROUP, name }));
    const { inputs } = (await registeredStack('staging', { gpuNodePools: pools })).only(
      'kubernetes:apps/v1:Deployment',
    );
    return (inputs as { spec: { template: { spec: { tolerations: object[] } } } }).spec.template.spec.tolerations;
  };
  expect(await tolerations('fixed', 'second')).toEqual(await tolerations('fixed'));
});

describe('a managed node group', () => {
  const create = () => registeredStack('staging', { gpuNodePools: [MANAGED_GROUP] });

  test('starts nodes with local storage for images', async () => {
    const made = await create();
    const { inputs } = made.only('LaunchTemplate', 'gpu-fixed');
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

  test('creates the add-ons that Auto Mode provides for its own nodes only, and a device plugin', async () => {
    const made = await create();
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
    const made = await registeredStack('staging', { gpuNodePools: [POOL], ...values });
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

test('administrators are admitted until everything in the cluster is deleted', async () => {
  const made = await registeredStack('staging', { clusterAdmins: ['arn:aws:iam::123456789012:role/ops'] });
  const [association] = made
    .all('aws:eks/accessPolicyAssociation:AccessPolicyAssociation')
    .filter(({ name }) => name.includes('admin-ops'));
  for (const component of ['index:TritonServer', 'infra:GpuNodes']) {
    expect(made.only(`triton-serving:${component}`).dependencies).toContain(association?.urn);
  }
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
  expect(made.only('Secret', 'triton-environment').marked['stringData']).toEqual({
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

test.each(['staging', 'prod'])('the example subject of %s creates neither a provider nor a role', async (stack) => {
  const made = await registeredStack(stack);
  expect(made.all('OpenIdConnectProvider').map(({ name }) => name)).toEqual(['cluster-pods']);
  expect(made.all('PublisherRole')).toEqual([]);
  expect(made.outputs).not.toHaveProperty('publisherRoleArn');
});

test('the stack local needs no AWS resources, and keeps keys and kubeconfig secret in all inputs', async () => {
  const made = await registeredStack('local', LOCAL_VALUES);
  expect(made.resources.filter(({ type }) => type.startsWith('aws:'))).toEqual([]);
  expect(made.outputs).toMatchObject({
    modelRepository: 's3://local/models',
    region: 'us-east-1',
    endpointUrl: LOCAL_S3.endpoint,
    kubeconfig: { secret: expect.stringContaining('secret-token') as string },
  });
  expect(made.outputs).not.toHaveProperty('publisherRoleArn');
  const shown = JSON.stringify(made.resources.map(({ marked }) => withoutSecrets(marked)));
  expect(shown).not.toContain('hidden-key');
  expect(shown).not.toContain('secret-token');
  expect(JSON.stringify(made.resources)).toContain('secret-token');
});

/** A copy without the values that are marked as secret. */
function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value !== 'object' || value === null) return value;
  if (Object.keys(value).join() === 'secret') return 'secret';
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutSecrets(one)]));
}
