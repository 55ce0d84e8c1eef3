import { targetCommand, withTarget, withTargetFlags } from '../../../src/commands/target';

const STAGING = { flags: { stack: 'staging', 'stack-dir': '/my stacks' } };
const BUCKET = {
  flags: {
    bucket: 's3://my-bucket/models',
    'endpoint-url': 'http://127.0.0.1:9000',
    triton: ['http://h:1', 'http://h:2'],
    agent: ['http://h:3', 'http://h:4'],
  },
};
const LOCAL = { flags: { local: true, repo: '/srv/models', triton: undefined } };

test.each([
  { script: 'status', target: STAGING, command: "npm run status -- --stack staging --stack-dir '/my stacks'" },
  {
    script: 'status',
    target: BUCKET,
    command:
      'npm run status -- --bucket s3://my-bucket/models --endpoint-url http://127.0.0.1:9000 --triton http://h:1 --triton http://h:2 --agent http://h:3 --agent http://h:4',
  },
  // releases takes no flags for replicas.
  {
    script: 'releases',
    target: BUCKET,
    command: 'npm run releases -- --bucket s3://my-bucket/models --endpoint-url http://127.0.0.1:9000',
  },
  // Without --local, only sync-models takes --repo.
  ...[
    { script: 'sync-models', command: 'npm run sync-models -- --stack prod --repo /srv/models' },
    { script: 'status', command: 'npm run status -- --stack prod' },
  ].map((row) => ({ ...row, target: { flags: { stack: 'prod', repo: '/srv/models' } } })),
  { script: 'rollback', target: LOCAL, command: 'npm run rollback -- --local --repo /srv/models' },
])('targetCommand repeats the flags of the target: $command', ({ script, target, command }) => {
  expect(targetCommand(script, target)).toBe(command);
});

test('targetCommand omits other flags of the command', () => {
  const flags = { stack: 'prod', ask: true, json: false, wait: '600' };
  expect(targetCommand('sync-models', { flags }, '--models', 'a,b')).toBe(
    'npm run sync-models -- --stack prod --models a,b',
  );
});

test('withTargetFlags completes the commands in a message', () => {
  expect(withTargetFlags('"npm run status" reports it; list them: npm run releases', LOCAL)).toBe(
    '"npm run status -- --local --repo /srv/models" reports it; list them: npm run releases -- --local --repo /srv/models',
  );
});

test('withTargetFlags adds the flags before the arguments of a command', () => {
  expect(withTargetFlags('choose it: npm run rollback -- ID; "npm run releases" lists them', LOCAL)).toBe(
    'choose it: npm run rollback -- --local --repo /srv/models ID; "npm run releases -- --local --repo /srv/models" lists them',
  );
});

test('withTargetFlags leaves commands that have flags, and commands without a target', () => {
  const text = 'npm run sync-models -- --models a; npm run local; npm run trace';
  expect(withTargetFlags(text, LOCAL)).toBe(text);
});

test('withTargetFlags gives the flags of the source to commands about its releases', () => {
  expect(withTargetFlags('npm run status; npm run releases', { flags: { stack: 'prod' } }, STAGING)).toBe(
    "npm run status -- --stack prod; npm run releases -- --stack staging --stack-dir '/my stacks'",
  );
});

test('withTarget pairs each --triton with its --agent, and keeps the flags for messages', async () => {
  const target = await withTarget(BUCKET.flags, (opened) => Promise.resolve(opened));
  expect((await target.replicas?.list())?.map(({ tritonUrl, url }) => [tritonUrl, url])).toEqual([
    ['http://h:1', 'http://h:3'],
    ['http://h:2', 'http://h:4'],
  ]);
  expect(targetCommand('status', target)).toBe(targetCommand('status', BUCKET));
});

test.each<[problem: string, flags: Parameters<typeof withTarget>[0], message: RegExp]>([
  ['no target', {}, /^none of --stack, --bucket and --local is given$/],
  ['--repo alone', { repo: 'r' }, /^--repo is given without --local$/],
  ['--local with --stack', { local: true, stack: 's' }, /^--local and --stack cannot/],
  [
    'two ways to select replicas',
    { bucket: 's3://my-bucket/models', triton: ['http://h:1'], selector: 'a=b' },
    /^--triton and --selector cannot be combined/,
  ],
  [
    'an agent without its server',
    { bucket: 's3://my-bucket/models', triton: ['http://h:1'], agent: ['http://h:2', 'http://h:3'] },
    /^--agent is given 2 times and --triton 1 times$/,
  ],
  [
    'a server without its agent',
    { bucket: 's3://my-bucket/models', triton: ['http://h:1'] },
    /^--agent is given 0 times and --triton 1 times$/,
  ],
  [
    'a server that is named twice',
    { bucket: 's3://b-1/m', triton: ['http://h:1', 'http://h:1'], agent: ['http://h:3', 'http://h:4'] },
    /^--triton http:\/\/h:1 is given twice$/,
  ],
  [
    'an agent that is named twice',
    { bucket: 's3://b-1/m', triton: ['http://h:1', 'http://h:2'], agent: ['http://h:3', 'http://h:3'] },
    /^--agent http:\/\/h:3 is given twice$/,
  ],
  ['a context alone', { bucket: 's3://my-bucket/models', context: 'c' }, /^--context is given without/],
])('withTarget rejects %s', async (_, flags, message) => {
  await expect(withTarget(flags, () => Promise.resolve())).rejects.toThrow(message);
});
