import { decide, smallerPolicies, type Call, type PolicyDocument, type Statement } from '../../support/iam';

const BUCKET = 'arn:aws:s3:::models';
const GET: Call = { action: 's3:GetObject', resource: `${BUCKET}/models/bert/1/model.pt` };
const list = (prefix?: string): Call => ({
  action: 's3:ListBucket',
  resource: BUCKET,
  ...(prefix === undefined ? {} : { context: { 's3:prefix': prefix } }),
});

const policy = (...Statement: Statement[]): PolicyDocument => ({ Version: '2012-10-17', Statement });
const allow = (more: Partial<Statement>): Statement => ({ Effect: 'Allow', ...more });
const READ = allow({ Action: 's3:GetObject', Resource: `${BUCKET}/models/*` });

describe('decisions', () => {
  test.each<[string, Statement[], Call, string]>([
    ['nothing said', [], GET, 'not allowed'],
    ['the action on the resource', [READ], GET, 'allowed'],
    ['the action in another case', [{ ...READ, Action: 'S3:getobject' }], GET, 'allowed'],
    ['one of several', [{ ...READ, Action: ['s3:PutObject', 's3:Get*'] }], GET, 'allowed'],
    ['another action', [{ ...READ, Action: 's3:GetObjectVersion' }], GET, 'not allowed'],
    ['the beginning of an action', [{ ...READ, Action: 's3:Get' }], GET, 'not allowed'],
    ['another folder', [{ ...READ, Resource: `${BUCKET}/model/*` }], GET, 'not allowed'],
    ['a resource in another case', [{ ...READ, Resource: `${BUCKET}/Models/*` }], GET, 'not allowed'],
    ['dots are dots', [{ ...READ, Resource: `${BUCKET}/models/bert/1/model?pt` }], GET, 'allowed'],
    ['and nothing else', [{ ...READ, Resource: 'arn:aws:s3:::model./*' }], GET, 'not allowed'],
    ['all but another action', [allow({ NotAction: 's3:PutObject', Resource: '*' })], GET, 'allowed'],
    ['all but this action', [allow({ NotAction: 's3:Get*', Resource: '*' })], GET, 'not allowed'],
    ['all but another resource', [allow({ Action: '*', NotResource: `${BUCKET}/x` })], GET, 'allowed'],
    ['all but this resource', [allow({ Action: '*', NotResource: `${BUCKET}/*` })], GET, 'not allowed'],
    ['denied and allowed', [READ, { ...READ, Effect: 'Deny' }], GET, 'denied'],
    ['denied elsewhere', [READ, { ...READ, Effect: 'Deny', Resource: `${BUCKET}/x` }], GET, 'allowed'],
  ])('%s', (_, statements, call, decision) => {
    expect(decide([policy(...statements)], call)).toBe(decision);
  });

  test.each<[string, NonNullable<Statement['Condition']>, Call, boolean]>([
    ['like', { StringLike: { 's3:prefix': 'models/*' } }, list('models/bert/'), true],
    ['like one of several', { StringLike: { 's3:prefix': ['a/*', 'models/*'] } }, list('models/'), true],
    ['not like', { StringLike: { 's3:prefix': 'models/*' } }, list('other/'), false],
    ['a key in another case', { StringLike: { 'S3:Prefix': 'models/*' } }, list('models/'), true],
    ['like, without the key', { StringLike: { 's3:prefix': 'models/*' } }, list(), false],
    ['like anything, without the key', { StringLike: { 's3:prefix': '*' } }, list(), false],
    ['if exists, without the key', { StringLikeIfExists: { 's3:prefix': 'models/*' } }, list(), true],
    ['if exists, and is another', { StringLikeIfExists: { 's3:prefix': 'models/*' } }, list('other/'), false],
    ['equals has no wildcards', { StringEquals: { 's3:prefix': 'models/*' } }, list('models/bert'), false],
    ['not equals', { StringNotEquals: { 's3:prefix': ['a', 'b'] } }, list('c'), true],
    ['not equals, and is one of them', { StringNotEquals: { 's3:prefix': ['a', 'b'] } }, list('b'), false],
    ['not equals, without the key', { StringNotEquals: { 's3:prefix': 'a' } }, list(), true],
    ['null', { Null: { 's3:prefix': 'true' } }, list(), true],
    ['null, with the key', { Null: { 's3:prefix': true } }, list('a'), false],
    ['both of two keys', { StringEquals: { 's3:prefix': 'a', 's3:delimiter': '/' } }, list('a'), false],
    [
      'both of two operators',
      { StringLike: { 's3:prefix': 'a*' }, StringNotEquals: { 's3:prefix': 'ab' } },
      list('ab'),
      false,
    ],
  ])('conditions: %s', (_, Condition, call, allowed) => {
    const statement = allow({ Action: 's3:ListBucket', Resource: BUCKET, Condition });
    expect(decide([policy(statement)], call)).toBe(allowed ? 'allowed' : 'not allowed');
  });

  test.each<[string, Partial<Statement>]>([
    ['NumericLessThan is not known here', { Condition: { NumericLessThan: { 's3:max-keys': '10' } } }],
    ['policy variables are not known here', { Condition: { StringLike: { 's3:prefix': '${aws:username}/*' } } }],
    ['one of Action and NotAction', { NotAction: 's3:PutObject' }],
  ])('refuses to guess: %s', (message, more) => {
    const statement = allow({ Action: 's3:ListBucket', Resource: BUCKET, ...more });
    expect(() => decide([policy(statement)], list('a'))).toThrow(message);
  });
});

test('smaller policies: each is without one thing', () => {
  const whole = policy(
    READ,
    allow({
      Sid: 'List',
      Action: ['s3:ListBucket', 's3:ListBucketVersions'],
      Resource: BUCKET,
      Condition: { StringLike: { 's3:prefix': ['a/*', 'b/*'] } },
    }),
  );
  const smaller = smallerPolicies(whole);
  expect(smaller.map(({ without }) => without)).toEqual([
    'statement 0',
    'List',
    'List: Action s3:ListBucket',
    'List: Action s3:ListBucketVersions',
    'List: StringLike s3:prefix a/*',
    'List: StringLike s3:prefix b/*',
  ]);
  const decisions = smaller.map(({ policy: one }) => [GET, list('a/'), list('b/')].map((call) => decide([one], call)));
  expect(decisions.map((row) => row.map((decision) => decision === 'allowed'))).toEqual([
    [false, true, true],
    [true, false, false],
    [true, false, false],
    [true, true, true],
    [true, false, true],
    [true, true, false],
  ]);
});
