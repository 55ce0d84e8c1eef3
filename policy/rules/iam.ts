import { isNarrowSubject } from '../../infra/trust-subject';
import type { Resource, Rule } from '../rule';
import type { Value } from '../value';
import { allows, principalsOf, statementsOf } from './statements';

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
  return policies.flatMap((policy) => statementsOf(policy.at('policy'))).filter(allows);
}

/** Whether an action has a wildcard other than after a verb (`s3:Get*`). */
const isWildAction = (text: string): boolean => /[*?]/.test(text) && !/^[\w-]+:[A-Z][a-z]{2,}[^?]*$/.test(text);

/** Whether an ARN names no specific resource, because its service or the start of its resource is a wildcard. */
const isWildResource = (text: string): boolean =>
  /^([*?].*|arn:[^:]*:[^:]*[*?][^:]*:.*|arn(:[^:]*){4}:[*?].*)$/.test(text);

export const iamRules: readonly Rule[] = [
  {
    name: 'iam-no-wildcard-actions',
    description: 'A policy names what it allows. "s3:*" allows what comes next year as well.',
    each: {
      types: [...POLICIES, ROLE],
      check: (resource, report) => {
        for (const statement of identityStatements(resource)) {
          for (const at of statement.at('Action').items()) {
            if (isWildAction(at.text() ?? '')) report({ resource, at, fix: 'name the actions that are needed' });
          }
          const not = statement.at('NotAction');
          if (not.isThere()) report({ resource, at: not, fix: 'name what is allowed in Action instead' });
        }
      },
    },
  },
  {
    name: 'iam-no-wildcard-resources',
    description: 'A policy names the resources it is for, but for actions that have none.',
    each: {
      types: [...POLICIES, ROLE],
      check: (resource, report) => {
        for (const statement of identityStatements(resource)) {
          const actions = statement.at('Action').items();
          if (actions.length > 0 && actions.every((action) => WITHOUT_RESOURCE.has(action.text() ?? ''))) continue;
          for (const at of statement.at('Resource').items()) {
            if (isWildResource(at.text() ?? '')) {
              report({ resource, at, fix: 'name the ARNs that it is for' });
            }
          }
          const not = statement.at('NotResource');
          if (not.isThere()) report({ resource, at: not, fix: 'name the ARNs that it is for in Resource instead' });
        }
      },
    },
  },
  {
    name: 'iam-no-administrators',
    description: "No role of a stack gets one of AWS's policies that allow a whole service, or everything.",
    each: {
      types: [...ATTACHMENTS, ROLE],
      check: (resource, report) => {
        const names = resource.type === ROLE ? resource.props.at('managedPolicyArns') : resource.props.at('policyArn');
        for (const at of names.items()) {
          if (/\/(AdministratorAccess|PowerUserAccess|IAMFullAccess|\w*FullAccess)$/.test(at.text() ?? '')) {
            report({ resource, at, fix: 'write a policy with the actions that are needed' });
          }
        }
      },
    },
  },
  {
    name: 'iam-trust-narrow',
    description:
      'A role says who may take it on: never everybody, and of an identity provider never all of its identities.',
    each: {
      types: [ROLE],
      check: (resource, report) => {
        for (const statement of statementsOf(resource.props.at('assumeRolePolicy')).filter(allows)) {
          for (const at of principalsOf(statement)) {
            if (at.is('*')) report({ resource, at, fix: 'name the accounts, services or providers' });
          }
          if (statement.at('Principal.Federated').isMissing() || statement.at('Condition').isUnknown()) continue;
          const subjects = conditionsEndingIn(statement, ':sub');
          const at = statement.at('Condition');
          if (subjects.length === 0) {
            const problem = 'every identity of the provider may take the role on';
            report({ resource, at, problem, fix: 'add a condition StringEquals on the :sub of its tokens' });
          }
          for (const subject of subjects) {
            const text = subject.text();
            if (text === undefined || isNarrowSubject(text)) continue;
            report({ resource, at: subject, fix: 'name the repository, branch or service account' });
          }
          if (conditionsEndingIn(statement, ':aud').length === 0) {
            const problem = 'tokens for any audience will do';
            report({ resource, at, problem, fix: 'add a condition StringEquals on the :aud of its tokens' });
          }
        }
      },
    },
  },
  {
    name: 'iam-no-static-keys',
    description: 'No keys that never expire: pods have roles by their service account, pipelines by federation.',
    each: {
      types: ['aws:iam/accessKey:AccessKey', 'aws:iam/user:User'],
      check: (resource, report) => {
        report({
          resource,
          at: resource.props,
          problem: 'keys of users do not expire',
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
