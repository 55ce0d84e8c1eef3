import type { RegisteredResource } from './registered-stack';

/**
 * Terraform's name of each type, and of the arguments that differ from Pulumi's name in snake case, because Pulumi uses
 * plurals for lists. A missing type is an error, so that no resource is silently left unscanned.
 */
const TYPES: Readonly<Record<string, { type: string; names?: Readonly<Record<string, string>> }>> = {
  'aws:cloudwatch/logGroup:LogGroup': { type: 'aws_cloudwatch_log_group' },
  'aws:ec2/defaultSecurityGroup:DefaultSecurityGroup': { type: 'aws_default_security_group' },
  'aws:ec2/eip:Eip': { type: 'aws_eip' },
  'aws:ec2/flowLog:FlowLog': { type: 'aws_flow_log' },
  'aws:ec2/internetGateway:InternetGateway': { type: 'aws_internet_gateway' },
  'aws:ec2/launchTemplate:LaunchTemplate': { type: 'aws_launch_template' },
  'aws:ec2/natGateway:NatGateway': { type: 'aws_nat_gateway' },
  'aws:ec2/route:Route': { type: 'aws_route' },
  'aws:ec2/routeTable:RouteTable': { type: 'aws_route_table' },
  'aws:ec2/routeTableAssociation:RouteTableAssociation': { type: 'aws_route_table_association' },
  'aws:ec2/subnet:Subnet': { type: 'aws_subnet' },
  'aws:ec2/vpc:Vpc': { type: 'aws_vpc' },
  'aws:ec2/vpcEndpoint:VpcEndpoint': { type: 'aws_vpc_endpoint' },
  'aws:ecr/lifecyclePolicy:LifecyclePolicy': { type: 'aws_ecr_lifecycle_policy' },
  'aws:ecr/repository:Repository': {
    type: 'aws_ecr_repository',
    names: { encryptionConfigurations: 'encryption_configuration' },
  },
  'aws:eks/accessEntry:AccessEntry': { type: 'aws_eks_access_entry' },
  'aws:eks/accessPolicyAssociation:AccessPolicyAssociation': { type: 'aws_eks_access_policy_association' },
  'aws:eks/addon:Addon': { type: 'aws_eks_addon' },
  'aws:eks/cluster:Cluster': { type: 'aws_eks_cluster' },
  'aws:eks/nodeGroup:NodeGroup': { type: 'aws_eks_node_group', names: { taints: 'taint' } },
  'aws:iam/openIdConnectProvider:OpenIdConnectProvider': {
    type: 'aws_iam_openid_connect_provider',
    names: { clientIdLists: 'client_id_list', thumbprintLists: 'thumbprint_list' },
  },
  'aws:iam/role:Role': { type: 'aws_iam_role' },
  'aws:iam/rolePolicy:RolePolicy': { type: 'aws_iam_role_policy' },
  'aws:iam/rolePolicyAttachment:RolePolicyAttachment': { type: 'aws_iam_role_policy_attachment' },
  'aws:kms/alias:Alias': { type: 'aws_kms_alias' },
  'aws:kms/key:Key': { type: 'aws_kms_key' },
  'aws:s3/bucket:Bucket': { type: 'aws_s3_bucket' },
  'aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration': {
    type: 'aws_s3_bucket_lifecycle_configuration',
    names: { rules: 'rule' },
  },
  'aws:s3/bucketLogging:BucketLogging': { type: 'aws_s3_bucket_logging' },
  'aws:s3/bucketNotification:BucketNotification': { type: 'aws_s3_bucket_notification' },
  'aws:s3/bucketObjectv2:BucketObjectv2': { type: 'aws_s3_object' },
  'aws:s3/bucketOwnershipControls:BucketOwnershipControls': { type: 'aws_s3_bucket_ownership_controls' },
  'aws:s3/bucketPolicy:BucketPolicy': { type: 'aws_s3_bucket_policy' },
  'aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock': { type: 'aws_s3_bucket_public_access_block' },
  'aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration': {
    type: 'aws_s3_bucket_server_side_encryption_configuration',
    names: { rules: 'rule', kmsMasterKeyId: 'kms_master_key_id' },
  },
  'aws:s3/bucketVersioning:BucketVersioning': { type: 'aws_s3_bucket_versioning' },
};

/** Maps whose keys users choose. */
const FREE_KEYS = new Set(['tags', 'labels', 'tags_all']);

/**
 * The AWS resources of a stack in the format of `terraform show -json PLAN`, for scanners. Dependencies of properties
 * become references, by which scanners find the policy or the encryption of a bucket.
 */
export function terraformPlan(resources: readonly RegisteredResource[]): object {
  const aws = resources.filter(({ type, custom }) => custom && type.startsWith('aws:'));
  const unknown = aws.filter(({ type }) => TYPES[type] === undefined).map(({ type }) => type);
  if (unknown.length > 0) throw new Error(`Terraform's name is not known here of ${[...new Set(unknown)].join(', ')}`);
  const addresses = new Map(aws.map((resource) => [resource.urn, getAddress(resource)]));
  const planned = aws.map((resource) => {
    const { type, names = {} } = getType(resource);
    const references = getExpressions(resource, addresses);
    // Values that depend on a resource which does not exist yet are unknown in a plan.
    const known = Object.entries(inTerraform(resource.inputs, names) as object).filter(([key]) => !(key in references));
    return {
      address: getAddress(resource),
      mode: 'managed',
      type,
      name: getName(resource),
      provider_name: 'registry.terraform.io/hashicorp/aws',
      values: Object.fromEntries(known),
    };
  });
  return {
    format_version: '1.2',
    terraform_version: '1.9.0',
    planned_values: { root_module: { resources: planned } },
    resource_changes: planned.map(({ values, ...resource }) => ({
      ...resource,
      change: { actions: ['create'], before: null, after: values, after_unknown: {} },
    })),
    configuration: {
      root_module: {
        resources: aws.map((resource) => ({
          address: getAddress(resource),
          mode: 'managed',
          type: getType(resource).type,
          name: getName(resource),
          expressions: getExpressions(resource, addresses),
        })),
      },
    },
  };
}

const getType = ({ type }: RegisteredResource) => TYPES[type] as NonNullable<(typeof TYPES)[string]>;

const getName = ({ name }: RegisteredResource): string => name.replace(/\W/g, '_');

const getAddress = (resource: RegisteredResource): string => `${getType(resource).type}.${getName(resource)}`;

const snakeCase = (text: string): string => text.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Converts names to Terraform's. A nested block becomes a list of one, as in a plan. */
function inTerraform(value: unknown, names: Readonly<Record<string, string>>): unknown {
  if (Array.isArray(value)) return value.map((item) => inTerraform(item, names));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const name = names[key] ?? snakeCase(key);
      if (FREE_KEYS.has(name)) return [name, inner as unknown];
      const mapped = inTerraform(inner, names);
      const isBlock = typeof inner === 'object' && inner !== null && !Array.isArray(inner);
      return [name, isBlock ? [mapped] : mapped];
    }),
  );
}

/** References of string properties. Policies are excluded: a document that names a resource does not belong to it. */
function getExpressions(resource: RegisteredResource, addresses: ReadonlyMap<string, string>): object {
  const { names = {} } = getType(resource);
  return Object.fromEntries(
    Object.entries(resource.propertyDependencies).flatMap(([key, urns]) => {
      const references = urns.flatMap((urn) => addresses.get(urn) ?? []);
      const isText = typeof resource.inputs[key] === 'string';
      if (references.length === 0 || !isText || key === 'policy') return [];
      return [[names[key] ?? snakeCase(key), { references: references.flatMap((to) => [`${to}.id`, to]) }]];
    }),
  );
}
