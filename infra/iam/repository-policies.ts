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

const getReleases = ({ prefix }: RepositoryRef): string => releasesPrefix({ bucket: '', prefix });

/** Prefixes of the repository and of the releases beside it. */
const withReleases = (place: RepositoryRef): string[] => [place.prefix, getReleases(place)];

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
 * Permissions of the publisher for replicas with an agent. It creates objects. It replaces and deletes only head.json, the
 * lock of a migration, and files outside of the folders of versions, which servers without an agent read. So a
 * stolen token of the publisher cannot change or remove what a release names.
 *
 * Source of the condition keys: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
 * (November 2026).
 */
export function agentPublisherStatements(place: RepositoryRef): PolicyStatement[] {
  const { bucketArn, prefix } = place;
  const releases = getReleases(place);
  const all = withReleases(place).map((each) => objects(place, each));
  const isReplacement = { Null: { 's3:if-match': 'false' } };
  return [
    ...publisherStatements(place).map((statement) =>
      statement.Sid === 'Publish' ? { ...statement, Action: UPLOAD_ACTIONS } : statement,
    ),
    {
      Sid: 'Create',
      Effect: 'Allow',
      Action: 's3:PutObject',
      Resource: all,
      Condition: { Null: { 's3:if-none-match': 'false' } },
    },
    {
      Sid: 'UploadParts',
      Effect: 'Allow',
      Action: 's3:PutObject',
      Resource: all,
      Condition: { Bool: { 's3:ObjectCreationOperation': 'false' } },
    },
    {
      Sid: 'Replace',
      Effect: 'Allow',
      Action: 's3:PutObject',
      Resource: [`${prefix}/*`, `${releases}/head.json`, `${releases}/lock.json`].map(
        (key) => pulumi.interpolate`${bucketArn}/${key}`,
      ),
      Condition: isReplacement,
    },
    {
      Sid: 'ReplaceNoVersion',
      Effect: 'Deny',
      Action: 's3:PutObject',
      Resource: versionFiles(place),
      Condition: isReplacement,
    },
    { Sid: 'Delete', Effect: 'Allow', Action: 's3:DeleteObject', Resource: objects(place, prefix) },
    { Sid: DELETE_NO_VERSION, Effect: 'Deny', Action: 's3:DeleteObject', Resource: versionFiles(place) },
  ];
}

/** Besides what the publisher may do, the pruner deletes files that no retained release names. */
export function prunerStatements(place: RepositoryRef): PolicyStatement[] {
  const kept = objects(place, `${getReleases(place)}/kept`);
  return [
    ...agentPublisherStatements(place).filter(({ Sid }) => Sid !== DELETE_NO_VERSION),
    { Sid: 'Prune', Effect: 'Allow', Action: 's3:DeleteObject', Resource: kept },
  ];
}

const UPLOAD_ACTIONS = ['s3:AbortMultipartUpload', 's3:GetObject', 's3:ListMultipartUploadParts'];
const DELETE_NO_VERSION = 'DeleteNoVersion';

/** Names of versions are numbers, and IAM has no pattern for a digit. Other names that begin with one match as well. */
const versionFiles = ({ bucketArn, prefix }: RepositoryRef): pulumi.Output<string>[] =>
  Array.from({ length: 10 }, (_, digit) => pulumi.interpolate`${bucketArn}/${prefix}/*/${digit}*`);

/**
 * Permissions of `promote` on the repository that it copies from, for the policy of that bucket.
 * @param readers ARNs of roles
 */
export function readerStatements(place: RepositoryRef, readers: pulumi.Input<string>[]): PolicyStatement[] {
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
export const readerKeyStatement = (region: string, readers: pulumi.Input<string>[]): PolicyStatement => ({
  Sid: 'Readers',
  Effect: 'Allow',
  Principal: { AWS: readers },
  Action: 'kms:Decrypt',
  Resource: '*',
  Condition: { StringEquals: { 'kms:ViaService': `s3.${region}.amazonaws.com` } },
});
