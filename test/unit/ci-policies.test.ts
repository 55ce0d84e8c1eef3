import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import { registeredStack } from '../support/registered-stack';
import { PUBLISHER } from '../support/publisher-settings';

interface Statement {
  Sid: string;
  Effect: 'Allow' | 'Deny';
  Action?: string | string[];
  Resource?: string | string[];
  Condition?: Record<string, Record<string, unknown>>;
}

const read = (name: string): Statement[] =>
  (JSON.parse(readFileSync(join(paths.root, 'docs', 'iam', `${name}.json`), 'utf8')) as { Statement: Statement[] })
    .Statement;
const getActions = (statements: readonly Statement[]): string[] =>
  statements.filter(({ Effect }) => Effect === 'Allow').flatMap(({ Action = [] }) => Action);

/** What making a resource asks for, by its type. */
const CREATES: Readonly<Record<string, string>> = {
  'aws:cloudwatch/logGroup:LogGroup': 'logs:CreateLogGroup',
  'aws:ec2/defaultSecurityGroup:DefaultSecurityGroup': 'ec2:RevokeSecurityGroupIngress',
  'aws:ec2/eip:Eip': 'ec2:AllocateAddress',
  'aws:ec2/flowLog:FlowLog': 'ec2:CreateFlowLogs',
  'aws:ec2/internetGateway:InternetGateway': 'ec2:AttachInternetGateway',
  'aws:ec2/launchTemplate:LaunchTemplate': 'ec2:CreateLaunchTemplate',
  'aws:ec2/natGateway:NatGateway': 'ec2:CreateNatGateway',
  'aws:ec2/route:Route': 'ec2:CreateRoute',
  'aws:ec2/routeTable:RouteTable': 'ec2:CreateRouteTable',
  'aws:ec2/routeTableAssociation:RouteTableAssociation': 'ec2:AssociateRouteTable',
  'aws:ec2/subnet:Subnet': 'ec2:CreateSubnet',
  'aws:ec2/vpc:Vpc': 'ec2:CreateVpc',
  'aws:ec2/vpcEndpoint:VpcEndpoint': 'ec2:CreateVpcEndpoint',
  'aws:eks/accessEntry:AccessEntry': 'eks:CreateAccessEntry',
  'aws:eks/accessPolicyAssociation:AccessPolicyAssociation': 'eks:AssociateAccessPolicy',
  'aws:eks/addon:Addon': 'eks:CreateAddon',
  'aws:eks/cluster:Cluster': 'eks:CreateCluster',
  'aws:eks/nodeGroup:NodeGroup': 'eks:CreateNodegroup',
  'aws:iam/openIdConnectProvider:OpenIdConnectProvider': 'iam:CreateOpenIDConnectProvider',
  'aws:iam/role:Role': 'iam:CreateRole',
  'aws:iam/rolePolicy:RolePolicy': 'iam:PutRolePolicy',
  'aws:iam/rolePolicyAttachment:RolePolicyAttachment': 'iam:AttachRolePolicy',
  'aws:kms/alias:Alias': 'kms:CreateAlias',
  'aws:kms/key:Key': 'kms:CreateKey',
  'aws:s3/bucket:Bucket': 's3:CreateBucket',
  'aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration': 's3:PutLifecycleConfiguration',
  'aws:s3/bucketLogging:BucketLogging': 's3:PutBucketLogging',
  'aws:s3/bucketNotification:BucketNotification': 's3:PutBucketNotification',
  'aws:s3/bucketObjectv2:BucketObjectv2': 's3:PutObject',
  'aws:s3/bucketOwnershipControls:BucketOwnershipControls': 's3:PutBucketOwnershipControls',
  'aws:s3/bucketPolicy:BucketPolicy': 's3:PutBucketPolicy',
  'aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock': 's3:PutBucketPublicAccessBlock',
  'aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration':
    's3:PutEncryptionConfiguration',
  'aws:s3/bucketVersioning:BucketVersioning': 's3:PutBucketVersioning',
};

test('the policy of the role deploy allows to make each kind of resource of a stack', async () => {
  const stacks = await Promise.all([
    registeredStack('prod', PUBLISHER),
    registeredStack('staging', {
      autoMode: false,
      gpuNodePools: [{ name: 'group', mechanism: 'managed-node-group', instanceTypes: ['g5.xlarge'] }],
    }),
  ]);
  const types = new Set(stacks.flatMap(({ resources }) => resources.map(({ type }) => type)));
  const made = [...types].filter((type) => type.startsWith('aws:'));
  const allowed = getActions(read('deploy'));
  expect(made.filter((type) => CREATES[type] === undefined)).toEqual([]);
  expect(made.map((type) => CREATES[type]).filter((action) => !allowed.includes(action as string))).toEqual([]);
});

test('the roles attach only policies that the policy of the role deploy names', async () => {
  const { resources } = await registeredStack('prod', PUBLISHER);
  const patterns = read('deploy').find(({ Sid }) => Sid === 'ManagedPolicies')?.Condition?.['ArnLike']?.[
    'iam:PolicyARN'
  ] as string[];
  const attached = resources.flatMap(({ type, inputs }) =>
    type === 'aws:iam/rolePolicyAttachment:RolePolicyAttachment' ? [inputs['policyArn'] as string] : [],
  );
  expect(attached.length).toBeGreaterThan(0);
  const matches = (arn: string): boolean =>
    patterns.some((pattern) => (pattern.endsWith('*') ? arn.startsWith(pattern.slice(0, -1)) : arn === pattern));
  expect(attached.filter((arn) => !matches(arn))).toEqual([]);
});

test.each(['deploy', 'preview'])('the policy of the role %s allows no wildcard but after a verb', (name) => {
  expect(getActions(read(name)).filter((action) => !/^[\w-]+:[A-Z][A-Za-z]+\*?$/.test(action))).toEqual([]);
});

test.each(['deploy', 'preview'])(
  'the policy of the role %s lets it look up the provider of publisherIssuer',
  (name) => {
    const everywhere = getActions(read(name).filter(({ Resource }) => Resource === '*'));
    expect(everywhere).toEqual(
      expect.arrayContaining(['iam:GetOpenIDConnectProvider', 'iam:ListOpenIDConnectProviders']),
    );
  },
);

test('the role preview writes nothing', () => {
  const verbs = getActions(read('preview')).map((action) => action.split(':')[1] ?? '');
  expect(verbs.filter((verb) => !/^(Describe|Get|List|Decrypt$)/.test(verb))).toEqual([]);
});
