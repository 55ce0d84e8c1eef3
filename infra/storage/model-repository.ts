import * as s3 from '@pulumi/aws/s3';
import * as pulumi from '@pulumi/pulumi';
import { formatLocation } from '../../src/release/location';
import { createBucket } from './bucket';
import { EncryptionKey } from './encryption-key';
import type { PolicyStatement } from '../iam/policy-document';
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
  bucketReaders?: pulumi.Input<string>[];
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
    const { accountId, region, protect, bucketReaders: readers = [] } = args;
    const statements = readers.length === 0 ? [] : [readerKeyStatement(region, readers)];
    const key = new EncryptionKey(
      `${name}-key`,
      { description: `Models in ${args.title ?? name}`, accountId, region, statements, protect },
      { parent: this },
    );
    const { bucket, ready } = createBucket(
      name,
      {
        forceDestroy: protect === false,
        keyArn: key.arn,
        statements: (bucket) => getStatements(bucket.arn, args),
        rules: [
          {
            id: 'old-versions',
            noncurrentVersionExpiration: { noncurrentDays: args.oldVersionDays },
            expiration: { expiredObjectDeleteMarker: true },
          },
          {
            id: 'unfinished-uploads',
            abortIncompleteMultipartUpload: { daysAfterInitiation: UNFINISHED_UPLOAD_DAYS },
          },
        ],
      },
      // "pulumi destroy" fails at a bucket that contains models. Its key, without which no model can be read, then stays.
      { parent: this, protect, dependsOn: [key] },
    );
    this.logAccess(name, bucket, args);

    this.bucket = bucket.bucket;
    this.bucketArn = bucket.arn;
    this.keyArn = key.arn;
    this.url = bucket.bucket.apply((bucket) => formatLocation({ bucket, prefix: args.prefix }));
    this.region = region;
    this.ready = ready;
    this.registerOutputs({ url: this.url, bucket: this.bucket, bucketArn: this.bucketArn, keyArn: this.keyArn });
  }

  /** Creates a bucket for S3's access logs, with keys of S3, because S3 would need a permission to write with our KMS key. */
  private logAccess(name: string, source: s3.Bucket, { accountId, logDays, protect }: ModelRepositoryArgs): void {
    const logs = createBucket(
      `${name}-access-logs`,
      {
        forceDestroy: protect === false,
        statements: (bucket) => [
          {
            Sid: 'LogDelivery',
            Effect: 'Allow',
            Principal: { Service: 'logging.s3.amazonaws.com' },
            Action: 's3:PutObject',
            Resource: pulumi.interpolate`${bucket.arn}/*`,
            Condition: {
              ArnLike: { 'aws:SourceArn': source.arn },
              StringEquals: { 'aws:SourceAccount': accountId },
            },
          },
        ],
        rules: [
          {
            id: 'expire',
            expiration: { days: logDays },
            noncurrentVersionExpiration: { noncurrentDays: 1 },
            abortIncompleteMultipartUpload: { daysAfterInitiation: 1 },
          },
        ],
      },
      { parent: this, protect },
    );
    new s3.BucketLogging(
      name,
      { bucket: source.bucket, targetBucket: logs.bucket.bucket, targetPrefix: 'models/' },
      // S3 checks that it may write there.
      { parent: source, deletedWith: source, dependsOn: logs.ready },
    );
  }
}

/** Admits this account and the readers only. */
function getStatements(
  bucketArn: pulumi.Output<string>,
  { accountId, prefix, bucketReaders: readers = [] }: ModelRepositoryArgs,
): PolicyStatement[] {
  const hasReaders = readers.length > 0;
  return [
    {
      Sid: 'ThisAccountOnly',
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:*',
      Resource: [bucketArn, pulumi.interpolate`${bucketArn}/*`],
      Condition: {
        StringNotEquals: { 'aws:PrincipalAccount': accountId },
        BoolIfExists: { 'aws:PrincipalIsAWSService': 'false' },
        ArnNotEquals: hasReaders ? { 'aws:PrincipalArn': readers } : undefined,
      },
    },
    ...(hasReaders ? readerStatements({ bucketArn, prefix }, readers) : []),
  ];
}
