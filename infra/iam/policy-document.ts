import { partition } from '@aws-sdk/core/client';
import * as pulumi from '@pulumi/pulumi';

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

export const getPartition = (region: string): string => partition(region).name;

/**
 * The principal of CloudWatch Logs. Most services have one name in all partitions; this one has the domain of the partition
 * ([serverless](https://github.com/serverless/serverless/issues/12087), 2026-11-28).
 */
export const getLogsPrincipal = (region: string): string => `logs.${region}.${partition(region).dnsSuffix}`;

/** A region of the same partition that every account has. */
export const getHomeRegion = (region: string): string =>
  (partition(region) as unknown as { implicitGlobalRegion: string }).implicitGlobalRegion;

export const managedPolicyArn = (region: string, name: string): string =>
  `arn:${getPartition(region)}:iam::aws:policy/${name}`;

export const accessPolicyArn = (region: string, policy: string): string =>
  `arn:${getPartition(region)}:eks::aws:cluster-access-policy/${policy}`;
