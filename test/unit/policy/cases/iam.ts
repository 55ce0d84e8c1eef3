import { NARROW_SUBJECTS, WIDE_SUBJECTS } from '../../infra/subjects';
import { policyText, resource, withUnknown, type Cases } from './case';

const POLICY = 'aws:iam/rolePolicy:RolePolicy';
const ROLE = 'aws:iam/role:Role';
const READ = { Effect: 'Allow', Action: ['s3:GetObject'], Resource: 'arn:aws:s3:::models-1/models/*' };
const policy = (change: object) => resource(POLICY, 'triton', { policy: policyText({ ...READ, ...change }) });

const HOST = 'oidc.eks.eu-central-1.amazonaws.com/id/1';
const TRUST = {
  Effect: 'Allow',
  Principal: { Federated: `arn:aws:iam::1:oidc-provider/${HOST}` },
  Action: 'sts:AssumeRoleWithWebIdentity',
  Condition: {
    StringEquals: { [`${HOST}:sub`]: 'system:serviceaccount:triton:triton', [`${HOST}:aud`]: 'sts.amazonaws.com' },
  },
};
const role = (change: object) => resource(ROLE, 'triton', { assumeRolePolicy: policyText({ ...TRUST, ...change }) });

const ofGitHub = (subjects: string[]) =>
  role({
    Condition: {
      StringLike: { 'token.actions.githubusercontent.com:sub': subjects },
      StringEquals: { 'token.actions.githubusercontent.com:aud': 'sts.amazonaws.com' },
    },
  });

const WILD_ACTIONS = ['*', '*:*', 's3:**', 'iam:?*', 's3:*Object', 's?:GetObject', 'ec2:R*', 's3:G?tObject'];
const WILD_RESOURCES = [
  'arn:aws:s3:::*/*',
  'arn:aws:s3:::?*',
  'arn:*:s3:::*',
  'arn:aws:*:::models-1/models/*',
  'arn:aws:iam::1:*',
  'arn:aws:s3:::*-models/*',
];

export const iamCases: Cases = {
  'iam-no-wildcard-actions': {
    passes: {
      named: [policy({})],
      'a wildcard after a verb': [policy({ Action: 's3:GetObject*' })],
      'every action denied': [policy({ Effect: 'Deny', Action: '*' })],
      'not known yet': [resource(POLICY, 'triton', withUnknown({}, 'policy'))],
    },
    fails: {
      'a whole service': {
        stack: [policy({ Action: ['s3:GetObject', 's3:*'] })],
        says: `${POLICY} "triton": policy.Statement[0].Action[1] is "s3:*"; name the required actions.`,
      },
      'a wildcard before or in the verb': {
        stack: [policy({ Action: WILD_ACTIONS })],
        says: WILD_ACTIONS.map(
          (action, index) =>
            `${POLICY} "triton": policy.Statement[0].Action[${index}] is "${action}"; name the required actions.`,
        ),
      },
      'all but one': {
        stack: [policy({ Action: undefined, NotAction: 's3:DeleteObject' })],
        says: `${POLICY} "triton": policy.Statement[0].NotAction is "s3:DeleteObject"; name the allowed actions in Action instead.`,
      },
      'inline in a role': {
        stack: [resource(ROLE, 'triton', { inlinePolicies: [{ policy: policyText({ ...READ, Action: '*' }) }] })],
        says: `${ROLE} "triton": inlinePolicies[0].policy.Statement[0].Action is "*"; name the required actions.`,
      },
    },
  },
  'iam-no-wildcard-resources': {
    passes: {
      named: [policy({})],
      'an action that has no resource': [policy({ Action: 'ecr:GetAuthorizationToken', Resource: '*' })],
    },
    fails: {
      everything: {
        stack: [policy({ Resource: '*' })],
        says: `${POLICY} "triton": policy.Statement[0].Resource is "*"; name the ARNs of the resources.`,
      },
      'every bucket': {
        stack: [policy({ Resource: ['arn:aws:s3:::*'] })],
        says: `${POLICY} "triton": policy.Statement[0].Resource[0] is "arn:aws:s3:::*"; name the ARNs of the resources.`,
      },
      'a wildcard at the beginning of the resource': {
        stack: [policy({ Resource: WILD_RESOURCES })],
        says: WILD_RESOURCES.map(
          (arn, index) =>
            `${POLICY} "triton": policy.Statement[0].Resource[${index}] is "${arn}"; name the ARNs of the resources.`,
        ),
      },
      'all but one': {
        stack: [policy({ Resource: undefined, NotResource: 'arn:aws:s3:::other' })],
        says: `${POLICY} "triton": policy.Statement[0].NotResource is "arn:aws:s3:::other"; name the ARNs of the resources in Resource instead.`,
      },
    },
  },
  'iam-no-administrators': {
    passes: {
      'the policies that a cluster needs': [
        resource('aws:iam/rolePolicyAttachment:RolePolicyAttachment', 'cluster', {
          policyArn: 'arn:aws:iam::aws:policy/AmazonEKSClusterPolicy',
        }),
      ],
    },
    fails: {
      administrator: {
        stack: [
          resource('aws:iam/rolePolicyAttachment:RolePolicyAttachment', 'ci', {
            policyArn: 'arn:aws:iam::aws:policy/AdministratorAccess',
          }),
          resource(ROLE, 'ci', { managedPolicyArns: ['arn:aws:iam::aws:policy/AmazonS3FullAccess'] }),
        ],
        says: [
          'aws:iam/rolePolicyAttachment:RolePolicyAttachment "ci": policyArn is "arn:aws:iam::aws:policy/AdministratorAccess"; write a policy with the required actions.',
          `${ROLE} "ci": managedPolicyArns[0] is "arn:aws:iam::aws:policy/AmazonS3FullAccess"; write a policy with the required actions.`,
        ],
      },
    },
  },
  'iam-trust-narrow': {
    passes: {
      'one service account': [role({})],
      'one repository': [ofGitHub(NARROW_SUBJECTS)],
      'a service': [
        role({ Principal: { Service: 'eks.amazonaws.com' }, Action: 'sts:AssumeRole', Condition: undefined }),
      ],
    },
    fails: {
      'every principal': {
        stack: [role({ Principal: '*' })],
        says: `${ROLE} "triton": assumeRolePolicy.Statement[0].Principal is "*"; name the accounts, services or providers.`,
      },
      'every identity of the provider': {
        stack: [role({ Condition: undefined })],
        says: [
          `${ROLE} "triton": every identity of the provider may assume the role; add a condition StringEquals on the :sub of its tokens.`,
          `${ROLE} "triton": tokens for every audience are accepted; add a condition StringEquals on the :aud of its tokens.`,
        ],
      },
      'every account': {
        stack: [role({ Principal: { AWS: 'arn:aws:iam::*:role/ci' } })],
        says: `${ROLE} "triton": assumeRolePolicy.Statement[0].Principal.AWS is "arn:aws:iam::*:role/ci"; name the accounts, services or providers.`,
      },
      'an audience with a policy variable': {
        stack: [
          role({
            Condition: {
              StringLike: { [`${HOST}:sub`]: 'system:serviceaccount:a:b', [`${HOST}:aud`]: '${aws:username}' },
            },
          }),
        ],
        says: `${ROLE} "triton": assumeRolePolicy.Statement[0].Condition.StringLike.${HOST}:aud is "\${aws:username}"; name the audience.`,
      },
      'every audience': {
        stack: [
          role({ Condition: { StringLike: { [`${HOST}:sub`]: 'system:serviceaccount:a:b', [`${HOST}:aud`]: '*' } } }),
        ],
        says: `${ROLE} "triton": assumeRolePolicy.Statement[0].Condition.StringLike.${HOST}:aud is "*"; name the audience.`,
      },
      'subjects with wildcards, and no repository': {
        stack: [ofGitHub(WIDE_SUBJECTS)],
        says: WIDE_SUBJECTS.map(
          (subject, index) =>
            `${ROLE} "triton": assumeRolePolicy.Statement[0].Condition.StringLike.token.actions.githubusercontent.com:sub[${index}] is "${subject}"; name one environment, branch or service account, without * and ?.`,
        ),
      },
    },
  },
  'iam-no-static-keys': {
    passes: { 'a role': [role({})] },
    fails: {
      'a key': {
        stack: [resource('aws:iam/accessKey:AccessKey', 'ci', { user: 'ci' })],
        says: 'aws:iam/accessKey:AccessKey "ci": access keys of users do not expire; use a role with AssumeRoleWithWebIdentity.',
      },
    },
  },
};
