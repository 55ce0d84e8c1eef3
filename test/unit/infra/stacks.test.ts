import { formatTable } from '../../../src/core/format';
import { STACK_OUTPUTS } from '../../../src/cluster/stack-outputs';
import {
  ACCOUNT,
  registeredStack,
  type RegisteredResource,
  type RegisteredStack,
} from '../../support/registered-stack';
import { PUBLISHER } from '../../support/publisher-settings';

const roleArn = (name: string): string => `arn:aws:iam::${ACCOUNT}:role/${name}-a1b2c3d`;

/** A policy or another document in JSON. */
const json = (text: unknown): unknown => JSON.parse(text as string);

/** What tells one resource from the others: its plain inputs, shortened. */
function essence({ inputs, protect, ignoreChanges }: RegisteredResource): string {
  const shown = Object.entries({ ...inputs, ...(inputs['metadata'] as object | undefined) })
    .filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && !String(value).startsWith('{'))
    .map(([key, value]) => `${key}=${String(value)}`.slice(0, 50))
    .sort();
  return [...(protect ? ['PROTECTED'] : []), ...ignoreChanges.map((path) => `ignores ${path}`), ...shown].join(' ');
}

/** One row for each resource, below the one that it belongs to. */
function table(resources: readonly RegisteredResource[]): string {
  const below = (parent: RegisteredResource | undefined, depth: number): string[][] =>
    resources
      .filter((one) => one !== parent && one.type !== 'pulumi:pulumi:Stack')
      .filter((one) => one.parent === (parent?.urn ?? ''))
      .sort((a, b) => (`${a.type} ${a.name}` < `${b.type} ${b.name}` ? -1 : 1))
      .flatMap((one) => [
        [`${'  '.repeat(depth)}${one.type.split(':').at(-1)}`, one.name, essence(one)],
        ...below(one, depth + 1),
      ]);
  return `\n${formatTable(['resource', 'name', 'with'], below(undefined, 0), Infinity)}\n`;
}

describe.each(['staging', 'prod'])('stack %s', (stack) => {
  let made: RegisteredStack;
  beforeAll(async () => {
    made = await registeredStack(stack, PUBLISHER);
  });

  test('is made of these resources', () => {
    expect(table(made.resources)).toMatchSnapshot();
  });

  test('names no resource after the stack', () => {
    const own = made.resources.filter(({ type }) => type !== 'pulumi:pulumi:Stack');
    expect(own.map(({ name }) => name).filter((name) => name.includes(stack))).toEqual([]);
  });

  test('exports the outputs that publishing reads', () => {
    for (const [name, contract] of Object.entries(STACK_OUTPUTS)) {
      if (contract.part === 'optional') continue;
      const value = made.outputs[name];
      const plain = contract.secret ? (value as { secret: unknown }).secret : value;
      expect([name, contract.accepts(plain)]).toEqual([name, true]);
    }
    expect(made.outputs).toMatchObject({
      modelRepository: `s3://models-a1b2c3d/models`,
      region: 'us-east-1',
      clusterName: `triton-${stack}`,
      namespace: 'triton',
      podSelector: 'app.kubernetes.io/name=triton,app.kubernetes.io/instance=triton',
      publisherRoleArn: expect.stringContaining('publisher') as string,
    });
  });

  test('creates a cluster with Auto Mode, a private API, encrypted secrets and all logs', () => {
    const { inputs } = made.only('aws:eks/cluster:Cluster');
    expect(inputs).toEqual({
      name: `triton-${stack}`,
      version: '1.36',
      upgradePolicy: { supportType: 'STANDARD' },
      deletionProtection: stack === 'prod',
      roleArn: roleArn(`cluster-control-plane`),
      accessConfig: { authenticationMode: 'API', bootstrapClusterCreatorAdminPermissions: true },
      bootstrapSelfManagedAddons: false,
      enabledClusterLogTypes: ['api', 'audit', 'authenticator', 'controllerManager', 'scheduler'],
      encryptionConfig: {
        provider: { keyArn: `arn:aws:kms:us-east-1:${ACCOUNT}:key/secrets` },
        resources: ['secrets'],
      },
      vpcConfig: {
        subnetIds: ['a', 'b', 'c'].map((zone) => `network-private-us-east-1${zone}-id`),
        endpointPrivateAccess: true,
        endpointPublicAccess: false,
      },
      computeConfig: {
        enabled: true,
        nodePools: ['general-purpose', 'system'],
        nodeRoleArn: roleArn(`cluster-nodes`),
      },
      storageConfig: { blockStorage: { enabled: true } },
      kubernetesNetworkConfig: { elasticLoadBalancing: { enabled: true } },
    });
    expect(made.all('aws:eks/addon:Addon')).toEqual([]);
    expect(made.all('aws:eks/nodeGroup:NodeGroup')).toEqual([]);
  });

  test('gives the cluster role the permissions of Auto Mode', () => {
    const name = `cluster-control-plane`;
    expect(json(made.only('aws:iam/role:Role', name).inputs['assumeRolePolicy'])).toEqual({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Principal: { Service: 'eks.amazonaws.com' }, Action: ['sts:AssumeRole', 'sts:TagSession'] },
      ],
    });
    const policies = made
      .all('aws:iam/rolePolicyAttachment:RolePolicyAttachment')
      .filter(({ inputs }) => inputs['role'] === `${name}-a1b2c3d`)
      .map(({ inputs }) => inputs['policyArn']);
    expect(policies.sort()).toEqual([
      'arn:aws:iam::aws:policy/AmazonEKSBlockStoragePolicy',
      'arn:aws:iam::aws:policy/AmazonEKSClusterPolicy',
      'arn:aws:iam::aws:policy/AmazonEKSComputePolicy',
      'arn:aws:iam::aws:policy/AmazonEKSLoadBalancingPolicy',
      'arn:aws:iam::aws:policy/AmazonEKSNetworkingPolicy',
    ]);
  });

  test('puts nodes into private subnets that reach S3 without NAT', () => {
    for (const { inputs } of made.all('aws:ec2/subnet:Subnet')) expect(inputs['mapPublicIpOnLaunch']).toBe(false);
    const tables = made.all('aws:ec2/routeTable:RouteTable').map(({ name }) => `${name}-id`);
    const endpoint = made.only('aws:ec2/vpcEndpoint:VpcEndpoint').inputs;
    expect(endpoint).toMatchObject({ serviceName: 'com.amazonaws.us-east-1.s3', vpcEndpointType: 'Gateway' });
    expect([...(endpoint['routeTableIds'] as string[])].sort()).toEqual(tables.sort());
    expect(tables).toHaveLength(4);
    expect(made.all('aws:ec2/natGateway:NatGateway')).toHaveLength(stack === 'prod' ? 3 : 1);
    const ways = made
      .all('aws:ec2/route:Route')
      .map(({ inputs }) => inputs['natGatewayId'])
      .filter(Boolean);
    expect(new Set(ways).size).toBe(stack === 'prod' ? 3 : 1);
    expect(ways).toHaveLength(3);
  });

  test('creates a pool that scales from 0, with limits, taint and budget; prod has on-demand nodes first', () => {
    const isProd = stack === 'prod';
    expect(made.only('kubernetes:karpenter.sh/v1:NodePool', 'gpu-a10g').inputs).toEqual({
      apiVersion: 'karpenter.sh/v1',
      kind: 'NodePool',
      metadata: { name: 'a10g', annotations: { 'pulumi.com/waitFor': 'condition=Ready' } },
      spec: {
        template: {
          metadata: { labels: { 'triton-serving/gpu': 'true', 'triton-serving/gpu-pool': 'a10g' } },
          spec: {
            nodeClassRef: { group: 'eks.amazonaws.com', kind: 'NodeClass', name: 'a10g' },
            requirements: [
              {
                key: 'node.kubernetes.io/instance-type',
                operator: 'In',
                values: isProd ? ['g5.2xlarge', 'g5.4xlarge'] : ['g5.xlarge', 'g5.2xlarge'],
              },
              {
                key: 'karpenter.sh/capacity-type',
                operator: 'In',
                values: isProd ? ['on-demand'] : ['spot', 'on-demand'],
              },
              { key: 'kubernetes.io/arch', operator: 'In', values: ['amd64'] },
            ],
            taints: [{ key: 'nvidia.com/gpu', value: 'true', effect: 'NoSchedule' }],
            expireAfter: '336h',
            terminationGracePeriod: '4h',
          },
        },
        disruption: {
          consolidationPolicy: 'WhenEmpty',
          consolidateAfter: '10m',
          budgets: [{ nodes: '1' }],
        },
        limits: { 'nvidia.com/gpu': isProd ? '4' : '3' },
        ...(isProd ? { weight: 1 } : {}),
      },
    });
    const spot = made.all('kubernetes:karpenter.sh/v1:NodePool').find(({ name }) => name === 'gpu-a10g-spot');
    expect(spot !== undefined).toBe(isProd);
    // Karpenter's default, so it is filled after the other pool.
    if (spot !== undefined) expect(spot.inputs['spec']).not.toHaveProperty('weight');
    expect(made.only('kubernetes:eks.amazonaws.com/v1:NodeClass', 'gpu-a10g-class').inputs['spec']).toEqual({
      role: `cluster-nodes-a1b2c3d`,
      subnetSelectorTerms: ['a', 'b', 'c'].map((zone) => ({
        id: `network-private-us-east-1${zone}-id`,
      })),
      securityGroupSelectorTerms: [{ id: 'sg-cluster' }],
      ephemeralStorage: { size: isProd ? '200Gi' : '150Gi', iops: 3000, throughput: 600 },
      networkPolicy: 'DefaultAllow',
      tags: { project: 'triton-serving', stack, 'triton-serving/gpu-pool': 'a10g' },
    });
  });

  test('lets Auto Mode tag the nodes of its own cluster only', () => {
    const { role, policy } = made.only('aws:iam/rolePolicy:RolePolicy', `cluster-node-tags`).inputs;
    expect(role).toBe(`cluster-control-plane-a1b2c3d`);
    expect(json(policy)).toMatchObject({
      Statement: [
        {
          Action: ['ec2:CreateFleet', 'ec2:CreateLaunchTemplate', 'ec2:RunInstances'],
          Resource: expect.arrayContaining(['arn:aws:ec2:*:*:instance/*', 'arn:aws:ec2:*:*:volume/*']) as string[],
          Condition: {
            StringEquals: { 'aws:RequestTag/eks:eks-cluster-name': '${aws:PrincipalTag/eks:eks-cluster-name}' },
          },
        },
        {
          Action: 'ec2:CreateNetworkInterface',
          Resource: ['arn:aws:ec2:*:*:network-interface/*'],
          Condition: {
            StringEquals: { 'aws:RequestTag/eks:eks-cluster-name': '${aws:PrincipalTag/eks:eks-cluster-name}' },
            StringLike: { 'aws:RequestTag/eks:kubernetes-cni-node-name': '*' },
          },
        },
      ],
    });
  });

  test('lets Auto Mode tag the load balancers of its own cluster only', () => {
    const { role, policy } = made.only('aws:iam/rolePolicy:RolePolicy', `cluster-load-balancer-tags`).inputs;
    expect(role).toBe(`cluster-control-plane-a1b2c3d`);
    const own = '${aws:PrincipalTag/eks:eks-cluster-name}';
    expect(json(policy)).toMatchObject({
      Statement: [
        {
          Action: expect.arrayContaining(['elasticloadbalancing:CreateLoadBalancer']) as string[],
          Condition: { StringEquals: { 'aws:RequestTag/eks:eks-cluster-name': own } },
        },
        {
          Action: expect.arrayContaining(['elasticloadbalancing:AddTags', 'ec2:CreateTags']) as string[],
          Resource: [
            'arn:aws:ec2:*:*:security-group/*',
            'arn:aws:elasticloadbalancing:*:*:listener/*',
            'arn:aws:elasticloadbalancing:*:*:listener-rule/*',
            'arn:aws:elasticloadbalancing:*:*:loadbalancer/*',
            'arn:aws:elasticloadbalancing:*:*:targetgroup/*',
          ],
          Condition: {
            StringEquals: { 'aws:ResourceTag/eks:eks-cluster-name': own },
            StringEqualsIfExists: { 'aws:RequestTag/eks:eks-cluster-name': own },
          },
        },
      ],
    });
  });

  test('enforces network policies', () => {
    expect(made.only('kubernetes:core/v1:ConfigMapPatch', `gpu-network-policies`).inputs).toMatchObject({
      metadata: { name: 'amazon-vpc-cni', namespace: 'kube-system' },
      data: { 'enable-network-policy-controller': 'true' },
    });
  });

  test('schedules replicas onto the GPU nodes, with their own role', () => {
    const deployment = made.only('kubernetes:apps/v1:Deployment').inputs as {
      spec: { template: { spec: { nodeSelector: object; tolerations: object[] } } };
    };
    const { nodeSelector, tolerations } = deployment.spec.template.spec;
    expect(nodeSelector).toEqual({ 'triton-serving/gpu': 'true' });
    expect(tolerations).toContainEqual({ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' });
    const role = `{"name":"AWS_ROLE_ARN","value":"${roleArn('server')}"}`;
    expect(JSON.stringify(deployment.spec.template.spec)).toContain(role);
  });

  /** Checks who may assume a role: tokens of the issuer under these conditions, and no others. */
  function expectTrust(role: string, issuer: string, conditions: Record<string, unknown>): void {
    expect(json(made.only('aws:iam/role:Role', role).inputs['assumeRolePolicy'])).toEqual({
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { Federated: `arn:aws:iam::${ACCOUNT}:oidc-provider/${issuer}` },
          Action: 'sts:AssumeRoleWithWebIdentity',
          Condition: conditions,
        },
      ],
    });
  }

  test('lets only the service account of the replicas assume their role', () => {
    const issuer = 'oidc.eks.us-east-1.amazonaws.com/id/A1B2C3';
    expectTrust('server', issuer, {
      StringEquals: {
        [`${issuer}:aud`]: 'sts.amazonaws.com',
        [`${issuer}:sub`]: 'system:serviceaccount:triton:triton',
      },
    });
  });

  test('lets only tokens of publisherSubjects assume the publisher role', () => {
    const issuer = 'token.actions.githubusercontent.com';
    expectTrust('publisher', issuer, {
      StringEquals: { [`${issuer}:aud`]: 'sts.amazonaws.com', [`${issuer}:sub`]: PUBLISHER.publisherSubjects },
    });
  });

  test('creates a bucket with lifecycle and logs, for TLS requests of this account only', () => {
    const models = `models`;
    const [bucket, logs] = [`${models}-a1b2c3d`, `${models}-access-logs-a1b2c3d`];
    const of = (type: string): Record<string, unknown> => made.only(`aws:s3/${type}`, models).inputs;
    expect(of('bucket:Bucket')).toEqual({ forceDestroy: stack === 'staging' });
    const everything = [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`];
    expect(json(of('bucketPolicy:BucketPolicy')['policy'])).toEqual({
      Version: '2012-10-17',
      Statement: [
        {
          Sid: 'TlsOnly',
          Effect: 'Deny',
          Principal: '*',
          Action: 's3:*',
          Resource: everything,
          Condition: { Bool: { 'aws:SecureTransport': 'false' } },
        },
        {
          Sid: 'ThisAccountOnly',
          Effect: 'Deny',
          Principal: '*',
          Action: 's3:*',
          Resource: everything,
          Condition: {
            StringNotEquals: { 'aws:PrincipalAccount': ACCOUNT },
            BoolIfExists: { 'aws:PrincipalIsAWSService': 'false' },
          },
        },
      ],
    });
    expect(of('bucketLifecycleConfiguration:BucketLifecycleConfiguration')['rules']).toEqual([
      {
        id: 'old-versions',
        status: 'Enabled',
        filter: { prefix: '' },
        noncurrentVersionExpiration: { noncurrentDays: stack === 'prod' ? 90 : 30 },
        expiration: { expiredObjectDeleteMarker: true },
      },
      {
        id: 'unfinished-uploads',
        status: 'Enabled',
        filter: { prefix: '' },
        abortIncompleteMultipartUpload: { daysAfterInitiation: 7 },
      },
    ]);
    const notifications = made.all('aws:s3/bucketNotification:BucketNotification').map(({ inputs }) => inputs);
    expect(notifications).toHaveLength(2);
    expect(notifications).toEqual(
      expect.arrayContaining([bucket, logs].map((one) => ({ bucket: one, eventbridge: true }))),
    );
    expect(of('bucketLogging:BucketLogging')).toEqual({
      bucket,
      targetBucket: logs,
      targetPrefix: 'models/',
    });
  });

  test('lets only S3 write access logs of this bucket, and only the flow log service write flow logs', () => {
    const logs = `models-access-logs`;
    const [, delivery] = (
      json(made.only('aws:s3/bucketPolicy:BucketPolicy', logs).inputs['policy']) as { Statement: object[] }
    ).Statement;
    expect(delivery).toEqual({
      Sid: 'LogDelivery',
      Effect: 'Allow',
      Principal: { Service: 'logging.s3.amazonaws.com' },
      Action: 's3:PutObject',
      Resource: `arn:aws:s3:::${logs}-a1b2c3d/*`,
      Condition: {
        ArnLike: { 'aws:SourceArn': `arn:aws:s3:::models-a1b2c3d` },
        StringEquals: { 'aws:SourceAccount': ACCOUNT },
      },
    });
    const flowLogs = `network-flow-logs`;
    const group = `arn:aws:logs:us-east-1:${ACCOUNT}:log-group:${flowLogs}-a1b2c3d`;
    expect(json(made.only('aws:iam/rolePolicy:RolePolicy', flowLogs).inputs['policy'])).toEqual({
      Version: '2012-10-17',
      Statement: [
        {
          Sid: 'WriteFlowLogs',
          Effect: 'Allow',
          Action: ['logs:CreateLogStream', 'logs:PutLogEvents', 'logs:DescribeLogStreams'],
          Resource: [group, `${group}:*`],
        },
      ],
    });
  });

  test('protects only resources that cannot be recreated, and the settings of buckets', () => {
    const names = made.resources
      .filter(({ protect }) => protect)
      .map(({ type, name }) => `${type.split(':').at(-1)} ${name}`);
    expect(names.filter((name) => !/^Bucket[A-Z]/.test(name)).sort()).toEqual(
      stack === 'staging'
        ? []
        : [
            'Alias logs',
            'Alias models-key',
            'Alias secrets',
            'Bucket models',
            'Bucket models-access-logs',
            'Cluster cluster',
            'Key logs',
            'Key models-key',
            'Key secrets',
            'LogGroup cluster-control-plane',
            'LogGroup network-flow-logs',
            'Namespace triton',
            'Role publisher',
          ],
    );
    const settings = made.resources.filter(({ type }) => /:Bucket[A-Z]\w+$/.test(type));
    expect(settings.map(({ protect }) => protect)).toEqual(settings.map(() => stack === 'prod'));
  });

  test('deletes the models bucket before its key, and the settings of a bucket only together with the bucket', () => {
    const models = `models`;
    const bucket = made.only('aws:s3/bucket:Bucket', models);
    expect(bucket.dependencies).toContain(made.only('aws:kms/key:Key', `${models}-key`).urn);
    const settings = made.resources.filter(({ type }) => /:Bucket[A-Z]\w+$/.test(type));
    expect(settings.map(({ deletedWith }) => deletedWith)).toEqual(settings.map(({ parent }) => parent));
  });

  test('creates a cluster with another name before it deletes anything of the old cluster', () => {
    const first = made.resources.filter(({ deleteBeforeReplace }) => deleteBeforeReplace === false);
    expect(first.map(({ type }) => type.split(':').at(-1)).sort()).toEqual(['Cluster', 'LogGroup']);
    expect(made.resources.filter(({ deleteBeforeReplace }) => deleteBeforeReplace === true)).toEqual([]);
  });

  test('retains what a namespace and a cluster need when they are handed over', () => {
    const retained = made.resources.filter(({ retainOnDelete }) => retainOnDelete);
    expect(retained.map(({ type, name }) => `${type} ${name}`).sort()).toEqual([
      `kubernetes:core/v1:ConfigMapPatch gpu-network-policies`,
      ...(stack === 'prod' ? ['kubernetes:core/v1:Namespace triton'] : []),
      'kubernetes:networking.k8s.io/v1:NetworkPolicy triton-default-deny',
    ]);
  });

  test('creates all Kubernetes objects with the provider of its own cluster', () => {
    const kubernetes = made.resources.filter(({ type }) => type.startsWith('kubernetes:'));
    expect(kubernetes.length).toBeGreaterThan(10);
    for (const { name, provider } of kubernetes)
      expect([name, provider]).toEqual([name, made.only('pulumi:providers:kubernetes').name]);
    const { inputs } = made.only('pulumi:providers:kubernetes');
    expect(inputs).toMatchObject({ clusterIdentifier: `arn:aws:eks:us-east-1:${ACCOUNT}:cluster/triton-${stack}` });
    expect(JSON.stringify(inputs['kubeconfig'])).toContain('get-token');
  });
});
