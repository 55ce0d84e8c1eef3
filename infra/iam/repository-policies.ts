import * as pulumi from '@pulumi/pulumi';
import { releasesPrefix } from '../../src/release/location';
import type { PolicyStatement } from './policy-document';

export interface RepositoryRef {
  bucketArn: pulumi.Input<string>;
  prefix: string;
  /** KMS key of the objects. Default: none, so no key permission is granted. */
  keyArn?: pulumi.Input<string>;
}

const objects = ({ bucketArn }: RepositoryRef, prefix: string): pulumi.Output<string> =>
  pulumi.interpolate`${bucketArn}/${prefix}/*`;

/**
 * Allows listing below these prefixes. `IfExists`, because s3:ListBucket also decides whether S3 reports a missing object as
 * 404 or as 403, and such a request has no prefix. The price is that names of other objects in the bucket can be listed.
 */
const listing = ({ bucketArn }: RepositoryRef, prefixes: string[]): PolicyStatement => ({
  Sid: 'List',
  Effect: 'Allow',
  Action: 's3:ListBucket',
  Resource: bucketArn,
  Condition: { StringLikeIfExists: { 's3:prefix': prefixes.map((prefix) => `${prefix}/*`) } },
});

const getReleases = ({ prefix }: RepositoryRef): string => releasesPrefix({ bucket: '', prefix });

const useKey = ({ keyArn }: RepositoryRef, actions: string[]): PolicyStatement[] =>
  keyArn === undefined ? [] : [{ Sid: 'UseKey', Effect: 'Allow', Action: actions, Resource: keyArn }];

/** Allows reading releases. Without the permission to list, S3 reports a missing object as forbidden. */
const reading = (place: RepositoryRef): PolicyStatement[] => [
  listing(place, [getReleases(place)]),
  { Sid: 'Read', Effect: 'Allow', Action: 's3:GetObject', Resource: objects(place, getReleases(place)) },
];

/** Permissions of an agent beside Triton, which reads releases. */
export const agentStatements = (place: RepositoryRef): PolicyStatement[] => [
  ...reading(place),
  ...useKey(place, ['kms:Decrypt']),
];

/**
 * Permissions of the publisher. In the releases it creates objects, and replaces only head.json and view.json; it deletes
 * only in the repository, which agents do not read. So a stolen token of the publisher cannot change or remove what a
 * release names.
 *
 * Source of the condition keys: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
 * (November 2026).
 */
export function publisherStatements(place: RepositoryRef): PolicyStatement[] {
  const { bucketArn, prefix } = place;
  const prefixes = [prefix, getReleases(place)];
  const releases = objects(place, getReleases(place));
  return [
    listing(place, prefixes),
    {
      Sid: 'Publish',
      Effect: 'Allow',
      Action: ['s3:AbortMultipartUpload', 's3:GetObject'],
      Resource: prefixes.map((each) => objects(place, each)),
    },
    {
      Sid: 'Create',
      Effect: 'Allow',
      Action: 's3:PutObject',
      Resource: releases,
      Condition: { Null: { 's3:if-none-match': 'false' } },
    },
    {
      Sid: 'UploadParts',
      Effect: 'Allow',
      Action: 's3:PutObject',
      Resource: releases,
      Condition: { Bool: { 's3:ObjectCreationOperation': 'false' } },
    },
    {
      Sid: 'Replace',
      Effect: 'Allow',
      Action: 's3:PutObject',
      Resource: ['head.json', 'view.json'].map(
        (name) => pulumi.interpolate`${bucketArn}/${getReleases(place)}/${name}`,
      ),
      Condition: { Null: { 's3:if-match': 'false' } },
    },
    { Sid: 'View', Effect: 'Allow', Action: ['s3:DeleteObject', 's3:PutObject'], Resource: objects(place, prefix) },
    ...useKey(place, ['kms:Decrypt', 'kms:GenerateDataKey']),
  ];
}

/** Besides what the publisher may do, the pruner deletes files that no retained release names. */
export const prunerStatements = (place: RepositoryRef): PolicyStatement[] => [
  ...publisherStatements(place),
  { Sid: 'Prune', Effect: 'Allow', Action: 's3:DeleteObject', Resource: objects(place, `${getReleases(place)}/files`) },
];

/**
 * Permissions of `promote` on the repository that it copies from, for the policy of that bucket.
 * @param readers ARNs of roles
 */
export const readerStatements = (place: RepositoryRef, readers: pulumi.Input<string>[]): PolicyStatement[] =>
  reading(place).map((statement) => ({ ...statement, Sid: `Readers${statement.Sid}`, Principal: { AWS: readers } }));

/** The same for the policy of the bucket's key: allows only decryption that S3 does on behalf of the readers. */
export const readerKeyStatement = (region: string, readers: pulumi.Input<string>[]): PolicyStatement => ({
  Sid: 'Readers',
  Effect: 'Allow',
  Principal: { AWS: readers },
  Action: 'kms:Decrypt',
  Resource: '*',
  Condition: { StringEquals: { 'kms:ViaService': `s3.${region}.amazonaws.com` } },
});
