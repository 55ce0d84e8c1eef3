import * as s3 from '@pulumi/aws/s3';
import * as pulumi from '@pulumi/pulumi';
import { createBucketDefaults, tlsOnly } from './bucket';
import { policyDocument } from '../iam/policy-document';

export interface AccessLogBucketArgs {
  /** The bucket whose accesses are logged. S3 may write logs of no other bucket. */
  sourceBucketArn: pulumi.Input<string>;
  accountId: pulumi.Input<string>;
  /** Days to keep the logs. */
  days: number;
  /** As in ModelRepositoryArgs. */
  protect?: boolean;
}

/** A bucket for S3's access logs of another bucket. */
export class AccessLogBucket extends pulumi.ComponentResource {
  readonly bucket: pulumi.Output<string>;
  /** Must exist before logging is enabled, because S3 then checks that it may write here. */
  readonly ready: pulumi.Resource[];

  constructor(name: string, args: AccessLogBucketArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:AccessLogBucket', name, {}, options);
    const { protect } = args;
    const bucket = new s3.Bucket(name, { forceDestroy: protect === false }, { parent: this, protect });
    const { publicAccess, versioning } = createBucketDefaults(name, bucket);
    new s3.BucketServerSideEncryptionConfiguration(
      name,
      // Encrypted with keys of S3, because S3 would need a permission to write with our KMS key.
      { bucket: bucket.bucket, rules: [{ applyServerSideEncryptionByDefault: { sseAlgorithm: 'AES256' } }] },
      { parent: bucket, deletedWith: bucket },
    );
    new s3.BucketLifecycleConfiguration(
      name,
      {
        bucket: bucket.bucket,
        rules: [
          {
            id: 'expire',
            status: 'Enabled',
            filter: { prefix: '' },
            expiration: { days: args.days },
            noncurrentVersionExpiration: { noncurrentDays: 1 },
            abortIncompleteMultipartUpload: { daysAfterInitiation: 1 },
          },
        ],
      },
      { parent: bucket, deletedWith: bucket, dependsOn: [versioning] },
    );
    const policy = new s3.BucketPolicy(
      name,
      {
        bucket: bucket.bucket,
        policy: policyDocument([
          tlsOnly(bucket),
          {
            Sid: 'LogDelivery',
            Effect: 'Allow',
            Principal: { Service: 'logging.s3.amazonaws.com' },
            Action: 's3:PutObject',
            Resource: pulumi.interpolate`${bucket.arn}/*`,
            Condition: {
              ArnLike: { 'aws:SourceArn': args.sourceBucketArn },
              StringEquals: { 'aws:SourceAccount': args.accountId },
            },
          },
        ]),
      },
      { parent: bucket, deletedWith: bucket, dependsOn: [publicAccess] },
    );
    this.bucket = bucket.bucket;
    this.ready = [policy];
    this.registerOutputs({ bucket: this.bucket });
  }
}
