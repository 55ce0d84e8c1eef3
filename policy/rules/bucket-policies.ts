import { belongingTo, type Resource, type Rule } from '../rule';
import type { Value } from '../value';
import { bucketsIn, getNames } from './buckets';
import { allows, conditionsOn, getPrincipals, getStatements } from './statements';
import { BUCKET_POLICY } from './types';

export const bucketPolicyRules: readonly Rule[] = [
  {
    name: 'bucket-requires-tls',
    description: 'Every bucket has a policy that denies all requests without TLS, from every principal.',
    stack: (resources, report) => {
      const fix =
        'add a BucketPolicy that denies s3:* to every principal on the bucket and its objects if aws:SecureTransport is false';
      for (const bucket of bucketsIn(resources)) {
        const policies = belongingTo(bucket, BUCKET_POLICY, 'bucket', resources, getNames(bucket));
        if (policies.length === 0) {
          report({ resource: bucket, at: bucket.props, problem: 'the bucket has no policy', fix });
        }
        for (const policy of policies) {
          const document = policy.props.at('policy');
          if (document.isUnknown() || getStatements(document).some(deniesWithoutTls)) continue;
          const problem = 'no statement of policy denies requests without TLS';
          report({ resource: policy, at: document, problem, fix });
        }
      }
    },
  },
  {
    name: 'bucket-policy-not-public',
    description: 'No bucket policy allows every principal, unless a condition limits the account, network or role.',
    each: {
      types: [BUCKET_POLICY],
      check: (resource: Resource, report) => {
        for (const statement of getStatements(resource.props.at('policy'))) {
          if (!allows(statement) || isNarrow(statement)) continue;
          for (const principal of getPrincipals(statement)) {
            if (!principal.is('*')) continue;
            report({
              resource,
              at: principal,
              fix: 'name the roles that need access, or add a condition on aws:PrincipalAccount or aws:SourceVpce',
            });
          }
        }
      },
    },
  },
];

function deniesWithoutTls(statement: Value): boolean {
  const resources = statement
    .at('Resource')
    .items()
    .map((item) => item.text() ?? '*');
  return (
    statement.at('Effect').is('Deny') &&
    statement.at('Action').mayInclude('s3:*') &&
    getPrincipals(statement).some((principal) => principal.mayBe('*')) &&
    conditionsOn(statement, 'aws:SecureTransport').some(({ operator, value }) => {
      return /^Bool(IfExists)?$/.test(operator) && value.items().every((item) => item.is('false', false));
    }) &&
    resources.some((resource) => resource === '*' || resource.endsWith('/*')) &&
    resources.some((resource) => resource === '*' || !resource.includes('/'))
  );
}

/** Condition keys that restrict the callers even if the principal is `*`. */
const NARROWING = [
  'aws:PrincipalAccount',
  'aws:PrincipalArn',
  'aws:PrincipalOrgID',
  'aws:SourceAccount',
  'aws:SourceArn',
  'aws:SourceVpc',
  'aws:SourceVpce',
];

function isNarrow(statement: Value): boolean {
  return NARROWING.some((key) =>
    conditionsOn(statement, key).some(
      ({ operator, value }) =>
        /^(String|Arn)(Equals|Like)/.test(operator) && value.items().every((item) => !item.is('*')),
    ),
  );
}
