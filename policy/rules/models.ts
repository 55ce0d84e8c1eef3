import { iamArn } from '../../infra/iam/arn';
import { isExactSubject } from '../../infra/trust-subject';
import type { Resource, Rule } from '../pack';
import type { Value } from '../value';

const ROLE = 'aws:iam/role:Role';
const POLICIES = ['aws:iam/rolePolicy:RolePolicy', 'aws:iam/policy:Policy', ROLE];
const ATTACHMENT = 'aws:iam/rolePolicyAttachment:RolePolicyAttachment';
const KEY = 'aws:kms/key:Key';
const BUCKET = 'aws:s3/bucket:Bucket';
const ENCRYPTION = 'aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration';

export const modelRules: readonly Rule[] = [
  {
    name: 'models-written-by-publishers',
    description:
      'Only roles for tokens of publishers write objects of S3. Replicas, nodes and AWS services do not, because replicas run what is in the bucket.',
    applies: POLICIES,
    checkInStack: (resource, report, stack) => {
      if (!getRoles(resource, stack).some((role) => ['pods', 'other'].includes(getTrust(role)))) return;
      for (const action of s3Actions(resource).filter((one) => !isRead(one))) {
        report(action, 'grant it to the role of the publisher only');
      }
    },
  },
  {
    name: 'models-read-by-own-role',
    description:
      'Only roles of a service account or of a publisher read objects of S3, because all pods of a node can use the role of the node.',
    applies: POLICIES,
    checkInStack: (resource, report, stack) => {
      if (!getRoles(resource, stack).some((role) => getTrust(role) === 'other')) return;
      for (const action of s3Actions(resource).filter(isRead)) {
        report(action, 'grant it to the role of a service account or of a publisher');
      }
    },
  },
  {
    name: 'no-managed-bucket-access',
    description: 'No role has a policy of AWS that allows access to every bucket.',
    applies: [ATTACHMENT, ROLE],
    check: ({ type, props }, report) => {
      for (const at of props.at(type === ROLE ? 'managedPolicyArns' : 'policyArn').items()) {
        const isWide = /\/(AmazonS3\w+|AdministratorAccess|PowerUserAccess|ReadOnlyAccess)$/.test(at.text() ?? '');
        if (isWide) report(at, 'write a policy with the required actions and the bucket');
      }
    },
  },
  {
    name: 'bucket-policy-reads-only',
    description:
      'Every bucket policy allows other accounts and roles only to read, and names their roles. AWS services may write logs.',
    applies: ['aws:s3/bucketPolicy:BucketPolicy'],
    check: ({ props }, report) => {
      for (const statement of getAllowed(props.at('policy'))) {
        const principals = getPrincipals(statement).filter(({ path }) => !path.includes('.Principal.Service'));
        for (const at of principals) {
          if (!at.isUnknown() && !iamArn('role').test(at.text() ?? '')) report(at, 'name the roles that need access');
        }
        const writes = getActions(statement).filter((action) => !action.isUnknown() && !isRead(action));
        for (const at of principals.length === 0 ? [] : writes)
          report(at, 'grant it to the role of the publisher only');
      }
    },
  },
  {
    name: 'role-trust-narrow',
    description:
      'Every role names the principals that may assume it, and the subjects and audiences of their tokens, without wildcards.',
    applies: [ROLE],
    check: ({ props }, report) => {
      for (const statement of getAllowed(props.at('assumeRolePolicy'))) {
        for (const at of getPrincipals(statement)) {
          if (/[*?]/.test(at.text() ?? '')) report(at, 'name the accounts, services or providers');
        }
        const at = statement.at('Condition');
        if (statement.at('Principal.Federated').isMissing() || at.isUnknown()) continue;
        const subjects = getCondition(statement, ':sub');
        if (subjects.length === 0) {
          const problem = 'every identity of the provider may assume the role';
          report(at, 'add a condition StringEquals on the :sub of its tokens', problem);
        }
        for (const subject of subjects) {
          if (subject.isUnknown() || isExactSubject(subject.text() ?? '')) continue;
          report(subject, 'name one environment, branch or service account, without * and ?');
        }
        const audiences = getCondition(statement, ':aud');
        if (audiences.length === 0) {
          const problem = 'tokens for every audience are accepted';
          report(at, 'add a condition StringEquals on the :aud of its tokens', problem);
        }
        for (const audience of audiences) {
          if (/[*?$]/.test(audience.text() ?? '')) report(audience, 'name the audience');
        }
      }
    },
  },
  {
    name: 'protected-models-readable',
    description:
      'A bucket with the option protect has no forceDestroy, and the KMS key of its objects has protect too, because they cannot be read without the key.',
    applies: [BUCKET],
    checkInStack: (bucket, report, stack) => {
      if (!bucket.protect) return;
      const force = bucket.props.at('forceDestroy');
      if (force.is(true)) report(force, 'set it to false');
      const encryptions = stack.filter(
        ({ type, sources }) => type === ENCRYPTION && sources['bucket']?.includes(bucket.urn),
      );
      const keys = encryptions.flatMap(({ sources }) => sources['rules'] ?? []);
      for (const key of stack.filter(({ urn, type, protect }) => type === KEY && keys.includes(urn) && !protect)) {
        report(bucket.props, `set protect on ${key.type} "${key.name}"`, 'the key of the bucket can be deleted');
      }
    },
  },
];

function getRoles(policy: Resource, stack: readonly Resource[]): Resource[] {
  if (policy.type === ROLE) return [policy];
  const attachments = stack.filter(
    ({ type, sources }) => type === ATTACHMENT && sources['policyArn']?.includes(policy.urn),
  );
  const urns = [policy, ...attachments].flatMap(({ sources }) => sources['role'] ?? []);
  return stack.filter(({ type, urn }) => type === ROLE && urns.includes(urn));
}

/** Whom a role trusts. Tokens of service accounts are those of pods, other tokens those of publishers. */
function getTrust(role: Resource): 'pods' | 'publishers' | 'other' | 'unknown' {
  const policy = role.props.at('assumeRolePolicy');
  if (policy.isUnknown()) return 'unknown';
  const kinds = getAllowed(policy).map((statement) => {
    const condition = statement.at('Condition');
    const subjects = getCondition(statement, ':sub');
    if ([statement.at('Principal'), condition, ...subjects].some((value) => value.isUnknown())) return 'unknown';
    if (statement.at('Principal.Federated').isMissing()) return 'other';
    return subjects.some((subject) => subject.text()?.startsWith('system:serviceaccount:')) ? 'pods' : 'publishers';
  });
  return (['other', 'pods', 'unknown'] as const).find((kind) => kinds.includes(kind)) ?? 'publishers';
}

const getAllowed = (policy: Value): Value[] =>
  policy
    .document()
    .at('Statement')
    .items()
    .filter((statement) => statement.at('Effect').is('Allow'));

/** The actions that a statement allows. NotAction counts as an action, because it allows all others. */
const getActions = (statement: Value): Value[] =>
  ['Action', 'NotAction'].flatMap((property) => statement.at(property).items());

function s3Actions({ type, props }: Resource): Value[] {
  const policies = type === ROLE ? props.at('inlinePolicies').items() : [props];
  const actions = policies.flatMap((policy) => getAllowed(policy.at('policy')).flatMap(getActions));
  return actions.filter((action) => /^s3:|^[^:]*[*?]/i.test(action.text() ?? '') || isNegative(action));
}

const isNegative = ({ path }: Value): boolean => /\.NotAction(\[\d+\])?$/.test(path);

const isRead = (action: Value): boolean => /^s3:(get|list)[a-z]*\*?$/i.test(action.text() ?? '') && !isNegative(action);

function getPrincipals(statement: Value): Value[] {
  const principal = statement.at('Principal');
  return principal.text() === undefined ? principal.values().flatMap((value) => value.items()) : [principal];
}

/** The values that a statement requires for condition keys such as `HOST:sub`. */
const getCondition = (statement: Value, suffix: string): Value[] =>
  statement
    .at('Condition')
    .values()
    .filter(({ path }) => /\.String(Equals|Like)$/.test(path))
    .flatMap((operands) => operands.values())
    .filter(({ path }) => path.endsWith(suffix))
    .flatMap((value) => value.items());
