import * as s3 from '@pulumi/aws/s3';
import * as pulumi from '@pulumi/pulumi';
import type { PolicyStatement } from '../iam/policy-document';

/**
 * Configures what all our buckets have in common: no public access, no ACLs, versioning, and events on EventBridge. The
 * settings of a bucket are deleted with it (`deletedWith`), so a bucket that S3 refuses to delete keeps them.
 */
export function createBucketDefaults(name: string, bucket: s3.Bucket) {
  const options = { parent: bucket, deletedWith: bucket };
  const publicAccess = new s3.BucketPublicAccessBlock(
    name,
    {
      bucket: bucket.bucket,
      blockPublicAcls: true,
      blockPublicPolicy: true,
      ignorePublicAcls: true,
      restrictPublicBuckets: true,
    },
    options,
  );
  new s3.BucketOwnershipControls(
    name,
    { bucket: bucket.bucket, rule: { objectOwnership: 'BucketOwnerEnforced' } },
    options,
  );
  const versioning = new s3.BucketVersioning(
    name,
    { bucket: bucket.bucket, versioningConfiguration: { status: 'Enabled' } },
    options,
  );
  // Users can add EventBridge rules that react to releases or deletions. Costs at most 1 USD per million objects.
  new s3.BucketNotification(name, { bucket: bucket.bucket, eventbridge: true }, options);
  return { publicAccess, versioning };
}

/** Encrypts new objects with a key. */
export const encryptBucket = (
  name: string,
  bucket: s3.Bucket,
  keyArn: pulumi.Input<string>,
): s3.BucketServerSideEncryptionConfiguration =>
  new s3.BucketServerSideEncryptionConfiguration(
    name,
    {
      bucket: bucket.bucket,
      rules: [
        {
          applyServerSideEncryptionByDefault: { sseAlgorithm: 'aws:kms', kmsMasterKeyId: keyArn },
          // One KMS request serves many objects, instead of one request for each.
          bucketKeyEnabled: true,
        },
      ],
    },
    { parent: bucket, deletedWith: bucket },
  );

/** Rejects requests without TLS. */
export const tlsOnly = (bucket: s3.Bucket): PolicyStatement => ({
  Sid: 'TlsOnly',
  Effect: 'Deny',
  Principal: '*',
  Action: 's3:*',
  Resource: [bucket.arn, pulumi.interpolate`${bucket.arn}/*`],
  Condition: { Bool: { 'aws:SecureTransport': 'false' } },
});
