import * as pulumi from '@pulumi/pulumi';
import { UserError } from '../../src/core/errors';
import type { ProblemList } from '../../src/core/problems';
import { parseLocation } from '../../src/release/location';
import type { ConfigValues } from './config';
import type { ModelRepositorySettings, PublisherSettings } from './types';

const ELSEWHERE = ['s3Endpoint', 's3AccessKeyId', 's3SecretAccessKey'] as const;

/** Reads the settings of the bucket and of the access to it. */
export function modelRepositorySettings(
  values: ConfigValues,
  stackRegion: string,
  problems: ProblemList,
): ModelRepositorySettings {
  const region = values.bucketRegion ?? stackRegion;
  const prefix = checkedPrefix(values, problems);
  const bucket = values.bucketName;
  if (values.protect && values.bucketForceDestroy) {
    problems.add('bucketForceDestroy', 'is true, but protect is true too', { hint: 'set one of them to false' });
  }
  if (bucket === undefined) {
    for (const key of [...ELSEWHERE, 'bucketKmsKeyArn', 'bucketRegion'] as const) {
      if (values[key] !== undefined)
        problems.add(key, 'is set without bucketName', { hint: 'set bucketName to the existing bucket, or remove it' });
    }
    const { bucketReaders: readers, bucketForceDestroy: forceDestroy, oldVersionDays, accessLogDays } = values;
    return { kind: 'create', prefix, region, readers, forceDestroy, oldVersionDays, accessLogDays };
  }
  if (values.bucketReaders.length > 0) {
    problems.add('bucketReaders', 'is set, but the policy of the existing bucket bucketName is not changed', {
      hint: 'remove it, and allow the roles in the policies of that bucket and its key',
    });
  }
  const missing = ELSEWHERE.filter((key) => values[key] === undefined);
  if (missing.length === ELSEWHERE.length) {
    return { kind: 'existing', prefix, region, bucket, kmsKeyArn: values.bucketKmsKeyArn };
  }
  for (const key of missing) {
    problems.add(key, 'is missing', { allowed: `all of ${ELSEWHERE.join(', ')}, or none of them` });
  }
  if (values.publisherSubjects.length > 0) {
    problems.add('publisherSubjects', 'is set, but the bucket is not in AWS', { hint: 'remove it' });
  }
  return {
    kind: 'elsewhere',
    prefix,
    region,
    bucket,
    endpointUrl: values.s3Endpoint ?? '',
    accessKeyId: pulumi.secret(values.s3AccessKeyId ?? ''),
    secretAccessKey: pulumi.secret(values.s3SecretAccessKey ?? ''),
  };
}

/** Checks the prefix with the rules of the publisher, which must accept it as well. */
function checkedPrefix(values: ConfigValues, problems: ProblemList): string {
  const bucket = values.bucketName ?? 'bucket';
  try {
    return parseLocation(`s3://${bucket}/${values.modelRepositoryPrefix}`).prefix;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const aboutBucket = error.message.includes('cannot be a bucket name');
    problems.add(aboutBucket ? 'bucketName' : 'modelRepositoryPrefix', error.message.replace(/^--bucket \S*: /, ''), {
      allowed: error.hint,
    });
    return values.modelRepositoryPrefix;
  }
}

/** Settings of the publisher's tokens; undefined if no subjects are set. */
export function publisherSettings(values: ConfigValues, problems: ProblemList): PublisherSettings | undefined {
  const { publisherSubjects: subjects, prunerSubjects } = values;
  if (prunerSubjects.length > 0 && subjects.length === 0) {
    problems.add('prunerSubjects', 'is set without publisherSubjects', { hint: 'set publisherSubjects too' });
  }
  if (values.createPublisherOidcProvider && values.publisherOidcProviderArn !== undefined) {
    problems.add('createPublisherOidcProvider', 'is true, but publisherOidcProviderArn names an existing provider', {
      hint: 'remove one of them',
    });
  }
  if (subjects.length === 0) return undefined;
  return {
    subjects,
    prunerSubjects,
    issuer: values.publisherIssuer,
    audience: values.publisherAudience,
    providerArn: values.publisherOidcProviderArn,
    createProvider: values.createPublisherOidcProvider,
  };
}
