import * as kms from '@pulumi/aws/kms';
import * as pulumi from '@pulumi/pulumi';
import { partitionOf, policyDocument, type PolicyStatement } from '../iam/policy-document';

export interface EncryptionKeyArgs {
  /** What it encrypts, for people who read the list of keys. */
  description: string;
  /** AWS account that owns it; whoever administers IAM there decides who may use it. */
  accountId: pulumi.Input<string>;
  region: string;
  /** Further statements of its policy, for AWS services that use it in their own name. Default: none. */
  statements?: PolicyStatement[];
  /** Pulumi refuses to delete it: without it what it encrypted is lost. Default: false. */
  protect?: boolean;
}

/** Days in which a deletion can still be taken back; the longest that KMS offers. */
const DELETION_DAYS = 30;

/** A KMS key with yearly rotation, and an alias. */
export class EncryptionKey extends pulumi.ComponentResource {
  readonly arn: pulumi.Output<string>;

  constructor(name: string, args: EncryptionKeyArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:EncryptionKey', name, {}, options);
    const inherited = { parent: this, ...(args.protect === undefined ? {} : { protect: args.protect }) };
    const key = new kms.Key(
      name,
      {
        description: args.description,
        enableKeyRotation: true,
        deletionWindowInDays: DELETION_DAYS,
        policy: policyDocument([
          {
            // The account's IAM policies decide. Without this nobody could change the key any more.
            Sid: 'Account',
            Effect: 'Allow',
            Principal: { AWS: pulumi.interpolate`arn:${partitionOf(args.region)}:iam::${args.accountId}:root` },
            Action: 'kms:*',
            Resource: '*',
          },
          ...(args.statements ?? []),
        ]),
      },
      inherited,
    );
    new kms.Alias(name, { targetKeyId: key.keyId }, inherited);
    this.arn = key.arn;
    this.registerOutputs({ arn: this.arn });
  }
}

/** Lets CloudWatch encrypt log groups of the account. */
export function cloudWatchLogsStatement(region: string, accountId: pulumi.Input<string>): PolicyStatement {
  const groups = pulumi.interpolate`arn:${partitionOf(region)}:logs:${region}:${accountId}:log-group:*`;
  return {
    Sid: 'CloudWatchLogs',
    Effect: 'Allow',
    Principal: { Service: `logs.${region}.amazonaws.com` },
    Action: ['kms:Encrypt', 'kms:Decrypt', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:DescribeKey'],
    Resource: '*',
    Condition: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': groups } },
  };
}
