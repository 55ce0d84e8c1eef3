import * as s3 from '@pulumi/aws/s3';
import * as pulumi from '@pulumi/pulumi';
import { formatLocation } from '../../src/release/location';
import { AccessLogBucket } from './access-log-bucket';
import { createBucketDefaults, encryptBucket, tlsOnly } from './bucket';
import { EncryptionKey } from './encryption-key';
import { policyDocument } from '../iam/policy-document';
import { readerKeyStatement, readerStatements } from '../iam/repository-policies';

export interface ModelRepositoryArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  /** Folder of the models in the bucket. Releases are in PREFIX.releases beside it. */
  prefix: string;
  region: string;
  accountId: pulumi.Input<string>;
  /** Days to keep replaced and deleted versions of objects. */
  oldVersionDays: number;
  /** Days to keep access logs. */
  logDays: number;
  /** ARNs of existing roles, of any account, that may read the repository to promote from it. Default: none. */
  readers?: pulumi.Input<string>[];
  /**
   * Pulumi refuses to delete the bucket and the key. If false, "pulumi destroy" deletes the models and access logs too.
   * Default: the option of the component, and a bucket with objects is not deleted.
   */
  protect?: boolean;
}

/** When the parts of an interrupted upload are deleted. */
const UNFINISHED_UPLOAD_DAYS = 7;

/**
 * The bucket of the models: versioned, encrypted, accessible only to this account and named readers.
 */
export class ModelRepository extends pulumi.ComponentResource {
  readonly bucket: pulumi.Output<string>;
  readonly bucketArn: pulumi.Output<string>;
  readonly keyArn: pulumi.Output<string>;
  /** `s3://BUCKET/PREFIX` */
  readonly url: pulumi.Output<string>;
  readonly region: string;
  /** Must exist before objects are uploaded: the policy and the encryption of the bucket, and its versions. */
  readonly ready: pulumi.Resource[];

  constructor(name: string, args: ModelRepositoryArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:index:ModelRepository', name, {}, options);
    const { accountId, region, protect, readers = [] } = args;
    const statements = readers.length === 0 ? [] : [readerKeyStatement(region, readers)];
    const key = new EncryptionKey(
      `${name}-key`,
      { description: `Models in ${args.title ?? name}`, accountId, region, statements, protect },
      { parent: this },
    );
    const bucket = new s3.Bucket(
      name,
      { forceDestroy: protect === false },
      // "pulumi destroy" fails at a bucket that contains models. Its key, without which no model can be read, then stays.
      { parent: this, protect, dependsOn: [key] },
    );
    const { publicAccess, versioning } = createBucketDefaults(name, bucket);
    const encryption = encryptBucket(name, bucket, key.arn);
    const policy = this.createBucketPolicy(name, bucket, args, publicAccess);
    this.createLifecycle(name, bucket, args, versioning);
    this.logAccess(name, bucket, args);

    this.bucket = bucket.bucket;
    this.bucketArn = bucket.arn;
    this.keyArn = key.arn;
    this.url = bucket.bucket.apply((bucket) => formatLocation({ bucket, prefix: args.prefix }));
    this.region = region;
    this.ready = [versioning, encryption, policy];
    this.registerOutputs({ url: this.url, bucket: this.bucket, bucketArn: this.bucketArn, keyArn: this.keyArn });
  }

  private createBucketPolicy(
    name: string,
    bucket: s3.Bucket,
    { accountId, prefix, readers = [] }: ModelRepositoryArgs,
    publicAccess: pulumi.Resource,
  ): pulumi.Resource {
    const hasReaders = readers.length > 0;
    return new s3.BucketPolicy(
      name,
      {
        bucket: bucket.bucket,
        policy: policyDocument([
          tlsOnly(bucket),
          {
            Sid: 'ThisAccountOnly',
            Effect: 'Deny',
            Principal: '*',
            Action: 's3:*',
            Resource: [bucket.arn, pulumi.interpolate`${bucket.arn}/*`],
            Condition: {
              StringNotEquals: { 'aws:PrincipalAccount': accountId },
              BoolIfExists: { 'aws:PrincipalIsAWSService': 'false' },
              ArnNotEquals: hasReaders ? { 'aws:PrincipalArn': readers } : undefined,
            },
          },
          ...(hasReaders ? readerStatements({ bucketArn: bucket.arn, prefix }, readers) : []),
        ]),
      },
      // S3 rejects concurrent changes of the policy and the public access block.
      { parent: bucket, deletedWith: bucket, dependsOn: [publicAccess] },
    );
  }

  private createLifecycle(
    name: string,
    bucket: s3.Bucket,
    args: ModelRepositoryArgs,
    versioning: pulumi.Resource,
  ): void {
    new s3.BucketLifecycleConfiguration(
      name,
      {
        bucket: bucket.bucket,
        rules: [
          {
            id: 'old-versions',
            status: 'Enabled',
            filter: { prefix: '' },
            noncurrentVersionExpiration: { noncurrentDays: args.oldVersionDays },
            expiration: { expiredObjectDeleteMarker: true },
          },
          {
            id: 'unfinished-uploads',
            status: 'Enabled',
            filter: { prefix: '' },
            abortIncompleteMultipartUpload: { daysAfterInitiation: UNFINISHED_UPLOAD_DAYS },
          },
        ],
      },
      { parent: bucket, deletedWith: bucket, dependsOn: [versioning] },
    );
  }

  private logAccess(name: string, bucket: s3.Bucket, args: ModelRepositoryArgs): void {
    const logs = new AccessLogBucket(
      `${name}-access-logs`,
      {
        sourceBucketArn: bucket.arn,
        accountId: args.accountId,
        days: args.logDays,
        protect: args.protect,
      },
      { parent: this },
    );
    new s3.BucketLogging(
      name,
      { bucket: bucket.bucket, targetBucket: logs.bucket, targetPrefix: 'models/' },
      { parent: bucket, deletedWith: bucket, dependsOn: logs.ready },
    );
  }
}
