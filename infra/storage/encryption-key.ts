import * as kms from '@pulumi/aws/kms';
import * as pulumi from '@pulumi/pulumi';
import { getLogsPrincipal, getPartition, policyDocument, type PolicyStatement } from '../iam/policy-document';

export interface EncryptionKeyArgs {
  /** Description of the encrypted data, shown in the list of keys. */
  description: string;
  /** AWS account that owns the key. Administrators of IAM in this account control who may use the key. */
  accountId: pulumi.Input<string>;
  region: string;
  /** Further statements of the key policy, for AWS services that use the key themselves. Default: none. */
  statements?: PolicyStatement[];
  /** Additional tags of the key. Default: none. */
  tags?: Record<string, string>;
  /** Pulumi refuses to delete the key, because the data that it encrypted would be lost. Default: the option of the component. */
  protect?: boolean;
}

/** Days in which a deletion can be cancelled; 30 is the maximum of KMS. */
const DELETION_DAYS = 30;

/** A KMS key with yearly rotation, and an alias. */
export class EncryptionKey extends pulumi.ComponentResource {
  readonly arn: pulumi.Output<string>;

  constructor(name: string, args: EncryptionKeyArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:EncryptionKey', name, {}, options);
    const inherited = { parent: this, protect: args.protect };
    const key = new kms.Key(
      name,
      {
        description: args.description,
        enableKeyRotation: true,
        deletionWindowInDays: DELETION_DAYS,
        ...(args.tags === undefined ? {} : { tags: args.tags }),
        policy: policyDocument([
          {
            // Delegates access control to the account's IAM policies. Without this statement the key could never be
            // changed again.
            Sid: 'Account',
            Effect: 'Allow',
            Principal: { AWS: pulumi.interpolate`arn:${getPartition(args.region)}:iam::${args.accountId}:root` },
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

/** Allows CloudWatch to encrypt log groups of the account. */
export function cloudWatchLogsStatement(region: string, accountId: pulumi.Input<string>): PolicyStatement {
  const groups = pulumi.interpolate`arn:${getPartition(region)}:logs:${region}:${accountId}:log-group:*`;
  return {
    Sid: 'CloudWatchLogs',
    Effect: 'Allow',
    Principal: { Service: getLogsPrincipal(region) },
    Action: ['kms:Encrypt', 'kms:Decrypt', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:DescribeKey'],
    Resource: '*',
    Condition: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': groups } },
  };
}
