import { describeStatus } from '../../../scripts/status';

test('describeStatus prints the first line of an error in the table, and the whole error below', () => {
  const text = describeStatus(
    { name: 's3://b/p', replicas: undefined },
    {
      release: undefined,
      missing: ['p/m/1/weights'],
      replicas: [
        { replica: 'one', answers: [{ model: 'm', ok: false, result: 'wrong\nby far' }] },
        { replica: 'two', problem: 'cannot be read\nat all' },
      ],
    },
  );
  expect(text.split('\n')).toEqual([
    's3://b/p has no release yet.',
    'In the bucket, p/m/1/weights is missing',
    expect.stringMatching(/^No replica was checked: add --triton URL and --agent URL, /),
    '',
    'replica  state                   models  on disk  start',
    '-------  ----------------------  ------  -------  -----',
    'one      as released, NOT READY       -        -',
    'two      cannot be read               -        -',
    '',
    'one, m: wrong',
    'by far',
    '',
    'two: cannot be read',
    'at all',
    '',
    'replica  model  asked  result',
    '-------  -----  -----  ------',
    'one      m      WRONG  wrong',
  ]);
});
