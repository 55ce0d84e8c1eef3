import type { Call } from './iam';

/** ARNs of a model repository, for constructed calls. */
export interface RepositoryArns {
  bucket: string;
  /** Without leading and trailing slashes. */
  prefix: string;
  /** ARN of the KMS key. */
  key: string;
  region: string;
}

interface Permission {
  action: string;
  /** Kind of resource: the bucket, a listing of the bucket, an object, or the key that encrypts objects. */
  of: 'bucket' | 'listing' | 'object' | 'key';
  /** Operation that needs the permission. */
  why: string;
}

/** All permissions that a release agent needs. The objects are those of the repository and those beside it. */
export const AGENT_PERMISSIONS: readonly Permission[] = [
  { action: 's3:ListBucket', of: 'bucket', why: 'a missing object is reported as missing, not as forbidden' },
  { action: 's3:GetObject', of: 'object', why: 'releases' },
  { action: 'kms:Decrypt', of: 'key', why: 'reading what is encrypted' },
];

/** All permissions that the publisher needs, as recorded from publish, prune, rollback and status. */
export const PUBLISHER_PERMISSIONS: readonly Permission[] = [
  // Also without a prefix, because this call is not a listing.
  { action: 's3:ListBucket', of: 'bucket', why: 'a missing object is reported as missing, not as forbidden' },
  { action: 's3:ListBucket', of: 'listing', why: 'what is there' },
  { action: 's3:GetObject', of: 'object', why: 'releases, and what S3 copies' },
  { action: 's3:PutObject', of: 'object', why: 'models and releases' },
  { action: 's3:AbortMultipartUpload', of: 'object', why: 'aborting an upload that failed' },
  { action: 's3:DeleteObject', of: 'object', why: 'what the repository has of models that a release removes' },
  { action: 'kms:GenerateDataKey', of: 'key', why: 'writing what is encrypted' },
  { action: 'kms:Decrypt', of: 'key', why: 'reading what is encrypted, and the parts of an upload' },
];

/** All permissions that promote needs on its source repository, as recorded. */
export const READER_PERMISSIONS: readonly Permission[] = [
  { action: 's3:ListBucket', of: 'bucket', why: 'a missing object is reported as missing, not as forbidden' },
  { action: 's3:ListBucket', of: 'listing', why: 'whether a repository without head.json has lost it' },
  { action: 's3:GetObject', of: 'object', why: 'releases, and what S3 copies' },
  { action: 'kms:Decrypt', of: 'key', why: 'reading what is encrypted' },
];

/**
 * One call for each permission and each place.
 * @param places prefixes of listings and of keys of objects
 */
export function getCalls(permissions: readonly Permission[], at: RepositoryArns, places: readonly string[]): Call[] {
  const bucket = `arn:aws:s3:::${at.bucket}`;
  return permissions.flatMap(({ action, of }): Call[] => {
    switch (of) {
      case 'bucket':
        return [{ action, resource: bucket }];
      case 'listing':
        return places.map((place) => ({ action, resource: bucket, context: { 's3:prefix': `${place}/` } }));
      case 'object':
        return places.map((place) => ({
          action,
          resource: `${bucket}/${place}/bert/1/model.pt`,
        }));
      case 'key':
        return [{ action, resource: at.key, context: { 'kms:ViaService': `s3.${at.region}.amazonaws.com` } }];
    }
  });
}
