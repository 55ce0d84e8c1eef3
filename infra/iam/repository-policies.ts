import * as pulumi from '@pulumi/pulumi';
import { releasesPrefix } from '../../src/release/location';
import type { PolicyStatement } from './policy-document';

/** The bucket, prefix and key of a model repository. */
export interface RepositoryRef {
  bucketArn: pulumi.Input<string>;
  prefix: string;
  /** KMS key of the objects. Default: none, so no key permission is granted. */
  keyArn?: pulumi.Input<string>;
}

const objects = ({ bucketArn }: RepositoryRef, prefix: string): pulumi.Output<string> =>
  pulumi.interpolate`${bucketArn}/${prefix}/*`;

/**
 * Allows listing below these prefixes. `IfExists`, because s3:ListBucket also governs two requests that have no prefix:
 * HeadBucket, which Triton sends at its start and must not fail, and whether S3 reports a missing object as 404 or as
 * 403. The publisher needs 404 to recognize missing objects. The price is that names of other objects in the bucket can
 * be listed.
 */
const listing = ({ bucketArn }: RepositoryRef, prefixes: string[]): PolicyStatement => ({
  Sid: 'List',
  Effect: 'Allow',
  Action: 's3:ListBucket',
  Resource: bucketArn,
  Condition: { StringLikeIfExists: { 's3:prefix': prefixes.map((prefix) => `${prefix}/*`) } },
});

/** Prefixes of the repository and of the releases beside it. */
const withReleases = ({ prefix }: RepositoryRef): string[] => [prefix, releasesPrefix({ bucket: '', prefix })];

const useKey = ({ keyArn }: RepositoryRef, actions: string[]): PolicyStatement[] =>
  keyArn === undefined ? [] : [{ Sid: 'UseKey', Effect: 'Allow', Action: actions, Resource: keyArn }];

/** Permissions of Triton, which lists the repository and reads its objects. */
export function serverStatements(place: RepositoryRef): PolicyStatement[] {
  return [
    listing(place, [place.prefix]),
    { Sid: 'Read', Effect: 'Allow', Action: 's3:GetObject', Resource: objects(place, place.prefix) },
    ...useKey(place, ['kms:Decrypt']),
  ];
}

/**
 * Permissions of an agent beside Triton, which reads the versions of objects that a release names. It lists nothing:
 * without the permission to list, S3 reports a missing object as forbidden.
 */
export function agentStatements(place: RepositoryRef): PolicyStatement[] {
  const prefixes = withReleases(place);
  return [
    listing(place, prefixes),
    {
      Sid: 'Read',
      Effect: 'Allow',
      Action: ['s3:GetObject', 's3:GetObjectVersion'],
      Resource: prefixes.map((prefix) => objects(place, prefix)),
    },
    ...useKey(place, ['kms:Decrypt']),
  ];
}

/** Permissions of the publisher (src/s3) on the repository and the releases beside it. */
export function publisherStatements(place: RepositoryRef): PolicyStatement[] {
  const prefixes = withReleases(place);
  return [
    listing(place, prefixes),
    // IAM cannot restrict this listing to a prefix.
    { Sid: 'ListUploads', Effect: 'Allow', Action: 's3:ListBucketMultipartUploads', Resource: place.bucketArn },
    {
      Sid: 'Publish',
      Effect: 'Allow',
      Action: [
        's3:AbortMultipartUpload',
        's3:DeleteObject',
        // The publisher deletes an incorrect copy by its version.
        's3:DeleteObjectVersion',
        's3:GetObject',
        's3:ListMultipartUploadParts',
        's3:PutObject',
      ],
      Resource: prefixes.map((prefix) => objects(place, prefix)),
    },
    // A rollback restores object versions that later releases replaced, and copies files beside the versions of models,
    // which are in PREFIX.releases/kept.
    {
      Sid: 'ReadVersions',
      Effect: 'Allow',
      Action: 's3:GetObjectVersion',
      Resource: prefixes.map((prefix) => objects(place, prefix)),
    },
    ...useKey(place, ['kms:Decrypt', 'kms:GenerateDataKey']),
  ];
}

/**
 * Permissions of `promote` on the repository that it copies from, for the policy of that bucket.
 * @param readers ARNs of roles
 */
export function readerStatements(place: RepositoryRef, readers: string[]): PolicyStatement[] {
  const prefixes = withReleases(place);
  const allowed: PolicyStatement[] = [
    listing(place, prefixes),
    {
      Sid: 'Read',
      Effect: 'Allow',
      Action: ['s3:GetObject', 's3:GetObjectVersion'],
      Resource: prefixes.map((prefix) => objects(place, prefix)),
    },
  ];
  return allowed.map((statement) => ({ ...statement, Sid: `Readers${statement.Sid}`, Principal: { AWS: readers } }));
}

/** The same for the policy of the bucket's key: allows only decryption that S3 does on behalf of the readers. */
export const readerKeyStatement = (region: string, readers: string[]): PolicyStatement => ({
  Sid: 'Readers',
  Effect: 'Allow',
  Principal: { AWS: readers },
  Action: 'kms:Decrypt',
  Resource: '*',
  Condition: { StringEquals: { 'kms:ViaService': `s3.${region}.amazonaws.com` } },
});
