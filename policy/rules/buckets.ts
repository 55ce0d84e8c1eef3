import { belongingTo, type Report, type Resource, type Rule } from '../rule';
import type { Value } from '../value';
import { BUCKETS, KEY } from './types';

const BLOCK = 'aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock';
const ACL = ['aws:s3/bucketAcl:BucketAcl', 'aws:s3/bucketAclV2:BucketAclV2'];
const ENCRYPTION = [
  'aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration',
  'aws:s3/bucketServerSideEncryptionConfigurationV2:BucketServerSideEncryptionConfigurationV2',
];
const VERSIONING = ['aws:s3/bucketVersioning:BucketVersioning', 'aws:s3/bucketVersioningV2:BucketVersioningV2'];
const OWNERSHIP = 'aws:s3/bucketOwnershipControls:BucketOwnershipControls';
const LIFECYCLE = [
  'aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration',
  'aws:s3/bucketLifecycleConfigurationV2:BucketLifecycleConfigurationV2',
];
const LOGGING = ['aws:s3/bucketLogging:BucketLogging', 'aws:s3/bucketLoggingV2:BucketLoggingV2'];

/** The names by which other resources refer to a bucket. */
export const getNames = (bucket: Resource): Value[] => [bucket.props.at('id'), bucket.props.at('bucket')];

export const bucketsIn = (resources: readonly Resource[]): Resource[] =>
  resources.filter(({ type }) => (BUCKETS as readonly string[]).includes(type));

/** A rule that requires a companion resource for each bucket, and checks that resource. */
function companionRule(rule: {
  name: string;
  description: string;
  type: string | readonly string[];
  /** The resource to add if there is none. */
  add: string;
  /** Buckets that need no such resource. */
  except?: (bucket: Resource, resources: readonly Resource[]) => boolean;
  check?: (companion: Resource, report: Report, context: { isLogTarget: boolean }) => void;
}): Rule {
  return {
    name: rule.name,
    description: rule.description,
    stack: (resources, report) => {
      for (const bucket of bucketsIn(resources)) {
        if (rule.except?.(bucket, resources) === true) continue;
        const companions = belongingTo(bucket, rule.type, 'bucket', resources, getNames(bucket));
        if (companions.length === 0) {
          report({
            resource: bucket,
            at: bucket.props,
            problem: `the bucket has no ${getClass(rule.type)}`,
            fix: rule.add,
          });
        }
        const context = { isLogTarget: isLogTarget(bucket, resources) };
        for (const companion of companions) rule.check?.(companion, report, context);
      }
    },
  };
}

/** The class in the token of the first type, such as `BucketVersioning`. */
function getClass(type: string | readonly string[]): string {
  return (typeof type === 'string' ? type : (type[0] ?? '')).split(':').at(-1) ?? '';
}

/** Whether S3 writes access logs to this bucket. */
function isLogTarget(bucket: Resource, resources: readonly Resource[]): boolean {
  return belongingTo(bucket, LOGGING, 'targetBucket', resources, getNames(bucket)).length > 0;
}

const BLOCKS = ['blockPublicAcls', 'blockPublicPolicy', 'ignorePublicAcls', 'restrictPublicBuckets'] as const;

export const bucketRules: readonly Rule[] = [
  companionRule({
    name: 'bucket-blocks-public-access',
    description: 'Every bucket blocks public access in all four ways, so that no later policy or ACL can open it.',
    type: BLOCK,
    add: `add a BucketPublicAccessBlock with ${BLOCKS.join(', ')}: true`,
    check: (block, report) => {
      for (const name of BLOCKS) {
        const at = block.props.at(name);
        if (!at.mayBe(true)) report({ resource: block, at, fix: 'set it to true' });
      }
    },
  }),
  {
    name: 'bucket-acl-private',
    description: 'No ACL makes a bucket public or opens it to every AWS account.',
    each: {
      types: [...BUCKETS, ...ACL],
      check: (resource, report) => {
        const at = resource.props.at('acl');
        if (at.is('public-read', 'public-read-write', 'authenticated-read', 'website')) {
          report({ resource, at, fix: 'remove the ACL and grant access by policy' });
        }
      },
    },
  },
  companionRule({
    name: 'bucket-owner-enforced',
    description:
      'ACLs are disabled on every bucket, so the owner of the bucket owns all objects, and only policies grant access.',
    type: OWNERSHIP,
    add: 'add BucketOwnershipControls with rule.objectOwnership: BucketOwnerEnforced',
    check: (controls, report) => {
      const at = controls.props.at('rule.objectOwnership');
      if (!at.mayBe('BucketOwnerEnforced')) {
        report({ resource: controls, at, fix: 'set it to BucketOwnerEnforced' });
      }
    },
  }),
  companionRule({
    name: 'bucket-encrypted',
    description:
      'Every bucket encrypts its objects with a KMS key by default. A bucket for access logs may use the keys of S3.',
    type: ENCRYPTION,
    add: 'add a BucketServerSideEncryptionConfiguration with sseAlgorithm: aws:kms',
    check: (configuration, report, { isLogTarget: takesLogs }) => {
      const rules = configuration.props.at('rules');
      if (rules.isMissing()) report({ resource: configuration, at: rules, fix: 'add a rule' });
      for (const rule of rules.items()) {
        const at = rule.at('applyServerSideEncryptionByDefault.sseAlgorithm');
        if (at.mayBe('aws:kms', 'aws:kms:dsse') || (takesLogs && at.is('AES256'))) continue;
        report({ resource: configuration, at, fix: 'set it to aws:kms, with kmsMasterKeyId' });
      }
    },
  }),
  companionRule({
    name: 'bucket-versioned',
    description: 'Every bucket has versioning, so that overwritten and deleted objects can be restored.',
    type: VERSIONING,
    add: 'add BucketVersioning with versioningConfiguration.status: Enabled',
    check: (versioning, report) => {
      const at = versioning.props.at('versioningConfiguration.status');
      if (!at.mayBe('Enabled')) report({ resource: versioning, at, fix: 'set it to Enabled' });
    },
  }),
  companionRule({
    name: 'bucket-expires-leftovers',
    description:
      'Every bucket has a lifecycle rule that aborts incomplete multipart uploads, which no listing shows but AWS charges for.',
    type: LIFECYCLE,
    add: 'add a BucketLifecycleConfiguration with abortIncompleteMultipartUpload',
    check: (lifecycle, report) => {
      const rules = lifecycle.props.at('rules');
      const aborts = rules
        .items()
        .filter((rule) => rule.at('status').mayBe('Enabled'))
        .some((rule) => !rule.at('abortIncompleteMultipartUpload').isMissing());
      if (!rules.isUnknown() && !aborts) {
        const problem = 'no enabled rule aborts incomplete multipart uploads';
        report({
          resource: lifecycle,
          at: rules,
          problem,
          fix: 'add abortIncompleteMultipartUpload.daysAfterInitiation',
        });
      }
    },
  }),
  companionRule({
    name: 'bucket-logs-access',
    description: 'Every bucket logs its accesses to another bucket. A bucket for access logs needs no logging.',
    type: LOGGING,
    add: 'add BucketLogging with a target bucket for logs',
    except: isLogTarget,
    check: (logging, report) => {
      const at = logging.props.at('targetBucket');
      if (at.isMissing()) report({ resource: logging, at, fix: 'name the bucket for logs' });
    },
  }),
  {
    name: 'bucket-kept-in-production',
    description:
      'In production, every bucket has the option protect and no forceDestroy, so that it cannot be deleted by accident.',
    each: {
      types: BUCKETS,
      check: (resource, report) => {
        if (resource.production !== true) return;
        const at = resource.props.at('forceDestroy');
        if (at.is(true))
          report({ resource, at, fix: 'remove it, so that a bucket must be emptied before it can be deleted' });
        if (!resource.protect) {
          report({ resource, at, problem: 'the option protect is not set', fix: 'set it to true' });
        }
      },
    },
  },
  {
    name: 'bucket-key-kept-in-production',
    description:
      'In production, every KMS key that encrypts a bucket has the option protect, because the objects cannot be read without their key.',
    stack: (resources, report) => {
      const encryptions = resources.filter(({ type }) => ENCRYPTION.includes(type));
      for (const key of resources.filter(({ type }) => type === KEY)) {
        const encrypts = encryptions.some(
          (one) =>
            one.madeFrom('rules').includes(key.urn) || encryptsWith(one, [key.props.at('arn'), key.props.at('id')]),
        );
        if (key.production !== true || key.protect || !encrypts) continue;
        report({ resource: key, at: key.props, problem: 'the option protect is not set', fix: 'set it to true' });
      }
    },
  },
];

const encryptsWith = (encryption: Resource, names: readonly Value[]): boolean =>
  encryption.props
    .at('rules')
    .items()
    .map((rule) => rule.at('applyServerSideEncryptionByDefault.kmsMasterKeyId'))
    .some((id) => id.isThere() && names.some((name) => name.is(id.raw)));
