import { getCalls, READER_PERMISSIONS, type RepositoryArns } from '../../support/aws-permissions';
import { decide, smallerPolicies, type Call, type PolicyDocument, type Statement } from '../../support/iam';
import { ACCOUNT, registeredStack, type RegisteredResource } from '../../support/registered-stack';
import { PUBLISHER } from '../../support/setting-values';

const POLICIES = ['aws:iam/rolePolicy:RolePolicy', 'aws:iam/policy:Policy'];

/** The one policy of the role whose name ends so. */
function getPolicy(resources: readonly RegisteredResource[], role: string): PolicyDocument {
  const found = resources.filter(({ type, name }) => POLICIES.includes(type) && name.endsWith(role));
  expect(found.map(({ name }) => name)).toHaveLength(1);
  return JSON.parse(found[0]?.inputs['policy'] as string) as PolicyDocument;
}

/** Expects that some call is refused without any part of the policy, except those whose name begins so. */
function expectAllNeeded(policy: PolicyDocument, except: string, calls: readonly Call[]): void {
  const smaller = smallerPolicies(policy).filter(({ without }) => !without.startsWith(except));
  expect(smaller.length).toBeGreaterThan(2);
  const unneeded = smaller.filter((one) => calls.every((call) => decide([one.policy], call) === 'allowed'));
  expect(unneeded.map(({ without }) => without)).toEqual([]);
}

describe.each(['staging', 'prod'])('the role of the agents of %s', (stack) => {
  let policy: PolicyDocument;
  let at: RepositoryArns;

  beforeAll(async () => {
    const { resources, outputs, all } = await registeredStack(stack, PUBLISHER);
    policy = getPolicy(resources, 'server');
    const [, bucket = '', prefix = ''] = /^s3:\/\/([^/]+)\/(.+)$/.exec(outputs['modelRepository'] as string) ?? [];
    const encryption = all('BucketServerSideEncryptionConfiguration').find(({ inputs }) => inputs['bucket'] === bucket);
    const [rule] = encryption?.inputs['rules'] as {
      applyServerSideEncryptionByDefault: { kmsMasterKeyId: string };
    }[];
    const key = rule?.applyServerSideEncryptionByDefault.kmsMasterKeyId ?? '';
    at = { bucket, prefix, key, region: outputs['region'] as string };
  });

  const callsIn = (...places: string[]): Call[] => getCalls(READER_PERMISSIONS, at, places);
  const needed = (): Call[] => callsIn(`${at.prefix}.releases`);
  const allowed = (calls: readonly Call[]): Call[] => calls.filter((call) => decide([policy], call) === 'allowed');

  test('allows all requests of the agents, and has no unneeded statement', () => {
    expect(allowed(needed())).toEqual(needed());
    // The agent lists nothing, but the permission to list decides about 404 or 403.
    expectAllNeeded(policy, 'List: StringLike', needed());
  });

  test('refuses the same elsewhere: in another folder, another bucket, with another key', () => {
    const { prefix } = at;
    // IAM has nothing by which HeadBucket could be told from a listing of everything: names can be seen, no contents.
    const isOfTheBucketItself = ({ resource, context }: Call): boolean =>
      resource === `arn:aws:s3:::${at.bucket}` && context?.['s3:prefix'] === undefined;
    const inOtherFolders = callsIn('other', prefix, `${prefix}2`, `old/${prefix}`, `${prefix}.releases2`);
    const elsewhere = [
      ...inOtherFolders.filter((call) => call.resource !== at.key && !isOfTheBucketItself(call)),
      ...getCalls(READER_PERMISSIONS, { ...at, bucket: `${at.bucket}-2`, key: `${at.key}2` }, [`${prefix}.releases`]),
    ];
    expect(allowed(elsewhere)).toEqual([]);
  });

  test('refuses other requests', () => {
    const bucket = `arn:aws:s3:::${at.bucket}`;
    const object = `${bucket}/${at.prefix}/bert/1/model.pt`;
    const on = (resource: string, ...actions: string[]): Call[] => actions.map((action) => ({ action, resource }));
    const more = [
      ...on(bucket, 's3:PutBucketPolicy', 's3:PutLifecycleConfiguration', 's3:PutBucketVersioning', 's3:DeleteBucket'),
      ...on(object, 's3:PutObject', 's3:DeleteObject', 's3:DeleteObjectVersion', 's3:PutObjectAcl'),
      ...on(at.key, 'kms:ScheduleKeyDeletion', 'kms:PutKeyPolicy'),
      ...on(`arn:aws:iam::${ACCOUNT}:role/admin`, 'iam:PassRole', 'sts:AssumeRole'),
    ];
    expect(allowed(more)).toEqual([]);
  });
});

describe('roles of publishers', () => {
  const PUT = { 's3:ObjectCreationOperation': 'true' };
  const REQUESTS = {
    create: { action: 's3:PutObject', context: { ...PUT, 's3:if-none-match': '*' } },
    'upload a part': { action: 's3:PutObject', context: { 's3:ObjectCreationOperation': 'false' } },
    replace: { action: 's3:PutObject', context: { ...PUT, 's3:if-match': '"etag"' } },
    overwrite: { action: 's3:PutObject', context: PUT },
    delete: { action: 's3:DeleteObject' },
    'delete a version': { action: 's3:DeleteObjectVersion' },
    read: { action: 's3:GetObject' },
    'read a version': { action: 's3:GetObjectVersion' },
  } as const;
  type Request = keyof typeof REQUESTS;
  let policies: { publisher: PolicyDocument; pruner: PolicyDocument };
  let bucket: string;

  beforeAll(async () => {
    const prunerSubjects = ['repo:acme/serving:environment:prune'];
    const { resources, outputs, only } = await registeredStack('staging', { ...PUBLISHER, prunerSubjects });
    bucket = new URL(outputs['modelRepository'] as string).host;
    policies = { publisher: getPolicy(resources, 'publisher'), pruner: getPolicy(resources, 'pruner') };
    expect(only('Role', 'publisher-pruner').inputs['assumeRolePolicy']).toContain(prunerSubjects[0]);
  });

  const ALWAYS: Request[] = ['create', 'upload a part', 'read'];

  test.each<{ of: string; key: string; allowed: Request[]; toPruner?: Request[] }>([
    { of: 'a file of a release', key: 'models.releases/files/abc.3', allowed: ALWAYS, toPruner: ['delete'] },
    { of: 'a manifest', key: 'models.releases/20261125T100000000Z-1a2b3c4d.json', allowed: ALWAYS },
    { of: 'head.json', key: 'models.releases/head.json', allowed: [...ALWAYS, 'replace'] },
    { of: 'view.json', key: 'models.releases/view.json', allowed: [...ALWAYS, 'replace'] },
    {
      of: 'a file of the repository',
      key: 'models/bert/10/model.pt',
      allowed: [...ALWAYS, 'replace', 'overwrite', 'delete'],
    },
    { of: 'an object elsewhere', key: 'other/1/model.pt', allowed: [] },
  ])('publisher and pruner may do with $of: $allowed; the pruner also: $toPruner', (row) => {
    const { key, allowed, toPruner = [] } = row;
    for (const [name, call] of Object.entries(REQUESTS) as [Request, (typeof REQUESTS)[Request]][]) {
      const decisions = [policies.publisher, policies.pruner].map((policy) =>
        decide([policy], { ...call, resource: `arn:aws:s3:::${bucket}/${key}` }),
      );
      const expected = allowed.includes(name) ? 'allowed' : 'not allowed';
      expect([name, ...decisions]).toEqual([name, expected, toPruner.includes(name) ? 'allowed' : expected]);
    }
  });
});

describe('bucketReaders', () => {
  const READER = 'arn:aws:iam::444455556666:role/deploy-prod';
  const AT = { bucket: '', prefix: 'models', key: 'key', region: 'us-east-1' };
  const PLACES = ['models.releases'];
  type Principled = Statement & { Principal: '*' | { AWS?: string | string[] } };
  let statements: Principled[];

  beforeAll(async () => {
    const { only, outputs } = await registeredStack('staging', { bucketReaders: [READER] });
    AT.bucket = new URL(outputs['modelRepository'] as string).host;
    statements = [only('BucketPolicy', 'models'), only('aws:kms/key:Key', 'models-key')].flatMap(
      ({ inputs }) => (JSON.parse(inputs['policy'] as string) as { Statement: Principled[] }).Statement,
    );
  });

  /** What the policies of bucket and key say to a principal; AWS asks its own policies besides. */
  function policyFor(arn: string): PolicyDocument {
    const isMeant = ({ Principal }: Principled): boolean =>
      Principal === '*' || [Principal.AWS].flat().some((principal) => principal === arn);
    return { Version: '2012-10-17', Statement: statements.filter(isMeant) };
  }

  const by = (arn: string, calls: readonly Call[]): Call[] =>
    calls.map((call) => ({
      ...call,
      context: {
        ...call.context,
        'aws:PrincipalArn': arn,
        'aws:PrincipalAccount': arn.split(':')[4] ?? '',
        'aws:PrincipalIsAWSService': 'false',
        'aws:SecureTransport': 'true',
      },
    }));
  const needed = (): Call[] => by(READER, getCalls(READER_PERMISSIONS, AT, PLACES));

  test('allows the requests of promote, each of which needs its statement', () => {
    const policy = policyFor(READER);
    expect(needed().filter((call) => decide([policy], call) !== 'allowed')).toEqual([]);
    const allowing = { ...policy, Statement: [policy.Statement].flat().filter(({ Effect }) => Effect === 'Allow') };
    // As above: promote lists nothing.
    expectAllNeeded(allowing, 'ReadersList: StringLike', needed());
  });

  test('denies writes, other reads, and use of the key other than through S3', () => {
    const object = `arn:aws:s3:::${AT.bucket}/models/bert/1/model.pt`;
    const more = by(READER, [
      ...['PutObject', 'DeleteObject', 'DeleteObjectVersion'].map((action) => ({
        action: `s3:${action}`,
        resource: object,
      })),
      ...getCalls([{ action: 's3:GetObject', of: 'object', why: '' }], AT, ['other', 'models2', 'models.releases2']),
      { action: 'kms:Decrypt', resource: 'key' },
      { action: 'kms:GenerateDataKey', resource: 'key', context: { 'kms:ViaService': 's3.us-east-1.amazonaws.com' } },
    ]);
    expect(more.filter((call) => decide([policyFor(READER)], call) === 'allowed')).toEqual([]);
  });

  test('denies all other roles of that account', () => {
    const other = READER.replace('deploy-prod', 'another-role');
    const calls = by(other, getCalls(READER_PERMISSIONS, AT, PLACES)).filter(({ action }) => action.startsWith('s3:'));
    expect(new Set(calls.map((call) => decide([policyFor(other)], call)))).toEqual(new Set(['denied']));
  });
});
