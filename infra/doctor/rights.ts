/** Rights of the doctor before `pulumi up`. They read only. GetCallerIdentity needs none. */
export const RIGHTS = [
  'acm:DescribeCertificate',
  'ec2:DescribeAddresses',
  'ec2:DescribeAvailabilityZones',
  'ec2:DescribeInstanceTypeOfferings',
  'ec2:DescribeRegions',
  'ec2:DescribeRouteTables',
  'ec2:DescribeSubnets',
  'ec2:DescribeVpcs',
  'eks:DescribeCluster',
  'eks:DescribeClusterVersions',
  'eks:ListAccessEntries',
  'iam:GetOpenIDConnectProvider',
  'iam:GetRole',
  'kms:DescribeKey',
  'logs:DescribeLogGroups',
  's3:GetBucketVersioning',
  's3:ListBucket',
  'servicequotas:GetAWSDefaultServiceQuota',
  'servicequotas:GetServiceQuota',
] as const;

export type Right = (typeof RIGHTS | typeof AFTER_UP_RIGHTS)[number];

/** Rights that only `--after-up` needs, also without changing anything. */
export const AFTER_UP_RIGHTS = [
  'elasticloadbalancing:DescribeLoadBalancers',
  'elasticloadbalancing:DescribeTargetGroups',
  'elasticloadbalancing:DescribeTargetHealth',
] as const;

/** An identity-based policy with the rights of the doctor. */
export const doctorPolicy = () => ({
  Version: '2012-10-17',
  Statement: [{ Sid: 'Doctor', Effect: 'Allow', Action: [...RIGHTS, ...AFTER_UP_RIGHTS].sort(), Resource: '*' }],
});
