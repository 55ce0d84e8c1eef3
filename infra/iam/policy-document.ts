import * as pulumi from '@pulumi/pulumi';

/** A statement of an IAM, key or bucket policy. */
export interface PolicyStatement {
  Sid: string;
  Effect: 'Allow' | 'Deny';
  Principal?: '*' | Record<string, pulumi.Input<string> | string[]>;
  Action: string | string[];
  Resource: pulumi.Input<string> | pulumi.Input<string>[];
  Condition?: Record<string, Record<string, pulumi.Input<string | string[]>> | undefined>;
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

/** How the names of regions outside the commercial partition begin. A test compares this with the table of the AWS SDK. */
const PARTITIONS: readonly (readonly [start: string, partition: string])[] = [
  ['cn-', 'aws-cn'],
  ['us-gov-', 'aws-us-gov'],
  ['eusc-', 'aws-eusc'],
  ['us-iso-', 'aws-iso'],
  ['us-isob-', 'aws-iso-b'],
  ['eu-isoe-', 'aws-iso-e'],
  ['us-isof-', 'aws-iso-f'],
];

/** The AWS partition of a region, as in ARNs. */
export const getPartition = (region: string): string =>
  PARTITIONS.find(([start]) => region.startsWith(start))?.[1] ?? 'aws';

export const managedPolicyArn = (region: string, name: string): string =>
  `arn:${getPartition(region)}:iam::aws:policy/${name}`;

export const accessPolicyArn = (region: string, policy: string): string =>
  `arn:${getPartition(region)}:eks::aws:cluster-access-policy/${policy}`;
