import { main as cost } from '../../../scripts/cost';
import { main as exportRepository } from '../../../scripts/export';
import { main as promote } from '../../../scripts/promote';
import { main as releases } from '../../../scripts/releases';
import { main as rollback } from '../../../scripts/rollback';
import { main as status } from '../../../scripts/status';
import { main as syncModels } from '../../../scripts/sync-models';
import { main as trace } from '../../../scripts/trace';
import { main as validate } from '../../../scripts/validate';

type Main = (argv: readonly string[]) => Promise<number>;

/** What a command that gets its command line wrong says. */
async function refusal(main: (argv: readonly string[]) => Promise<number>, argv: string): Promise<string> {
  let said = '';
  const write = jest.spyOn(process.stderr, 'write').mockImplementation((text) => {
    said += String(text);
    return true;
  });
  try {
    expect(await main(argv.split(' '))).toBe(2);
  } finally {
    write.mockRestore();
  }
  return said;
}

test.each(['-h', 'help', '--help', '--stack staging -h'])('%s shows the help', async (argv) => {
  const write = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
  try {
    expect(await syncModels(argv.split(' '))).toBe(0);
    expect(write.mock.calls.map(String).join('')).toMatch(/^Publishes a model repository[^]*--help\n/);
  } finally {
    write.mockRestore();
  }
});

test.each([
  ['cost', cost, '--stack staging', 'STACK has no flag: write staging alone'],
  ['cost', cost, '--stack=staging', 'STACK has no flag: write staging alone'],
  ['cost', cost, '--stack --json', 'STACK has no flag: write it alone'],
  ['rollback', rollback, '--release 1f2e3d4c --stack prod', 'RELEASE has no flag: write 1f2e3d4c alone'],
])('a flag where an argument is meant: %s', async (_, main, argv, hint) => {
  expect(await refusal(main, argv)).toContain(`-> ${hint}\n`);
});

test.each([
  ['status', status, 'staging', '--stack staging'],
  ['status', status, 's3://models/prefix', '--bucket s3://models/prefix'],
  ['status', status, '--stack staging http://127.0.0.1:8000', '--triton http://127.0.0.1:8000'],
  ['releases', releases, 'staging', '--stack staging'],
  ['rollback', rollback, '1f2e3d4c staging', '--stack staging'],
  ['sync-models', syncModels, 'staging', '--stack staging'],
  ['sync-models', syncModels, '--stack staging resnet,bert', '--models resnet,bert'],
  ['sync-models', syncModels, './repository', '--repo ./repository'],
  ['promote', promote, 'staging prod', '--from staging'],
  ['promote', promote, '--from staging prod', '--to prod'],
  ['promote', promote, '--from=staging s3://prod/models', '--to s3://prod/models'],
  ['validate', validate, 'resnet', '--models resnet'],
  ['export', exportRepository, '/srv/models', '--out /srv/models'],
])('an argument where a flag is meant: %s', async (_, main, argv, flag) => {
  expect(await refusal(main, argv)).toContain(`-> did you mean ${flag}? flags for a command come after`);
});

test('a place that cannot be one is told with the flag that it was given with', async () => {
  expect(await refusal(promote, '--from s3://models --to prod')).toContain('--from s3://models: the prefix is missing');
  expect(await refusal(promote, '--from staging --to s3://models')).toContain('--to s3://models: the prefix is');
  expect(await refusal(status, '--bucket s3://models')).toContain('--bucket s3://models: the prefix is missing');
});

test.each([
  ['validate', validate, '--repo='],
  ['export', exportRepository, '--out='],
  ['status', status, '--bucket='],
  ['sync-models', syncModels, '--stack= --dry-run'],
  ['promote', promote, '--from=staging --to='],
  ['trace', trace, '--weights=m=a --weights='],
] as [string, Main, string][])('%s refuses an empty value: %s', async (_, main, argv) => {
  expect(await refusal(main, argv)).toMatch(/^error: --\w+ is empty\n {2}-> give it a value, or leave it out\n$/);
});

test.each([
  ['a file', __filename, 'it is not a folder'],
  ['nothing', '/nowhere', 'there is no such file or folder'],
  ['a name that is too long', 'x'.repeat(300), 'its name is too long'],
])('trace refuses a repository that is %s', async (_, repository, reason) => {
  expect(await refusal(trace, `--repo ${repository}`)).toMatch(
    new RegExp(`^error: model repository .* cannot be read: ${reason}\n {2}-> name one with --repo\n$`),
  );
});

test('promote --local says how to publish to the running npm run local', async () => {
  expect(await refusal(promote, '--from staging --local')).toMatch(
    /no --local.*\n {2}-> npm run sync-models -- --local /,
  );
});

test('what fits no flag gets the list of them', async () => {
  expect(await refusal(status, '--stack staging extra')).toMatch(/npm run NAME -- --FLAG; flags: --stack --stack-dir /);
  expect(await refusal(status, '--nothing-like-it')).toMatch(/-> flags: --stack --stack-dir /);
  expect(await refusal(status, '--stak staging')).toContain('-> did you mean --stack?\n');
});
