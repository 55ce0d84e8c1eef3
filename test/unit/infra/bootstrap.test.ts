import { bootstrap, type BootstrapSettings } from '../../../infra/bootstrap/bootstrap';
import { decide, type PolicyDocument } from '../../support/iam';
import { violations } from '../../support/policy-violations';
import { ACCOUNT, registered, type RegisteredStack } from '../../support/registered-stack';

const SETTINGS: BootstrapSettings = {
  stack: 'staging',
  region: 'us-east-1',
  repository: 'acme@1234/serving@5678',
  providerArn: `arn:aws:iam::${ACCOUNT}:oidc-provider/token.actions.githubusercontent.com`,
  previews: true,
  promotesFrom: '',
};

const create = (changes: Partial<BootstrapSettings> = {}): Promise<RegisteredStack> => {
  const settings = { ...SETTINGS, ...changes };
  return registered(() => bootstrap(settings), settings.stack);
};
const parse = (text: unknown): PolicyDocument => JSON.parse(text as string) as PolicyDocument;
const getPolicy = (made: RegisteredStack, name: string): PolicyDocument =>
  parse(made.only('RolePolicy', name).inputs['policy']);
const getSubject = (made: RegisteredStack, name: string): unknown => {
  const [{ Condition: condition = {} } = {}] = [
    parse(made.only('Role', name).inputs['assumeRolePolicy']).Statement,
  ].flat();
  return condition['StringEquals']?.['token.actions.githubusercontent.com:sub'];
};

test('each role of CI trusts exactly one subject, and has the boundary', async () => {
  const made = await create();
  const roles = made.all('Role').map(({ name }) => [name, getSubject(made, name)]);
  expect(Object.fromEntries(roles)).toEqual({
    deploy: 'repo:acme@1234/serving@5678:environment:staging',
    drift: 'repo:acme@1234/serving@5678:environment:drift-staging',
    preview: 'repo:acme@1234/serving@5678:pull_request',
  });
  const boundary = made.only('Policy', 'boundary').state['arn'];
  for (const { inputs } of made.all('Role')) {
    expect(inputs).toMatchObject({ permissionsBoundary: boundary, maxSessionDuration: 14400 });
  }
  expect(violations('role-trust-narrow', made.resources)).toEqual([]);
  expect(made.outputs['publisherSubject']).toBe('repo:acme@1234/serving@5678:environment:staging-publish');
});

test('prod has no role for pull requests', async () => {
  const made = await create({ stack: 'prod', previews: false });
  expect(new Set(made.all('Role').map(({ name }) => name))).toEqual(new Set(['deploy', 'drift']));
  expect(made.outputs).not.toHaveProperty('previewRoleArn');
});

test('the policies have no placeholder left', async () => {
  const made = await create({ promotesFrom: 'canary' });
  const texts = [...made.all('RolePolicy'), ...made.all('Policy')].map(({ inputs }) => inputs['policy'] as string);
  expect(texts).toHaveLength(4);
  for (const text of texts) expect(text).not.toMatch(/ACCOUNT|REGION|STACK|STATE-/);
  // Limits of IAM: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html (read 2026-11-26).
  for (const text of texts) expect(text.length).toBeLessThan(10_240);
  expect((made.only('Policy').inputs['policy'] as string).length).toBeLessThan(6144);
});

test('the roles of one stack reach the state and the key of that stack only', async () => {
  const made = await create();
  const key = made.only('Key').state['arn'] as string;
  const bucket = made.only('Bucket').state['bucket'] as string;
  const stateIn = (where: string): string => `arn:aws:s3:::${where}/.pulumi/stacks/triton-serving/staging.json`;
  const calls = (where: string, keyArn: string) => [
    { action: 's3:GetObject', resource: stateIn(where) },
    { action: 'kms:Decrypt', resource: keyArn },
  ];
  const writes = { action: 's3:PutObject', resource: stateIn(bucket) };
  for (const name of ['deploy', 'drift', 'preview']) {
    const isAllowed = (call: { action: string; resource: string }): boolean =>
      decide([getPolicy(made, name)], { ...call, context: { 'aws:RequestedRegion': 'us-east-1' } }) === 'allowed';
    expect([name, calls(bucket, key).map(isAllowed)]).toEqual([name, [true, true]]);
    expect([name, calls('triton-bootstrap-prod-state-1234567', `${key}0`).map(isAllowed)]).toEqual([
      name,
      [false, false],
    ]);
    expect([name, isAllowed(writes)]).toEqual([name, name === 'deploy']);
  }
});

test('no role of CI may tag the key of another stack or of a state as its own', async () => {
  const made = await create();
  const tag = (changes: Record<string, string>): string =>
    decide([getPolicy(made, 'deploy')], {
      action: 'kms:TagResource',
      resource: `arn:aws:kms:us-east-1:${ACCOUNT}:key/1`,
      context: { 'aws:RequestTag/stack': 'staging', ...changes },
    });
  expect(tag({})).toBe('allowed');
  const state = made.only('Key').inputs['tags'] as { stack: string };
  for (const stack of ['prod', state.stack]) expect(tag({ 'aws:ResourceTag/stack': stack })).toBe('not allowed');
});

test('the boundary lets no role of CI change the roles of CI', async () => {
  const made = await create();
  const policies = [getPolicy(made, 'deploy'), parse(made.only('Policy').inputs['policy'])];
  for (const { inputs } of made.all('Role')) {
    const role = `arn:aws:iam::${ACCOUNT}:role/${inputs['name'] as string}`;
    for (const action of ['iam:PutRolePolicy', 'iam:AttachRolePolicy', 'iam:UpdateAssumeRolePolicy']) {
      expect(decide(policies.slice(1), { action, resource: role })).toBe('denied');
      expect(decide(policies.slice(0, 1), { action, resource: role })).not.toBe('allowed');
    }
  }
});

test('promotesFrom lets the role deploy read the models of another stack, without its state', async () => {
  const read = { action: 's3:GetObject', resource: 'arn:aws:s3:::triton-staging-models-1a2b3c4/models/a/1/b' };
  const logs = { action: 's3:GetObject', resource: 'arn:aws:s3:::triton-staging-models-access-logs-1a2b3c4/a' };
  const key = (stack: string) => ({
    action: 'kms:Decrypt',
    resource: `arn:aws:kms:us-east-1:${ACCOUNT}:key/1`,
    context: { 'aws:ResourceTag/stack': stack },
  });
  const decisions = async (promotesFrom: string): Promise<string[]> => {
    const one = getPolicy(await create({ stack: 'prod', promotesFrom }), 'deploy');
    return [read, key('staging'), logs, key('other')].map((call) => decide([one], call));
  };
  expect(await decisions('staging')).toEqual(['allowed', 'allowed', 'not allowed', 'not allowed']);
  expect(await decisions('')).toEqual(Array(4).fill('not allowed'));
});

test('the provider of GitHub is created only if the account has none, and then retained', async () => {
  const created = await create({ providerArn: undefined });
  expect((await create()).all('OpenIdConnectProvider')).toEqual([]);
  expect(created.only('OpenIdConnectProvider').retainOnDelete).toBe(true);
});

test('the bucket and the key of the state are protected, encrypted and versioned', async () => {
  const made = await create();
  const bucket = made.only('Bucket');
  expect([bucket.protect, made.only('Key').protect]).toEqual([true, true]);
  expect(made.only('BucketVersioning').inputs).toMatchObject({
    versioningConfiguration: { status: 'Enabled' },
  });
  const encryption = made.only('BucketServerSideEncryptionConfiguration');
  expect(JSON.stringify(encryption.inputs)).toContain(made.only('Key').state['arn']);
  expect(JSON.stringify(made.only('BucketPolicy').inputs)).toContain('aws:SecureTransport');
});

test.each(['acme', 'acme/*', '*/serving', 'acme/serving:environment', 'https://github.com/acme/serving'])(
  'the repository %s is rejected',
  (repository) => {
    expect(() => bootstrap({ ...SETTINGS, repository })).toThrow(/^repository: is "/);
  },
);
