import { decide, smallerPolicies, type Call, type PolicyDocument, type Statement } from '../../support/iam';

const BUCKET = 'arn:aws:s3:::models';
const GET: Call = { action: 's3:GetObject', resource: `${BUCKET}/models/bert/1/model.pt` };
const list = (prefix?: string): Call => ({
  action: 's3:ListBucket',
  resource: BUCKET,
  ...(prefix === undefined ? {} : { context: { 's3:prefix': prefix } }),
});

const policy = (...Statement: Statement[]): PolicyDocument => ({ Version: '2012-10-17', Statement });
const READ: Statement = { Effect: 'Allow', Action: 's3:GetObject', Resource: `${BUCKET}/models/*` };
const LIST: Statement = { Effect: 'Allow', Action: 's3:ListBucket', Resource: BUCKET };

test.each<[string, Statement[], string]>([
  ['nothing said', [], 'not allowed'],
  ['the action on the resource', [READ], 'allowed'],
  ['the action in another case', [{ ...READ, Action: ['s3:PutObject', 'S3:get*'] }], 'allowed'],
  ['the beginning of an action', [{ ...READ, Action: 's3:Get' }], 'not allowed'],
  ['a resource in another case', [{ ...READ, Resource: `${BUCKET}/Models/*` }], 'not allowed'],
  ['dots are dots', [{ ...READ, Resource: 'arn:aws:s3:::model./*' }], 'not allowed'],
  ['all but this action', [{ Effect: 'Allow', NotAction: 's3:Get*', Resource: '*' }], 'not allowed'],
  ['all but another resource', [{ Effect: 'Allow', Action: '*', NotResource: `${BUCKET}/x` }], 'allowed'],
  ['denied and allowed', [READ, { ...READ, Effect: 'Deny' }], 'denied'],
  ['denied elsewhere', [READ, { ...READ, Effect: 'Deny', Resource: `${BUCKET}/x` }], 'allowed'],
])('decide: %s', (_, statements, decision) => {
  expect(decide([policy(...statements)], GET)).toBe(decision);
});

test.each<[string, NonNullable<Statement['Condition']>, Call, boolean]>([
  ['like one of several', { StringLike: { 'S3:Prefix': ['a/*', 'models/*'] } }, list('models/'), true],
  ['not like', { StringLike: { 's3:prefix': 'models/*' } }, list('other/'), false],
  ['like anything, without the key', { StringLike: { 's3:prefix': '*' } }, list(), false],
  ['if exists, without the key', { StringLikeIfExists: { 's3:prefix': 'models/*' } }, list(), true],
  ['if exists, and is another', { StringLikeIfExists: { 's3:prefix': 'models/*' } }, list('other/'), false],
  ['equals has no wildcards', { StringEquals: { 's3:prefix': 'models/*' } }, list('models/bert'), false],
  ['not equals, and is one of them', { StringNotEquals: { 's3:prefix': ['a', 'b'] } }, list('b'), false],
  ['not equals, without the key', { StringNotEquals: { 's3:prefix': 'a' } }, list(), true],
  ['null, with the key', { Null: { 's3:prefix': true } }, list('a'), false],
  ['both of two keys', { StringEquals: { 's3:prefix': 'a', 's3:delimiter': '/' } }, list('a'), false],
])('decide on a condition: %s', (_, Condition, call, allowed) => {
  expect(decide([policy({ ...LIST, Condition })], call)).toBe(allowed ? 'allowed' : 'not allowed');
});

test.each<[string, Partial<Statement>]>([
  ['NumericLessThan is not known here', { Condition: { NumericLessThan: { 's3:max-keys': '10' } } }],
  ['policy variables are not known here', { Condition: { StringLike: { 's3:prefix': '${aws:username}/*' } } }],
])('decide refuses to guess: %s', (message, more) => {
  expect(() => decide([policy({ ...LIST, ...more })], list('a'))).toThrow(message);
});

test('smallerPolicies are each without one thing', () => {
  const Condition = { StringLike: { 's3:prefix': ['a/*', 'b/*'] } };
  const Action = ['s3:ListBucket', 's3:ListBucketVersions'];
  const calls = [GET, list('a/'), list('b/')];
  const allowed = smallerPolicies(policy(READ, { ...LIST, Sid: 'List', Action, Condition })).map((smaller) => [
    smaller.without,
    ...calls.map((call) => decide([smaller.policy], call) === 'allowed'),
  ]);
  expect(allowed).toEqual([
    ['statement 0', false, true, true],
    ['List', true, false, false],
    ['List: Action s3:ListBucket', true, false, false],
    ['List: Action s3:ListBucketVersions', true, true, true],
    ['List: StringLike s3:prefix a/*', true, false, true],
    ['List: StringLike s3:prefix b/*', true, true, false],
  ]);
});
