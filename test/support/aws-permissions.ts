import type { Call } from './iam';

/** Where a model repository is, for calls that are made up. */
export interface RepositoryArns {
  bucket: string;
  /** Without slashes at its ends. */
  prefix: string;
  /** ARN of the KMS key. */
  key: string;
  region: string;
}

interface Permission {
  action: string;
  /** What it is asked of: the bucket, as a listing of it or not; an object; or the key that objects are encrypted with. */
  of: 'bucket' | 'listing' | 'object' | 'key';
  /** Only asked of objects in the repository itself, not of what the publisher keeps beside it. */
  repositoryOnly?: true;
  /** What asks for it. */
  why: string;
}

/**
 * All that Triton asks for, by its source (core/src/filesystem/implementations/s3.h) and as recorded from a real server:
 * test/integration/aws-permissions.test.ts compares.
 */
export const TRITON_PERMISSIONS: readonly Permission[] = [
  // A condition that demands a prefix refuses this one, which has none.
  { action: 's3:ListBucket', of: 'bucket', why: 'HeadBucket, before each look at a folder' },
  { action: 's3:ListBucket', of: 'listing', why: 'the models, their versions and their files' },
  { action: 's3:GetObject', of: 'object', why: 'configurations and weights, and when they were written' },
  { action: 'kms:Decrypt', of: 'key', why: 'reading what is encrypted' },
];

/** All that the publisher asks for, as recorded from publish, resume, prune, rollback and status. */
export const PUBLISHER_PERMISSIONS: readonly Permission[] = [
  // Again without a prefix: it is not a listing.
  { action: 's3:ListBucket', of: 'bucket', why: 'a missing object is told as missing, not as forbidden' },
  { action: 's3:ListBucket', of: 'listing', why: 'what is there' },
  { action: 's3:ListBucketMultipartUploads', of: 'bucket', why: 'uploads that an earlier run began' },
  { action: 's3:GetObject', of: 'object', why: 'the lock, releases, checksums of what is there' },
  { action: 's3:GetObjectVersion', of: 'object', repositoryOnly: true, why: 'a rollback to what was pruned' },
  { action: 's3:PutObject', of: 'object', why: 'models, releases, the lock' },
  { action: 's3:ListMultipartUploadParts', of: 'object', why: 'parts that need not be sent again' },
  { action: 's3:AbortMultipartUpload', of: 'object', why: 'uploads that nobody will go on with' },
  { action: 's3:DeleteObject', of: 'object', why: '--prune, giving the lock back' },
  { action: 's3:DeleteObjectVersion', of: 'object', why: 'taking a copy back that turned out to be wrong' },
  { action: 'kms:GenerateDataKey', of: 'key', why: 'writing what is encrypted' },
  { action: 'kms:Decrypt', of: 'key', why: 'reading what is encrypted, and the parts of an upload' },
];

/** All that promote asks the repository for that it copies from, as recorded. */
export const READER_PERMISSIONS: readonly Permission[] = [
  { action: 's3:ListBucket', of: 'bucket', why: 'a missing object is told as missing, not as forbidden' },
  { action: 's3:ListBucket', of: 'listing', why: '--release, by a part of its id' },
  { action: 's3:GetObject', of: 'object', why: 'releases, and what S3 copies' },
  { action: 'kms:Decrypt', of: 'key', why: 'reading what is encrypted' },
];

/** One call for each permission and each place: prefixes of listings, keys of objects. The first place is the repository. */
export function callsOf(permissions: readonly Permission[], at: RepositoryArns, places: readonly string[]): Call[] {
  const bucket = `arn:aws:s3:::${at.bucket}`;
  return permissions.flatMap(({ action, of, repositoryOnly = false }): Call[] => {
    switch (of) {
      case 'bucket':
        return [{ action, resource: bucket }];
      case 'listing':
        return places.map((place) => ({ action, resource: bucket, context: { 's3:prefix': `${place}/` } }));
      case 'object':
        return (repositoryOnly ? places.slice(0, 1) : places).map((place) => ({
          action,
          resource: `${bucket}/${place}/bert/1/model.pt`,
        }));
      case 'key':
        return [{ action, resource: at.key, context: { 'kms:ViaService': `s3.${at.region}.amazonaws.com` } }];
    }
  });
}
