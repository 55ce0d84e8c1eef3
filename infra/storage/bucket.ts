import * as s3 from '@pulumi/aws/s3';
import type { input as aws } from '@pulumi/aws/types';
import * as pulumi from '@pulumi/pulumi';
import { policyDocument, type PolicyStatement } from '../iam/policy-document';

type LifecycleRule = Omit<aws.s3.BucketLifecycleConfigurationRule, 'status'>;

interface BucketSettings {
  /** Whether Pulumi deletes the objects with the bucket. Default: false. */
  forceDestroy?: boolean;
  /** KMS key of new objects. Default: the keys of S3. */
  keyArn?: pulumi.Input<string>;
  /** Statements of the policy, in addition to one that rejects requests without TLS. */
  statements?: (bucket: s3.Bucket) => PolicyStatement[];
  rules: LifecycleRule[];
}

/**
 * Creates a bucket without public access and ACLs, with versions, encryption and events on EventBridge. The settings of a
 * bucket are deleted with it (`deletedWith`), so a bucket that S3 refuses to delete keeps them.
 * @returns `ready` must exist before objects are written
 */
export function createBucket(
  name: string,
  { forceDestroy, keyArn, statements, rules }: BucketSettings,
  bucketOptions: pulumi.CustomResourceOptions,
): { bucket: s3.Bucket; ready: pulumi.Resource[] } {
  const made = new s3.Bucket(name, { forceDestroy }, bucketOptions);
  const { bucket } = made;
  const options = { parent: made, deletedWith: made };
  const publicAccess = new s3.BucketPublicAccessBlock(
    name,
    { bucket, blockPublicAcls: true, blockPublicPolicy: true, ignorePublicAcls: true, restrictPublicBuckets: true },
    options,
  );
  new s3.BucketOwnershipControls(name, { bucket, rule: { objectOwnership: 'BucketOwnerEnforced' } }, options);
  const versioning = new s3.BucketVersioning(name, { bucket, versioningConfiguration: { status: 'Enabled' } }, options);
  // Users can add EventBridge rules that react to releases or deletions. Costs at most 1 USD per million objects.
  new s3.BucketNotification(name, { bucket, eventbridge: true }, options);
  const encryption = new s3.BucketServerSideEncryptionConfiguration(
    name,
    {
      bucket,
      rules: [
        keyArn === undefined
          ? { applyServerSideEncryptionByDefault: { sseAlgorithm: 'AES256' } }
          : {
              applyServerSideEncryptionByDefault: { sseAlgorithm: 'aws:kms', kmsMasterKeyId: keyArn },
              // One KMS request serves many objects, instead of one request for each.
              bucketKeyEnabled: true,
            },
      ],
    },
    options,
  );
  const policy = new s3.BucketPolicy(
    name,
    { bucket, policy: policyDocument([tlsOnly(made), ...(statements?.(made) ?? [])]) },
    // S3 rejects concurrent changes of the policy and the public access block.
    { ...options, dependsOn: [publicAccess] },
  );
  new s3.BucketLifecycleConfiguration(
    name,
    { bucket, rules: rules.map((rule) => ({ status: 'Enabled', filter: { prefix: '' }, ...rule })) },
    { ...options, dependsOn: [versioning] },
  );
  return { bucket: made, ready: [versioning, encryption, policy] };
}

/** Rejects requests without TLS. */
const tlsOnly = (bucket: s3.Bucket): PolicyStatement => ({
  Sid: 'TlsOnly',
  Effect: 'Deny',
  Principal: '*',
  Action: 's3:*',
  Resource: [bucket.arn, pulumi.interpolate`${bucket.arn}/*`],
  Condition: { Bool: { 'aws:SecureTransport': 'false' } },
});
