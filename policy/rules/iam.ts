import { isExactSubject } from '../../infra/trust-subject';
import type { Resource, Rule } from '../rule';
import type { Value } from '../value';
import { allows, getPrincipals, getStatements } from './statements';

/**
 * Resources with identity policies. Key and bucket policies apply only to their own resource and are not listed here.
 */
const POLICIES = [
  'aws:iam/policy:Policy',
  'aws:iam/rolePolicy:RolePolicy',
  'aws:iam/userPolicy:UserPolicy',
  'aws:iam/groupPolicy:GroupPolicy',
];
const ROLE = 'aws:iam/role:Role';
const ATTACHMENTS = [
  'aws:iam/rolePolicyAttachment:RolePolicyAttachment',
  'aws:iam/userPolicyAttachment:UserPolicyAttachment',
  'aws:iam/groupPolicyAttachment:GroupPolicyAttachment',
  'aws:iam/policyAttachment:PolicyAttachment',
];

/** Actions that AWS cannot restrict to resources. */
const WITHOUT_RESOURCE = new Set([
  'ecr:GetAuthorizationToken',
  'sts:GetCallerIdentity',
  'ec2:DescribeInstances',
  'ec2:DescribeInstanceTypes',
]);

function identityStatements(resource: Resource): Value[] {
  const { props } = resource;
  const policies = resource.type === ROLE ? props.at('inlinePolicies').items() : [props];
  return policies.flatMap((policy) => getStatements(policy.at('policy'))).filter(allows);
}

/** Whether an action has a wildcard other than after a verb (`s3:Get*`). */
const isWildAction = (text: string): boolean => /[*?]/.test(text) && !/^[\w-]+:[A-Z][a-z]{2,}[^?]*$/.test(text);

/** Whether an ARN names no specific resource, because its service or the start of its resource is a wildcard. */
const isWildResource = (text: string): boolean =>
  /^([*?].*|arn:[^:]*:[^:]*[*?][^:]*:.*|arn(:[^:]*){4}:[*?].*)$/.test(text);

export const iamRules: readonly Rule[] = [
  {
    name: 'iam-no-wildcard-actions',
    description:
      'Every policy names the actions that it allows, because "s3:*" also allows actions that AWS adds later.',
    each: {
      types: [...POLICIES, ROLE],
      check: (resource, report) => {
        for (const statement of identityStatements(resource)) {
          for (const at of statement.at('Action').items()) {
            if (isWildAction(at.text() ?? '')) report({ resource, at, fix: 'name the required actions' });
          }
          const not = statement.at('NotAction');
          if (not.isThere()) report({ resource, at: not, fix: 'name the allowed actions in Action instead' });
        }
      },
    },
  },
  {
    name: 'iam-no-wildcard-resources',
    description: 'Every policy names its resources, except for actions that AWS cannot restrict to resources.',
    each: {
      types: [...POLICIES, ROLE],
      check: (resource, report) => {
        for (const statement of identityStatements(resource)) {
          const actions = statement.at('Action').items();
          if (actions.length > 0 && actions.every((action) => WITHOUT_RESOURCE.has(action.text() ?? ''))) continue;
          for (const at of statement.at('Resource').items()) {
            if (isWildResource(at.text() ?? '')) {
              report({ resource, at, fix: 'name the ARNs of the resources' });
            }
          }
          const not = statement.at('NotResource');
          if (not.isThere()) report({ resource, at: not, fix: 'name the ARNs of the resources in Resource instead' });
        }
      },
    },
  },
  {
    name: 'iam-no-administrators',
    description: 'No identity has an AWS managed policy that allows a whole service or all services.',
    each: {
      types: [...ATTACHMENTS, ROLE],
      check: (resource, report) => {
        const names = resource.type === ROLE ? resource.props.at('managedPolicyArns') : resource.props.at('policyArn');
        for (const at of names.items()) {
          if (/\/(AdministratorAccess|PowerUserAccess|IAMFullAccess|\w*FullAccess)$/.test(at.text() ?? '')) {
            report({ resource, at, fix: 'write a policy with the required actions' });
          }
        }
      },
    },
  },
  {
    name: 'iam-trust-narrow',
    description:
      'Every trust policy names its principals, and the subjects and audiences of tokens, without wildcards.',
    each: {
      types: [ROLE],
      check: (resource, report) => {
        for (const statement of getStatements(resource.props.at('assumeRolePolicy')).filter(allows)) {
          for (const at of getPrincipals(statement)) {
            if (/[*?]/.test(at.text() ?? '')) report({ resource, at, fix: 'name the accounts, services or providers' });
          }
          if (statement.at('Principal.Federated').isMissing() || statement.at('Condition').isUnknown()) continue;
          const subjects = conditionsEndingIn(statement, ':sub');
          const at = statement.at('Condition');
          if (subjects.length === 0) {
            const problem = 'every identity of the provider may assume the role';
            report({ resource, at, problem, fix: 'add a condition StringEquals on the :sub of its tokens' });
          }
          for (const subject of subjects) {
            const text = subject.text();
            if (text === undefined || isExactSubject(text)) continue;
            report({ resource, at: subject, fix: 'name one environment, branch or service account, without * and ?' });
          }
          const audiences = conditionsEndingIn(statement, ':aud');
          for (const audience of audiences.filter((one) => /[*?$]/.test(one.text() ?? ''))) {
            report({ resource, at: audience, fix: 'name the audience' });
          }
          if (audiences.length === 0) {
            const problem = 'tokens for every audience are accepted';
            report({ resource, at, problem, fix: 'add a condition StringEquals on the :aud of its tokens' });
          }
        }
      },
    },
  },
  {
    name: 'iam-no-static-keys',
    description:
      'No IAM users or access keys, because such keys do not expire. Pods assume a role through their service account, pipelines through federation.',
    each: {
      types: ['aws:iam/accessKey:AccessKey', 'aws:iam/user:User'],
      check: (resource, report) => {
        report({
          resource,
          at: resource.props,
          problem: 'access keys of users do not expire',
          fix: 'use a role with AssumeRoleWithWebIdentity',
        });
      },
    },
  },
];

/** The values that conditions with StringEquals or StringLike require for keys such as `HOST:sub`. */
function conditionsEndingIn(statement: Value, suffix: string): Value[] {
  return statement
    .at('Condition')
    .values()
    .filter(({ path }) => /\.String(Equals|Like)$/.test(path))
    .flatMap((operands) => operands.values())
    .filter(({ path }) => path.endsWith(suffix))
    .flatMap((value) => value.items());
}
