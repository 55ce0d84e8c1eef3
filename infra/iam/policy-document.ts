import * as pulumi from '@pulumi/pulumi';

/** A statement of an IAM, key or bucket policy. */
export interface PolicyStatement {
  Sid: string;
  Effect: 'Allow' | 'Deny';
  Principal?: '*' | Record<string, pulumi.Input<string> | pulumi.Input<string>[]>;
  Action: string | string[];
  Resource: pulumi.Input<string> | pulumi.Input<string>[];
  Condition?: Record<string, Record<string, pulumi.Input<string | string[]> | pulumi.Input<string>[]> | undefined>;
}

/** A policy in AWS's JSON format. */
export const policyDocument = (statements: PolicyStatement[]): pulumi.Output<string> =>
  pulumi.jsonStringify({ Version: '2012-10-17', Statement: statements });

/** Trust policy that lets an AWS service assume a role. */
export const serviceTrust = (service: string, ...actions: string[]): pulumi.Output<string> =>
  pulumi.jsonStringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Principal: { Service: service }, Action: ['sts:AssumeRole', ...actions] }],
  });

/** Trust policy that lets tokens of an identity provider assume a role if they meet the condition. */
export const federatedTrust = (
  providerArn: pulumi.Input<string>,
  condition: pulumi.Input<Record<string, Record<string, string | string[]>>>,
): pulumi.Output<string> =>
  pulumi.jsonStringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { Federated: providerArn },
        Action: 'sts:AssumeRoleWithWebIdentity',
        Condition: condition,
      },
    ],
  });

/**
 * The partitions of AWS: how the names of their regions begin, a region that every account has, and the domain of services.
 * A test compares names and domains with the table of the AWS SDK.
 */
const PARTITIONS = [
  { regions: /^cn-/, name: 'aws-cn', home: 'cn-north-1', domain: 'amazonaws.com.cn' },
  { regions: /^us-gov-/, name: 'aws-us-gov', home: 'us-gov-west-1', domain: 'amazonaws.com' },
  { regions: /^eusc-/, name: 'aws-eusc', home: 'eusc-de-east-1', domain: 'amazonaws.eu' },
  { regions: /^us-iso-/, name: 'aws-iso', home: 'us-iso-east-1', domain: 'c2s.ic.gov' },
  { regions: /^us-isob-/, name: 'aws-iso-b', home: 'us-isob-east-1', domain: 'sc2s.sgov.gov' },
  { regions: /^eu-isoe-/, name: 'aws-iso-e', home: 'eu-isoe-west-1', domain: 'cloud.adc-e.uk' },
  { regions: /^us-isof-/, name: 'aws-iso-f', home: 'us-isof-south-1', domain: 'csp.hci.ic.gov' },
];
const COMMERCIAL = { name: 'aws', home: 'us-east-1', domain: 'amazonaws.com' };

const findPartition = (region: string): typeof COMMERCIAL =>
  PARTITIONS.find(({ regions }) => regions.test(region)) ?? COMMERCIAL;

/** The AWS partition of a region, as in ARNs. */
export const getPartition = (region: string): string => findPartition(region).name;

/**
 * The principal of CloudWatch Logs. Most services have one name in all partitions; this one has the domain of the partition
 * ([serverless](https://github.com/serverless/serverless/issues/12087), 2026-11-28).
 */
export const getLogsPrincipal = (region: string): string => `logs.${region}.${findPartition(region).domain}`;

/** A region of the same partition that every account has. */
export const getHomeRegion = (region: string): string => findPartition(region).home;

export const managedPolicyArn = (region: string, name: string): string =>
  `arn:${getPartition(region)}:iam::aws:policy/${name}`;

export const accessPolicyArn = (region: string, policy: string): string =>
  `arn:${getPartition(region)}:eks::aws:cluster-access-policy/${policy}`;
