import { main as cost } from '../../../scripts/cost';
import { main as exportRepository } from '../../../scripts/export';
import { main as infer } from '../../../scripts/infer';
import { main as promote } from '../../../scripts/promote';
import { main as releases } from '../../../scripts/releases';
import { main as rollback } from '../../../scripts/rollback';
import { main as status } from '../../../scripts/status';
import { main as syncModels } from '../../../scripts/sync-models';
import { main as trace } from '../../../scripts/trace';
import { main as validate } from '../../../scripts/validate';

const COMMANDS = {
  cost,
  export: exportRepository,
  infer,
  promote,
  releases,
  rollback,
  status,
  'sync-models': syncModels,
  trace,
  validate,
};

/** The error that a command prints for a wrong command line. */
async function usageError(command: keyof typeof COMMANDS, argv: string): Promise<string> {
  let printed = '';
  const write = jest.spyOn(process.stderr, 'write').mockImplementation((text) => {
    printed += String(text);
    return true;
  });
  try {
    expect(await COMMANDS[command](argv.split(' '))).toBe(2);
  } finally {
    write.mockRestore();
  }
  return printed;
}

test.each(['-h', 'help', '--help', '--stack staging -h'])('a command prints its help for %s', async (argv) => {
  const write = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
  try {
    expect(await syncModels(argv.split(' '))).toBe(0);
    expect(write.mock.calls.map(String).join('')).toMatch(/^Publishes a model repository[^]*--help /);
  } finally {
    write.mockRestore();
  }
});

test.each([
  { command: 'cost', argv: '--stack staging', hint: 'STACK is not a flag: write staging without --stack' },
  { command: 'cost', argv: '--stack=staging', hint: 'STACK is not a flag: write staging without --stack' },
  { command: 'cost', argv: '--stack --json', hint: 'STACK is not a flag: write STACK without --stack' },
  {
    command: 'rollback',
    argv: '--release 1f2e3d4c --stack prod',
    hint: 'RELEASE is not a flag: write 1f2e3d4c without --release',
  },
] as const)('$command $argv: the hint names the argument', async ({ command, argv, hint }) => {
  expect(await usageError(command, argv)).toContain(`-> ${hint}\n`);
});

test.each([
  { command: 'status', argv: 'staging', flag: '--stack staging' },
  { command: 'status', argv: 's3://models/prefix', flag: '--bucket s3://models/prefix' },
  { command: 'status', argv: '--stack staging http://127.0.0.1:8000', flag: '--triton http://127.0.0.1:8000' },
  { command: 'releases', argv: 'staging', flag: '--stack staging' },
  { command: 'rollback', argv: '1f2e3d4c staging', flag: '--stack staging' },
  { command: 'sync-models', argv: 'staging', flag: '--stack staging' },
  { command: 'sync-models', argv: '--stack staging resnet,bert', flag: '--models resnet,bert' },
  { command: 'sync-models', argv: './repository', flag: '--repo ./repository' },
  { command: 'promote', argv: 'staging prod', flag: '--from staging' },
  { command: 'promote', argv: '--from staging prod', flag: '--to prod' },
  { command: 'promote', argv: '--from=staging s3://prod/models', flag: '--to s3://prod/models' },
  { command: 'validate', argv: 'resnet', flag: '--models resnet' },
  { command: 'export', argv: '/srv/models', flag: '--out /srv/models' },
] as const)('$command $argv: the hint names the missing flag', async ({ command, argv, flag }) => {
  expect(await usageError(command, argv)).toContain(`-> did you mean ${flag}? write flags as in `);
});

test('errors about an S3 location name its flag', async () => {
  expect(await usageError('promote', '--from s3://models --to prod')).toContain('--from s3://models: the prefix is');
  expect(await usageError('promote', '--from staging --to s3://models')).toContain('--to s3://models: the prefix is');
  expect(await usageError('status', '--bucket s3://models')).toContain('--bucket s3://models: the prefix is');
});

test.each([
  { command: 'validate', argv: '--repo=' },
  { command: 'export', argv: '--out=' },
  { command: 'status', argv: '--bucket=' },
  { command: 'sync-models', argv: '--stack= --dry-run' },
  { command: 'promote', argv: '--from=staging --to=' },
  { command: 'trace', argv: '--weights=m=a --weights=' },
] as const)('$command rejects an empty value: $argv', async ({ command, argv }) => {
  expect(await usageError(command, argv)).toMatch(
    /^error: --(\w+) is empty\n {2}-> give --\1 a value, or omit the flag\n$/,
  );
});

test.each([
  { kind: 'a file', repository: __filename, reason: 'it is not a folder' },
  { kind: 'missing', repository: '/nowhere', reason: 'no such file or folder' },
  { kind: 'a name that is too long', repository: 'x'.repeat(300), reason: 'its name is too long' },
])('trace rejects a repository that is $kind', async ({ repository, reason }) => {
  expect(await usageError('trace', `--repo ${repository}`)).toMatch(
    new RegExp(`^error: model repository .* cannot be read: ${reason}\n {2}-> give the folder .* with --repo\n$`),
  );
});

test.each([
  { argv: '--to prod', hint: 'npm run promote -- --from STACK --to prod' },
  {
    argv: '--from s3://staging-models/models',
    hint: 'npm run promote -- --from s3://staging-models/models --to STACK',
  },
])('promote $argv suggests a command with the flags that were given', async ({ argv, hint }) => {
  expect(await usageError('promote', argv)).toContain(`is missing\n  -> ${hint}\n`);
});

test('releases refuses --yes without --prune', async () => {
  expect(await usageError('releases', '--bucket s3://models/prefix --yes')).toMatch(
    /^error: --yes has no meaning without --prune\n {2}-> omit it, or add --prune\n/m,
  );
});

test('a wrong argument that resembles no flag gets the list of flags', async () => {
  expect(await usageError('status', '--stack staging extra')).toMatch(
    /npm run NAME -- --FLAG"; flags: --stack --stack-dir /,
  );
  expect(await usageError('status', '--nothing-like-it')).toMatch(/-> flags: --stack --stack-dir /);
  expect(await usageError('status', '--stak staging')).toContain('-> did you mean --stack?\n');
});

test.each([
  { argv: '', message: 'no model is given\n  -> npm run infer -- MODEL [INPUT...]\n' },
  { argv: 'resnet --local --url http://h:1', message: '--local and --url cannot be combined\n  -> omit one of them\n' },
  { argv: 'resnet --pixels hsv', message: '--pixels hsv: unknown format; allowed: bgr, rgb' },
  { argv: 'resnet --top many', message: '--top many: must be a whole number from 0 to 1000\n' },
])('infer $argv: the error names the flag and the allowed values', async ({ argv, message }) => {
  expect(await usageError('infer', argv)).toContain(`error: ${message}`);
});
