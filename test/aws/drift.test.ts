import { exec } from '../../src/core/exec';
import { awsStack, HERE, whyNoAwsStack, type AwsStack } from '../support/aws-stack';
import { describeUnless } from '../support/describe-unless';
import { askMoto } from '../support/moto';
import { PUBLISHER } from '../support/setting-values';
import { repetitions } from '../support/soak';
import { Scratch } from '../support/temp-dir';
import { whyMissing } from '../support/doc-commands';

const STEP_MS = 15 * 60_000;
const NAMESPACE = 'triton';

/** A change without Pulumi, and the place where drift.yml has to report it. */
interface Change {
  /** Type and name of the resource. */
  resource: string;
  /** The property of it; `create` if the resource is gone. */
  property: string;
  make: (on: Target) => Promise<unknown>;
}

/** How changes reach the resources of a stack. */
interface Target {
  /** Id of a resource: `id('aws:iam/role:Role::server')`. */
  id: (resource: string) => string;
  /** A request in the form of EC2 and IAM. */
  query: (service: 'ec2' | 'iam', action: string, values: Record<string, string>) => Promise<string>;
  /** A request in the form of KMS and CloudWatch Logs. */
  json: (service: 'kms' | 'logs', operation: string, body: object) => Promise<string>;
  /** A request about a bucket, and the body of a PUT. Without a body: DELETE. */
  s3: (bucket: string, what: string, body?: string) => Promise<string>;
  eks: (path: string, method: string, body?: object) => Promise<string>;
  kubectl: (...args: string[]) => Promise<unknown>;
}

const VERSIONS = { ec2: '2016-11-15', iam: '2010-05-08' };
const OPERATIONS = { kms: 'TrentService', logs: 'Logs_20140328' };
const ALLOW_ALL = JSON.stringify({
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: 's3:*', Resource: '*' }],
});
const trust = (principal: object): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: 'sts:AssumeRole', Principal: principal }],
  });
const everyone = (bucket: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: `arn:aws:s3:::${bucket}/*` }],
  });

const role = (name: string, action: string, property: string, values: Record<string, string>): Change => ({
  resource: `aws:iam/role:Role::${name}`,
  property,
  make: ({ id, query }) => query('iam', action, { RoleName: id(`aws:iam/role:Role::${name}`), ...values }),
});
const bucketSetting = (resource: string, property: string, what: string, body?: string): Change => ({
  resource: `aws:s3/${resource}::models`,
  property,
  make: ({ id, s3 }) => s3(id('aws:s3/bucket:Bucket::models'), what, body),
});
const object = (resource: string, property: string, ...args: string[]): Change => ({
  resource: `kubernetes:${resource}`,
  property,
  make: ({ kubectl }) => kubectl(...args),
});
const patch = (kind: string, name: string, change: object): string[] => [
  ...['patch', kind, name],
  ...['--type=merge', `--patch=${JSON.stringify(change)}`],
];

const CHANGES: readonly Change[] = [
  role('server', 'UpdateAssumeRolePolicy', 'assumeRolePolicy', { PolicyDocument: trust({ AWS: '*' }) }),
  role('network-flow-logs', 'TagRole', 'tags', { 'Tags.member.1.Key': 'owner', 'Tags.member.1.Value': 'someone' }),
  {
    resource: 'aws:iam/rolePolicy:RolePolicy::publisher',
    property: 'policy',
    make: ({ id, query }) => {
      const [RoleName = '', PolicyName = ''] = id('aws:iam/rolePolicy:RolePolicy::publisher').split(':');
      return query('iam', 'PutRolePolicy', { RoleName, PolicyName, PolicyDocument: ALLOW_ALL });
    },
  },
  {
    resource: 'aws:iam/rolePolicyAttachment:RolePolicyAttachment::cluster-nodes-AmazonEC2ContainerRegistryPullOnly',
    property: 'create',
    make: ({ id, query }) =>
      query('iam', 'DetachRolePolicy', {
        RoleName: id('aws:iam/role:Role::cluster-nodes'),
        PolicyArn: 'arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly',
      }),
  },
  bucketSetting(
    'bucketVersioning:BucketVersioning',
    'versioningConfiguration',
    'versioning',
    '<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>',
  ),
  bucketSetting('bucketLifecycleConfiguration:BucketLifecycleConfiguration', 'create', 'lifecycle'),
  bucketSetting(
    'bucketPublicAccessBlock:BucketPublicAccessBlock',
    'blockPublicPolicy',
    'publicAccessBlock',
    '<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>' +
      '<BlockPublicPolicy>false</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets>' +
      '</PublicAccessBlockConfiguration>',
  ),
  bucketSetting(
    'bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration',
    'rules',
    'encryption',
    '<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>' +
      '</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>',
  ),
  {
    resource: 'aws:s3/bucketPolicy:BucketPolicy::models',
    property: 'policy',
    make: ({ id, s3 }) => {
      const bucket = id('aws:s3/bucket:Bucket::models');
      return s3(bucket, 'policy', everyone(bucket));
    },
  },
  {
    resource: 'aws:kms/key:Key::models-key',
    property: 'enableKeyRotation',
    make: ({ id, json }) => json('kms', 'DisableKeyRotation', { KeyId: id('aws:kms/key:Key::models-key') }),
  },
  {
    resource: 'aws:cloudwatch/logGroup:LogGroup::network-flow-logs',
    property: 'retentionInDays',
    make: ({ id, json }) =>
      json('logs', 'PutRetentionPolicy', {
        logGroupName: id('aws:cloudwatch/logGroup:LogGroup::network-flow-logs'),
        retentionInDays: 1,
      }),
  },
  {
    resource: 'aws:ec2/subnet:Subnet::network-private-us-east-1a',
    property: 'mapPublicIpOnLaunch',
    make: ({ id, query }) =>
      query('ec2', 'ModifySubnetAttribute', {
        SubnetId: id('aws:ec2/subnet:Subnet::network-private-us-east-1a'),
        'MapPublicIpOnLaunch.Value': 'true',
      }),
  },
  {
    resource: 'aws:ec2/route:Route::network-private-us-east-1b',
    property: 'create',
    make: ({ id, query }) =>
      query('ec2', 'DeleteRoute', {
        RouteTableId: id('aws:ec2/routeTable:RouteTable::network-private-us-east-1b'),
        DestinationCidrBlock: '0.0.0.0/0',
      }),
  },
  {
    resource: 'aws:ec2/routeTableAssociation:RouteTableAssociation::network-private-us-east-1c',
    property: 'create',
    make: ({ id, query }) =>
      query('ec2', 'DisassociateRouteTable', {
        AssociationId: id('aws:ec2/routeTableAssociation:RouteTableAssociation::network-private-us-east-1c'),
      }),
  },
  {
    resource: 'aws:ec2/vpc:Vpc::network',
    property: 'enableDnsHostnames',
    make: ({ id, query }) =>
      query('ec2', 'ModifyVpcAttribute', {
        VpcId: id('aws:ec2/vpc:Vpc::network'),
        'EnableDnsHostnames.Value': 'false',
      }),
  },
  {
    resource: 'aws:eks/cluster:Cluster::cluster',
    property: 'vpcConfig.publicAccessCidrs',
    make: ({ eks }) => eks('/update-config', 'POST', { resourcesVpcConfig: { publicAccessCidrs: ['0.0.0.0/0'] } }),
  },
  {
    resource: 'aws:eks/accessEntry:AccessEntry::publisher',
    property: 'create',
    make: ({ id, eks }) => {
      const principal = id('aws:eks/accessEntry:AccessEntry::publisher').replace(/^[^:]*:/, '');
      return eks(`/access-entries/${encodeURIComponent(principal)}`, 'DELETE');
    },
  },
  object(
    'apps/v1:Deployment::triton',
    'spec.template.spec.terminationGracePeriodSeconds',
    ...[...patch('deployment', 'triton', { spec: { template: { spec: { terminationGracePeriodSeconds: 99 } } } })],
  ),
  object(
    'core/v1:Service::triton',
    'spec.selector',
    ...patch('service', 'triton', { spec: { selector: { 'app.kubernetes.io/name': 'other' } } }),
  ),
  object('policy/v1:PodDisruptionBudget::triton', 'create', 'delete', 'poddisruptionbudget', 'triton'),
  object(
    'networking.k8s.io/v1:NetworkPolicy::triton-default-deny',
    'create',
    'delete',
    'networkpolicy',
    'triton-default-deny',
  ),
  object(
    'rbac.authorization.k8s.io/v1:Role::triton-publisher',
    'rules',
    ...patch('role', 'triton-publisher', { rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['delete'] }] }),
  ),
  object(
    'karpenter.sh/v1:NodePool::gpu-a10g',
    'spec.limits',
    ...patch('nodepool', 'a10g', { spec: { limits: { 'nvidia.com/gpu': '1000' } } }),
  ),
];

describeUnless(
  whyNoAwsStack() ?? whyMissing('kubectl'),
  'drift of a stack with the real AWS provider on a mock of AWS',
  () => {
    const scratch = new Scratch();
    let made: AwsStack;
    let target: Target;

    beforeAll(async () => {
      made = await awsStack(scratch, 'staging', { config: { ...PUBLISHER, publicAccessCidrs: [HERE] } });
      const { stack, moto, plane } = made;
      await stack.up();
      const resources = await stack.resources();
      const form = { 'content-type': 'application/x-www-form-urlencoded' };
      const KUBECONFIG = plane.access.kubeconfigFile();
      target = {
        id: (resource) => {
          const found = resources.find(({ urn }) => isResource(urn, resource));
          if (found?.id === undefined) throw new Error(`the stack has no ${resource}`);
          return found.id;
        },
        query: (service, action, values) => {
          const parameters = new URLSearchParams({ Action: action, Version: VERSIONS[service], ...values });
          return askMoto(moto, service, '/', form, parameters.toString());
        },
        json: (service, operation, body) => {
          const headers = {
            'x-amz-target': `${OPERATIONS[service]}.${operation}`,
            'content-type': 'application/x-amz-json-1.1',
          };
          return askMoto(moto, service, '/', headers, JSON.stringify(body));
        },
        s3: (bucket, what, body) =>
          askMoto(moto, 's3', `/${bucket}?${what}`, {}, body ?? '', body === undefined ? 'DELETE' : 'PUT'),
        eks: (path, method, body) =>
          askMoto(
            moto,
            'eks',
            `/clusters/triton-staging${path}`,
            {},
            body === undefined ? '' : JSON.stringify(body),
            method,
          ),
        kubectl: (...args) =>
          exec('kubectl', ['--namespace', NAMESPACE, ...args], { env: { ...process.env, KUBECONFIG } }),
      };
    }, 60 * 60_000);
    afterAll(() => scratch.clean());

    test(
      'a stack that no one changed has none',
      async () => {
        for (let i = 0; i < repetitions(1); i += 1) expect(await made.stack.drift()).toEqual([]);
      },
      25 * STEP_MS,
    );

    test(
      'each change is found, with its resource and property, and nothing else',
      async () => {
        const { stack } = made;
        for (const { make } of CHANGES) await make(target);
        const found = await stack.drift();
        const places = CHANGES.map(({ resource, property }) => `${resource} ${property}`);
        const missed = CHANGES.filter(
          ({ resource, property }) =>
            !found.some(
              ({ urn, op, changed }) =>
                isResource(urn, resource) && (op === property || changed.some((path) => path.startsWith(property))),
            ),
        );
        expect(missed.map(({ resource, property }) => `${resource} ${property}`)).toEqual([]);
        const others = found.filter(({ urn }) => !CHANGES.some(({ resource }) => isResource(urn, resource)));
        expect(others).toEqual([]);
        expect(new Set(places).size).toBeGreaterThanOrEqual(20);

        await stack.up('--refresh');
        expect(await stack.drift()).toEqual([]);
      },
      STEP_MS,
    );
  },
);

/** @param resource the type of a resource without those of its parents, and its name */
const isResource = (urn: string, resource: string): boolean =>
  urn.endsWith(`$${resource}`) || urn.endsWith(`::${resource}`);
