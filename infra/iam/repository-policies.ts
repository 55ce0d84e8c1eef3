import * as pulumi from '@pulumi/pulumi';
import { releasesPrefix } from '../../src/publish/location';
import type { PolicyStatement } from './policy-document';

/** A model repository, as policies name it. */
export interface RepositoryPlace {
  bucketArn: pulumi.Input<string>;
  prefix: string;
  /** Key that its objects are encrypted with. Default: none that has to be allowed. */
  keyArn?: pulumi.Input<string>;
}

const objects = ({ bucketArn }: RepositoryPlace, prefix: string): pulumi.Output<string> =>
  pulumi.interpolate`${bucketArn}/${prefix}/*`;

/**
 * Listing below these prefixes. `IfExists`, because the same right decides two requests that have no prefix: Triton's
 * HeadBucket, without which it does not start, and whether a missing object is reported as missing (404) or refused
 * (403), by which the publisher tells "not there yet". The price: names of other objects in the bucket can be listed.
 */
const listing = ({ bucketArn }: RepositoryPlace, prefixes: string[]): PolicyStatement => ({
  Sid: 'List',
  Effect: 'Allow',
  Action: 's3:ListBucket',
  Resource: bucketArn,
  Condition: { StringLikeIfExists: { 's3:prefix': prefixes.map((prefix) => `${prefix}/*`) } },
});

/** The repository, and the releases beside it. */
const withReleases = ({ prefix }: RepositoryPlace): string[] => [prefix, releasesPrefix({ bucket: '', prefix })];

const useKey = ({ keyArn }: RepositoryPlace, actions: string[]): PolicyStatement[] =>
  keyArn === undefined ? [] : [{ Sid: 'UseKey', Effect: 'Allow', Action: actions, Resource: keyArn }];

/** What Triton does: it lists the repository and reads its objects. */
export function serverStatements(place: RepositoryPlace): PolicyStatement[] {
  return [
    listing(place, [place.prefix]),
    { Sid: 'Read', Effect: 'Allow', Action: 's3:GetObject', Resource: objects(place, place.prefix) },
    ...useKey(place, ['kms:Decrypt']),
  ];
}

/** What the publisher does (src/s3): to the repository, and to the releases beside it. */
export function publisherStatements(place: RepositoryPlace): PolicyStatement[] {
  const prefixes = withReleases(place);
  return [
    listing(place, prefixes),
    // IAM knows no prefix of such a listing.
    { Sid: 'ListUploads', Effect: 'Allow', Action: 's3:ListBucketMultipartUploads', Resource: place.bucketArn },
    {
      Sid: 'Publish',
      Effect: 'Allow',
      Action: [
        's3:AbortMultipartUpload',
        's3:DeleteObject',
        // A copy that turned out wrong is taken back as a version.
        's3:DeleteObjectVersion',
        's3:GetObject',
        's3:ListMultipartUploadParts',
        's3:PutObject',
      ],
      Resource: prefixes.map((prefix) => objects(place, prefix)),
    },
    // A release is restored from the versions that later ones replaced; those beside the repository are never.
    { Sid: 'ReadVersions', Effect: 'Allow', Action: 's3:GetObjectVersion', Resource: objects(place, place.prefix) },
    ...useKey(place, ['kms:Decrypt', 'kms:GenerateDataKey']),
  ];
}

/**
 * What `promote` does to the repository that it copies from, as the policy of that bucket.
 * @param readers ARNs of roles
 */
export function readerStatements(place: RepositoryPlace, readers: string[]): PolicyStatement[] {
  const prefixes = withReleases(place);
  const allowed: PolicyStatement[] = [
    listing(place, prefixes),
    {
      Sid: 'Read',
      Effect: 'Allow',
      Action: 's3:GetObject',
      Resource: prefixes.map((prefix) => objects(place, prefix)),
    },
  ];
  return allowed.map((statement) => ({ ...statement, Sid: `Readers${statement.Sid}`, Principal: { AWS: readers } }));
}

/** The same of the bucket's key, as its policy: only for what S3 reads in their name. */
export const readerKeyStatement = (region: string, readers: string[]): PolicyStatement => ({
  Sid: 'Readers',
  Effect: 'Allow',
  Principal: { AWS: readers },
  Action: 'kms:Decrypt',
  Resource: '*',
  Condition: { StringEquals: { 'kms:ViaService': `s3.${region}.amazonaws.com` } },
});
