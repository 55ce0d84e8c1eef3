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

/** Prefixes of the repository and of the releases beside it. */
const withReleases = (place: RepositoryRef): string[] => [place.prefix, getReleases(place)];

const useKey = ({ keyArn }: RepositoryRef, actions: string[]): PolicyStatement[] =>
  keyArn === undefined ? [] : [{ Sid: 'UseKey', Effect: 'Allow', Action: actions, Resource: keyArn }];

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

/**
 * Permissions of the publisher. It creates objects. It replaces and deletes only head.json, and files outside of the folders
 * of versions, which agents do not read. So a stolen token of the publisher cannot change or remove what a release names.
 *
 * Source of the condition keys: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
 * (November 2026).
 */
export function publisherStatements(place: RepositoryRef): PolicyStatement[] {
  const { bucketArn, prefix } = place;
  const prefixes = withReleases(place);
  const all = prefixes.map((each) => objects(place, each));
  const isReplacement = { Null: { 's3:if-match': 'false' } };
  return [
    listing(place, prefixes),
    {
      Sid: 'Publish',
      Effect: 'Allow',
      // S3 copies the versions of objects that a release names.
      Action: ['s3:AbortMultipartUpload', 's3:GetObject', 's3:GetObjectVersion'],
      Resource: all,
    },
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
      Resource: [`${prefix}/*`, `${getReleases(place)}/head.json`].map(
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
    ...useKey(place, ['kms:Decrypt', 'kms:GenerateDataKey']),
  ];
}

/** Besides what the publisher may do, the pruner deletes files that no retained release names. */
export function prunerStatements(place: RepositoryRef): PolicyStatement[] {
  const kept = objects(place, `${getReleases(place)}/kept`);
  return [
    ...publisherStatements(place).filter(({ Sid }) => Sid !== DELETE_NO_VERSION),
    { Sid: 'Prune', Effect: 'Allow', Action: 's3:DeleteObject', Resource: kept },
  ];
}

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
