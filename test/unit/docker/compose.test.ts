import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../../src/core/paths';
import { guardFlags } from '../../../src/triton/control-key';
import { RAISE_STACK_LIMIT, SERVING_FLAGS } from '../../../src/triton/serving';
import { describeUnless } from '../../support/describe-unless';
import { readCompose, readDockerfile, readStage } from './read';

const { services } = readCompose();

const CONTAINER = { cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'], restart: 'unless-stopped' };
const TRITON = {
  ...CONTAINER,
  build: { context: '.', target: 'server' },
  image: 'triton-serving',
  ports: ['127.0.0.1:8000:8000', '127.0.0.1:8001:8001', '127.0.0.1:8002:8002'],
  healthcheck: { start_interval: '2s' },
  stop_grace_period: '45s',
  shm_size: '1gb',
  ulimits: { memlock: -1 },
};
const FOLDER = {
  ...TRITON,
  command: ['--model-repository=/build/repository'],
  environment: { TRITON_MODEL_CONTROL_KEY: null },
  volumes: ['./build:/build:ro'],
};
const BUCKET = {
  ...TRITON,
  entrypoint: [
    '/bin/sh',
    '-c',
    `${RAISE_STACK_LIMIT.replaceAll('$', '$$$$')}eval "$$(cat /opt/agent/start-triton.sh)"`,
    '/var/cache/triton',
  ],
  command: [
    '/opt/nvidia/nvidia_entrypoint.sh',
    'tritonserver',
    '--model-repository=/var/cache/triton/models',
    ...SERVING_FLAGS,
    '--exit-timeout-secs=30',
    ...guardFlags('{control-key}'),
  ],
  // No credentials.
  environment: {},
  volumes: ['./infra/triton/agent:/opt/agent:ro', 'releases:/var/cache/triton:ro'],
  depends_on: { agent: { condition: 'service_started' } },
  healthcheck: { test: ['CMD', '/bin/sh', '/opt/agent/probe.sh', '/var/cache/triton'], start_interval: '2s' },
};
const GPU = {
  deploy: { resources: { reservations: { devices: [{ driver: 'nvidia', count: 1, capabilities: ['gpu'] }] } } },
};
const AS_TRITON = { networks: { default: { aliases: ['triton'] } } };

test('triton: one GPU', () => {
  expect(services['triton']).toEqual({ ...FOLDER, ...GPU });
});

test('the other services start only when asked for, and those of Triton have the same host name', () => {
  expect(services['triton-cpu']).toEqual({ ...FOLDER, ...AS_TRITON, profiles: ['cpu'] });
  expect(services['triton-bucket']).toEqual({ ...BUCKET, ...GPU, ...AS_TRITON, profiles: ['bucket'] });
  expect(services['triton-bucket-cpu']).toEqual({ ...BUCKET, ...AS_TRITON, profiles: ['bucket-cpu'] });
  expect(services['agent']).toMatchObject({ ...CONTAINER, profiles: ['bucket', 'bucket-cpu'], network_mode: 'host' });
});

test('compose.yaml has no other services', () => {
  expect(Object.keys(services)).toEqual(['triton', 'triton-cpu', 'triton-bucket', 'triton-bucket-cpu', 'agent']);
});

test('the mounted folder is in every checkout, because Docker would create it for root alone', () => {
  expect(existsSync(join(paths.root, 'build', '.gitignore'))).toBe(true);
});

describe('compose.yaml and the Dockerfile agree', () => {
  const dockerfile = readDockerfile();
  const value = (name: string): string => dockerfile.find((one) => one.name === name)?.value ?? '';

  test.each(Object.entries(services))('the target of %s is one of its stages', (_, { build }) => {
    expect(build.context).toBe('.');
    expect(() => readStage(build.target)).not.toThrow();
  });

  test('the image has the health check', () => {
    expect(value('HEALTHCHECK')).toContain('/v2/health/ready');
  });

  test('the folder of the agent is there, and belongs to the user', () => {
    expect(value('RUN')).toContain('install --directory --owner=1000 --group=1000');
    expect(value('ENV')).toBe(`TRITON_AWS_MOUNT_DIRECTORY=${BUCKET.entrypoint[3]}`);
    expect(value('USER')).toBe('1000:1000');
  });

  test('Docker waits longer than the server does for open requests', () => {
    const seconds = Number(/--exit-timeout-secs=(\d+)/.exec(value('ENTRYPOINT'))?.[1]);
    expect(Number.parseInt(TRITON.stop_grace_period, 10)).toBeGreaterThanOrEqual(seconds + 10);
  });
});

const noCompose =
  spawnSync('docker', ['compose', 'version']).status === 0 ? undefined : 'there is no docker with the compose plugin';

describeUnless(noCompose, 'docker compose config', () => {
  /** compose.yaml as Compose itself reads it. */
  function config(env: NodeJS.ProcessEnv, ...args: string[]): { services: Record<string, Record<string, unknown>> } {
    const { status, stdout, stderr } = spawnSync(
      'docker',
      ['compose', '--env-file', '/dev/null', ...args, 'config', '--format', 'json'],
      {
        cwd: paths.root,
        encoding: 'utf8',
        env: {
          ...process.env,
          MODEL_REPOSITORY: undefined,
          COMPOSE_PROFILES: undefined,
          AWS_DEFAULT_REGION: undefined,
          ...env,
        },
      },
    );
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return JSON.parse(stdout) as { services: Record<string, Record<string, unknown>> };
  }

  test('the exported folder is the default', () => {
    const { services: read } = config({});
    expect(Object.keys(read)).toEqual(['triton']);
    expect(read['triton']?.['command']).toEqual(['--model-repository=/build/repository']);
  });

  test.each(['bucket', 'bucket-cpu'])('the profile %s has an agent with the bucket of the environment', (profile) => {
    const given = { MODEL_REPOSITORY: 's3://models/prod', AWS_DEFAULT_REGION: 'eu-central-1' };
    const { services: read } = config(given, '--profile', profile);
    expect(Object.keys(read).sort()).toEqual(['agent', 'triton', `triton-${profile}`]);
    expect(read['agent']?.['command']).toContain('s3://models/prod');
    expect(read['agent']?.['environment']).toMatchObject({ AWS_DEFAULT_REGION: 'eu-central-1' });
    expect(read[`triton-${profile}`]?.['environment'] ?? {}).toEqual({});
  });

  test('the profile cpu has no GPU in it', () => {
    const { services: read } = config({}, '--profile', 'cpu');
    expect(Object.keys(read).sort()).toEqual(['triton', 'triton-cpu']);
    expect(read['triton-cpu']?.['deploy']).toBeUndefined();
  });
});
