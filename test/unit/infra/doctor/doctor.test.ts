import { explainError, MissingRightError } from '../../../../infra/doctor/account';
import { ok, type Check, type Context } from '../../../../infra/doctor/check';
import { examine } from '../../../../infra/doctor/doctor';
import { UserError } from '../../../../src/core/errors';

const LIMIT_MS = 50;
const run = (...checks: Check[]) => examine(checks, {} as Context, LIMIT_MS);
const good: Check = { name: 'good', run: () => [ok('one'), ok('two')] };

test('examine reports every finding of every check, in the order of the checks', async () => {
  const slow: Check = { name: 'slow', run: async () => new Promise((resolve) => setImmediate(resolve, [ok('late')])) };
  expect(await run(slow, good)).toEqual([
    { check: 'slow', level: 'ok', found: 'late' },
    { check: 'good', level: 'ok', found: 'one' },
    { check: 'good', level: 'ok', found: 'two' },
  ]);
});

test('examine reports a check that hangs, and the results of the others', async () => {
  const hanging: Check = { name: 'hanging', run: () => new Promise(() => undefined) };
  const lines = await run(hanging, good);
  expect(lines.map(({ check, level }) => [check, level])).toEqual([
    ['hanging', 'warning'],
    ['good', 'ok'],
    ['good', 'ok'],
  ]);
  expect(lines[0]?.found).toBe('not checked: no answer within 50 ms');
});

test.each<[required: true | undefined, level: string]>([
  [undefined, 'warning'],
  [true, 'error'],
])('a check (required: %s) that cannot be made is reported as %s, with the hint', async (required, level) => {
  const check: Check = {
    name: 'failing',
    ...(required === undefined ? {} : { required }),
    run: () => Promise.reject(new UserError('no network', { hint: 'plug it in' })),
  };
  expect(await run(check)).toEqual([{ check: 'failing', level, found: 'not checked: no network', fix: 'plug it in' }]);
});

test('examine passes on an error of its own code', async () => {
  const broken: Check = {
    name: 'broken',
    run: () => {
      throw new TypeError('undefined is not a function');
    },
  };
  await expect(run(good, broken)).rejects.toThrow(TypeError);
});

const named = (name: string, code?: string): Error =>
  Object.assign(new Error('the text of AWS'), { name }, code === undefined ? {} : { code });

test.each<[error: Error, message: string]>([
  [named('UnauthorizedOperation'), 'the caller lacks the right ec2:DescribeVpcs'],
  [named('AccessDeniedException'), 'the caller lacks the right ec2:DescribeVpcs'],
  [named('AuthFailure'), 'AWS rejects the credentials: AuthFailure: the text of AWS'],
  [named('ExpiredTokenException'), 'AWS rejects the credentials: ExpiredTokenException: the text of AWS'],
  [named('Error', 'ECONNREFUSED'), 'the request for ec2:DescribeVpcs failed: ECONNREFUSED: the text of AWS'],
  [new UserError('explained'), 'explained'],
])('explainError of %s', (error, message) => {
  expect(explainError(error, 'ec2:DescribeVpcs').message).toBe(message);
});

test('a request that needs no right is not refused for a missing one', () => {
  expect(explainError(named('AccessDenied'), undefined)).not.toBeInstanceOf(MissingRightError);
});
