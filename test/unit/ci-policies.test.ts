import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/core/paths';
import { getCalls, PUBLISHER_PERMISSIONS, readCiPolicy } from '../support/aws-permissions';
import { decide } from '../support/iam';
import { registeredStack } from '../support/registered-stack';
import { PUBLISHER } from '../support/setting-values';

interface Statement {
  Sid: string;
  Effect: 'Allow' | 'Deny';
  Action?: string | string[];
  Resource?: string | string[];
  Condition?: Record<string, Record<string, unknown>>;
}

const read = (name: string): Statement[] =>
  (JSON.parse(readFileSync(join(paths.root, 'docs', 'iam', `${name}.json`), 'utf8')) as { Statement: Statement[] })
    .Statement;
const getActions = (statements: readonly Statement[]): string[] =>
  statements.filter(({ Effect }) => Effect === 'Allow').flatMap(({ Action = [] }) => Action);

/** Where the requests of a publisher go. */
const AT = { account: '123456789012', region: 'us-east-1', stack: 'prod' };

test('the role deploy of CI has all permissions of a publisher, because promote runs with it', () => {
  const key = `arn:aws:kms:${AT.region}:${AT.account}:key/1`;
  const repository = { bucket: 'triton-prod-models-1a2b3c4', prefix: 'models', key, region: AT.region };
  const calls = getCalls(PUBLISHER_PERMISSIONS, repository, ['models', 'models.releases']).map((call) => ({
    ...call,
    context: { ...call.context, 'aws:ResourceTag/stack': 'prod' },
  }));
  expect(calls.filter((call) => decide([readCiPolicy('deploy', AT)], call) !== 'allowed')).toEqual([]);
});

test('the role deploy of CI may create node groups, which no stack of the repository has', () => {
  const needed = ['ec2:CreateLaunchTemplate', 'eks:CreateAddon', 'eks:CreateNodegroup'];
  expect(getActions(read('deploy'))).toEqual(expect.arrayContaining(needed));
});

test('the roles attach only policies that the policy of the role deploy names', async () => {
  const { resources } = await registeredStack('prod', PUBLISHER);
  const patterns = read('deploy').find(({ Sid }) => Sid === 'ManagedPolicies')?.Condition?.['ArnLike']?.[
    'iam:PolicyARN'
  ] as string[];
  const attached = resources.flatMap(({ type, inputs }) =>
    type === 'aws:iam/rolePolicyAttachment:RolePolicyAttachment' ? [inputs['policyArn'] as string] : [],
  );
  expect(attached.length).toBeGreaterThan(0);
  const matches = (arn: string): boolean =>
    patterns.some((pattern) => (pattern.endsWith('*') ? arn.startsWith(pattern.slice(0, -1)) : arn === pattern));
  expect(attached.filter((arn) => !matches(arn))).toEqual([]);
});

test.each(['deploy', 'preview'])('the policy of the role %s allows no wildcard but after a verb', (name) => {
  expect(getActions(read(name)).filter((action) => !/^[\w-]+:[A-Z][A-Za-z]+\*?$/.test(action))).toEqual([]);
});

test.each(['deploy', 'preview'])(
  'the policy of the role %s lets it look up the provider of publisherIssuer',
  (name) => {
    const everywhere = getActions(read(name).filter(({ Resource }) => Resource === '*'));
    expect(everywhere).toEqual(
      expect.arrayContaining(['iam:GetOpenIDConnectProvider', 'iam:ListOpenIDConnectProviders']),
    );
  },
);

test('the role preview writes nothing', () => {
  const verbs = getActions(read('preview')).map((action) => action.split(':')[1] ?? '');
  expect(verbs.filter((verb) => !/^(Describe|Get|List|Decrypt$)/.test(verb))).toEqual([]);
});
