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
import { runCommand } from '../../../src/cli/cli';
import { UserError } from '../../../src/core/errors';
import { watchInterrupts } from '../../../src/cli/interrupts';

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

test.each(['-h', '--help', '--stack staging -h'])('a command prints its help for %s', async (argv) => {
  const write = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
  try {
    expect(await syncModels(argv.split(' '))).toBe(0);
    const printed = write.mock.calls.map(String).join('');
    expect(printed).toMatch(/^Usage: npm run sync-models -- \[options\]\n\nPublishes a model repository[^]*--help /);
    expect(printed).toMatch(/--load-timeout <SECONDS> .*\(default: 600\)/);
  } finally {
    write.mockRestore();
  }
});

test.each([
  { command: 'status', argv: '--stak staging', error: "unknown option '--stak'\n  -> did you mean --stack?" },
  { command: 'status', argv: '--xyzzy', error: "unknown option '--xyzzy'\n  -> --help lists the flags" },
  { command: 'validate', argv: '--js', error: "unknown option '--js'\n  -> did you mean --json?" },
  {
    command: 'status',
    argv: 'staging',
    error: 'unexpected argument: staging\n  -> write flags as in "npm run NAME -- --FLAG"',
  },
  { command: 'releases', argv: '--limit', error: "option '--limit <N>' argument missing\n  -> --help lists the flags" },
  { command: 'sync-models', argv: '--message --dry-run', error: '--message needs a value\n  -> write --message VALUE' },
] as const)('$command $argv: $error', async ({ command, argv, error }) => {
  expect(await usageError(command, argv)).toBe(`error: ${error}\n`);
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
  { command: 'promote', argv: '--from s3://models --to prod', error: '--from s3://models: the prefix is' },
  { command: 'promote', argv: '--from staging --to s3://models', error: '--to s3://models: the prefix is' },
  { command: 'status', argv: '--bucket s3://models', error: '--bucket s3://models: the prefix is' },
  {
    command: 'promote',
    argv: '--to prod',
    error: 'is missing\n  -> npm run promote -- --from STACK --to prod\n',
  },
  {
    command: 'promote',
    argv: '--from s3://staging-models/models',
    error: 'is missing\n  -> npm run promote -- --from s3://staging-models/models --to STACK\n',
  },
  {
    command: 'releases',
    argv: '--bucket s3://models/prefix --yes',
    error: 'error: --yes has no meaning without --prune\n  -> omit it, or add --prune\n',
  },
  { command: 'infer', argv: '', error: 'error: no model is given\n  -> npm run infer -- MODEL [INPUT...]\n' },
  {
    command: 'infer',
    argv: 'resnet --local --url http://h:1',
    error: 'error: --local and --url cannot be combined\n  -> omit one of them\n',
  },
  {
    command: 'infer',
    argv: 'resnet --pixels hsv',
    error: 'error: --pixels hsv: unknown format; allowed: bgr, rgb',
  },
  {
    command: 'infer',
    argv: 'resnet --top many',
    error: 'error: --top many: must be a whole number from 0 to 1000\n',
  },
] as const)('$command $argv: the error names the flag, and what is allowed', async ({ command, argv, error }) => {
  expect(await usageError(command, argv)).toContain(error);
});

test('an error with control characters, such as an answer of a server, cannot control the terminal', async () => {
  const written: string[] = [];
  const spy = jest.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
  const code = await runCommand(() => Promise.reject(new UserError('replica a answers \u001b[2J\u009b1m\r\n\tb')));
  spy.mockRestore();
  expect([code, written.join('')]).toEqual([1, 'error: replica a answers \\x1b[2J\\x9b1m\\x0d\n\tb\n']);
});

test('watchInterrupts counts signals within a second as one, and removes its listeners', () => {
  const now = jest.spyOn(Date, 'now').mockReturnValue(0);
  const calls: string[] = [];
  const listeners = process.listenerCount('SIGINT');
  const stop = watchInterrupts({ first: () => calls.push('first'), again: () => calls.push('again') });
  const after: string[][] = [];
  for (const at of [10_000, 10_999, 11_000, 11_001]) {
    now.mockReturnValue(at);
    process.emit(at === 10_999 ? 'SIGTERM' : 'SIGINT');
    after.push([...calls]);
  }
  stop();
  now.mockRestore();
  expect(after).toEqual([['first'], ['first'], ['first', 'again'], ['first', 'again', 'again']]);
  expect(process.listenerCount('SIGINT')).toBe(listeners);
});
