import type { Resource } from '../../../../policy/rule';
import { resource, policyText, withUnknown, type Cases } from './case';

const TYPES = {
  block: 'aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock',
  acl: 'aws:s3/bucketAcl:BucketAcl',
  encryption: 'aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration',
  versioning: 'aws:s3/bucketVersioning:BucketVersioning',
  ownership: 'aws:s3/bucketOwnershipControls:BucketOwnershipControls',
  lifecycle: 'aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration',
  logging: 'aws:s3/bucketLogging:BucketLogging',
  policy: 'aws:s3/bucketPolicy:BucketPolicy',
} as const;

const bucket = resource('aws:s3/bucket:Bucket', 'models', { bucket: 'models-1' });
const logs = resource('aws:s3/bucket:Bucket', 'logs', { bucket: 'logs-1' });

/** About the bucket, by its name. */
const about = (type: keyof typeof TYPES, props: object, of: Resource = bucket): Resource =>
  resource(TYPES[type], 'about', { bucket: of.props.at('bucket').raw, ...props });

/** The same, of a bucket whose name is not known yet. */
const wired = (type: keyof typeof TYPES, props: object): Resource =>
  resource(TYPES[type], 'about', withUnknown(props, 'bucket'), { wiring: { bucket } });

const BLOCKED = {
  blockPublicAcls: true,
  blockPublicPolicy: true,
  ignorePublicAcls: true,
  restrictPublicBuckets: true,
};
const algorithm = (sseAlgorithm: string): object => ({
  rules: [{ applyServerSideEncryptionByDefault: { sseAlgorithm, kmsMasterKeyId: 'arn:aws:kms:::key/1' } }],
});
const logging = about('logging', { targetBucket: 'logs-1', targetPrefix: 's3/' });

const TLS = {
  Effect: 'Deny',
  Principal: '*',
  Action: 's3:*',
  Resource: ['arn:aws:s3:::models-1', 'arn:aws:s3:::models-1/*'],
  Condition: { Bool: { 'aws:SecureTransport': 'false' } },
};
const PUBLIC = { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::models-1/*' };
const policy = (statement: object): Resource => about('policy', { policy: policyText(statement) });
const TLS_FIX =
  'add a BucketPolicy that denies s3:* to every principal on the bucket and its objects if aws:SecureTransport is false.';
const noTls = `${TYPES.policy} "about": no statement of policy denies requests without TLS; ${TLS_FIX}`;

const production = (props: object, protect: boolean): Resource =>
  resource('aws:s3/bucket:Bucket', 'models', props, { production: true, protect });

const KEY = 'aws:kms/key:Key';
const key = (protect: boolean, arn = 'arn:aws:kms:::key/1'): Resource =>
  resource(KEY, 'models', { arn }, { production: true, protect });
const keyProblem = `${KEY} "models": the option protect is not set; set it to true.`;

export const bucketCases: Cases = {
  'bucket-blocks-public-access': {
    passes: {
      'all four, by name': [bucket, about('block', BLOCKED)],
      'all four, by the wiring': [bucket, wired('block', BLOCKED)],
      'no bucket': [],
    },
    fails: {
      'none for this bucket': {
        stack: [bucket, about('block', BLOCKED, logs)],
        says:
          'aws:s3/bucket:Bucket "models": the bucket has no BucketPublicAccessBlock; ' +
          'add a BucketPublicAccessBlock with blockPublicAcls, blockPublicPolicy, ignorePublicAcls, restrictPublicBuckets: true.',
      },
      'two of four': {
        stack: [bucket, about('block', { ...BLOCKED, blockPublicPolicy: false, ignorePublicAcls: undefined })],
        says: [
          `${TYPES.block} "about": blockPublicPolicy is false; set it to true.`,
          `${TYPES.block} "about": ignorePublicAcls is not set; set it to true.`,
        ],
      },
    },
  },
  'bucket-acl-private': {
    passes: { private: [about('acl', { acl: 'private' }), bucket] },
    fails: {
      'public to read': {
        stack: [about('acl', { acl: 'public-read' })],
        says: `${TYPES.acl} "about": acl is "public-read"; remove the ACL and grant access by policy.`,
      },
    },
  },
  'bucket-owner-enforced': {
    passes: { enforced: [bucket, about('ownership', { rule: { objectOwnership: 'BucketOwnerEnforced' } })] },
    fails: {
      preferred: {
        stack: [bucket, about('ownership', { rule: { objectOwnership: 'BucketOwnerPreferred' } })],
        says: `${TYPES.ownership} "about": rule.objectOwnership is "BucketOwnerPreferred"; set it to BucketOwnerEnforced.`,
      },
      none: {
        stack: [bucket],
        says:
          'aws:s3/bucket:Bucket "models": the bucket has no BucketOwnershipControls; ' +
          'add BucketOwnershipControls with rule.objectOwnership: BucketOwnerEnforced.',
      },
    },
  },
  'bucket-encrypted': {
    passes: {
      'with KMS': [bucket, about('encryption', algorithm('aws:kms'))],
      'the keys of S3, where access logs go': [
        bucket,
        logs,
        logging,
        about('encryption', algorithm('aws:kms')),
        about('encryption', algorithm('AES256'), logs),
      ],
    },
    fails: {
      'the keys of S3': {
        stack: [bucket, about('encryption', algorithm('AES256'))],
        says: `${TYPES.encryption} "about": rules[0].applyServerSideEncryptionByDefault.sseAlgorithm is "AES256"; set it to aws:kms, with kmsMasterKeyId.`,
      },
      'not set': {
        stack: [bucket],
        says:
          'aws:s3/bucket:Bucket "models": the bucket has no BucketServerSideEncryptionConfiguration; ' +
          'add a BucketServerSideEncryptionConfiguration with sseAlgorithm: aws:kms.',
      },
    },
  },
  'bucket-versioned': {
    passes: { enabled: [bucket, about('versioning', { versioningConfiguration: { status: 'Enabled' } })] },
    fails: {
      suspended: {
        stack: [bucket, about('versioning', { versioningConfiguration: { status: 'Suspended' } })],
        says: `${TYPES.versioning} "about": versioningConfiguration.status is "Suspended"; set it to Enabled.`,
      },
      none: {
        stack: [bucket],
        says:
          'aws:s3/bucket:Bucket "models": the bucket has no BucketVersioning; ' +
          'add BucketVersioning with versioningConfiguration.status: Enabled.',
      },
    },
  },
  'bucket-expires-leftovers': {
    passes: {
      'after a week': [
        bucket,
        about('lifecycle', {
          rules: [
            { status: 'Enabled', noncurrentVersionExpiration: { noncurrentDays: 30 } },
            { status: 'Enabled', abortIncompleteMultipartUpload: { daysAfterInitiation: 7 } },
          ],
        }),
      ],
    },
    fails: {
      'a rule that is off': {
        stack: [
          bucket,
          about('lifecycle', {
            rules: [{ status: 'Disabled', abortIncompleteMultipartUpload: { daysAfterInitiation: 7 } }],
          }),
        ],
        says:
          `${TYPES.lifecycle} "about": no enabled rule aborts incomplete multipart uploads; ` +
          'add abortIncompleteMultipartUpload.daysAfterInitiation.',
      },
      none: {
        stack: [bucket],
        says:
          'aws:s3/bucket:Bucket "models": the bucket has no BucketLifecycleConfiguration; ' +
          'add a BucketLifecycleConfiguration with abortIncompleteMultipartUpload.',
      },
    },
  },
  'bucket-logs-access': {
    passes: { 'to the bucket for logs': [bucket, logs, logging] },
    fails: {
      none: {
        stack: [bucket],
        says: 'aws:s3/bucket:Bucket "models": the bucket has no BucketLogging; add BucketLogging with a target bucket for logs.',
      },
      'without a target': {
        stack: [bucket, about('logging', {})],
        says: `${TYPES.logging} "about": targetBucket is not set; name the bucket for logs.`,
      },
    },
  },
  'bucket-kept-in-production': {
    passes: {
      'protected in prod': [production({ forceDestroy: false }, true)],
      'unprotected in staging': [resource('aws:s3/bucket:Bucket', 'models', { forceDestroy: true })],
    },
    fails: {
      'force-destroy in prod': {
        stack: [production({ forceDestroy: true }, true)],
        says: 'aws:s3/bucket:Bucket "models": forceDestroy is true; remove it, so that a bucket must be emptied before it can be deleted.',
      },
      'not protected in prod': {
        stack: [production({}, false)],
        says: 'aws:s3/bucket:Bucket "models": the option protect is not set; set it to true.',
      },
    },
  },
  'bucket-key-kept-in-production': {
    passes: {
      'protected in prod': [key(true), about('encryption', algorithm('aws:kms'))],
      'of other data': [key(false, 'arn:aws:kms:::key/2'), about('encryption', algorithm('aws:kms'))],
      'in staging': [
        resource(KEY, 'models', { arn: 'arn:aws:kms:::key/1' }),
        about('encryption', algorithm('aws:kms')),
      ],
    },
    fails: {
      'by its ARN': { stack: [key(false), about('encryption', algorithm('aws:kms'))], says: [keyProblem] },
      'by the wiring': {
        stack: [
          key(false),
          resource(TYPES.encryption, 'about', withUnknown({}, 'rules'), { wiring: { rules: key(false) } }),
        ],
        says: [keyProblem],
      },
    },
  },
  'bucket-requires-tls': {
    passes: {
      'denied without TLS': [bucket, policy(TLS)],
      'a policy that is not known yet': [bucket, wired('policy', withUnknown({}, 'policy'))],
    },
    fails: {
      'no policy': {
        stack: [bucket],
        says: `aws:s3/bucket:Bucket "models": the bucket has no policy; ${TLS_FIX}`,
      },
      'objects only': {
        stack: [bucket, policy({ ...TLS, Resource: 'arn:aws:s3:::models-1/*' })],
        says: [noTls],
      },
      'the bucket only': { stack: [bucket, policy({ ...TLS, Resource: 'arn:aws:s3:::models-1' })], says: [noTls] },
      'allowed instead of denied': { stack: [bucket, policy({ ...TLS, Effect: 'Allow' })], says: [noTls] },
      'reading only': { stack: [bucket, policy({ ...TLS, Action: 's3:GetObject' })], says: [noTls] },
      'with TLS': {
        stack: [bucket, policy({ ...TLS, Condition: { Bool: { 'aws:SecureTransport': 'true' } } })],
        says: [noTls],
      },
      'one account only': {
        stack: [bucket, policy({ ...TLS, Principal: { AWS: 'arn:aws:iam::1:root' } })],
        says: [noTls],
      },
    },
  },
  'bucket-policy-not-public': {
    passes: {
      'one role': [policy({ ...PUBLIC, Principal: { AWS: 'arn:aws:iam::1:role/triton' } })],
      'all principals of one account': [
        policy({ ...PUBLIC, Condition: { StringEquals: { 'aws:PrincipalAccount': '1' } } }),
      ],
      denied: [policy(TLS)],
    },
    fails: {
      'every principal': {
        stack: [policy(PUBLIC)],
        says:
          `${TYPES.policy} "about": policy.Statement[0].Principal is "*"; ` +
          'name the roles that need access, or add a condition on aws:PrincipalAccount or aws:SourceVpce.',
      },
      'every principal, as a list, under an ineffective condition': {
        stack: [
          policy({
            ...PUBLIC,
            Principal: { AWS: ['*'] },
            Condition: { StringLike: { 'aws:PrincipalArn': '*' } },
          }),
        ],
        says:
          `${TYPES.policy} "about": policy.Statement[0].Principal.AWS[0] is "*"; ` +
          'name the roles that need access, or add a condition on aws:PrincipalAccount or aws:SourceVpce.',
      },
    },
  },
};
