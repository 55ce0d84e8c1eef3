import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../../src/core/paths';
import { describeUnless } from '../../support/describe-unless';
import { readCompose, readDockerfile } from './read';

const { services } = readCompose();

const SHARED = {
  build: { context: '.', target: 'server' },
  image: 'triton-serving',
  command: ['--model-repository=${MODEL_REPOSITORY:-/build/repository}'],
  environment: {
    AWS_ACCESS_KEY_ID: null,
    AWS_SECRET_ACCESS_KEY: null,
    AWS_SESSION_TOKEN: null,
    AWS_DEFAULT_REGION: null,
    TRITON_MODEL_CONTROL_KEY: null,
  },
  volumes: ['./build:/build:ro'],
  tmpfs: ['/var/cache/triton:mode=0700,uid=1000,gid=1000'],
  ports: ['127.0.0.1:8000:8000', '127.0.0.1:8001:8001', '127.0.0.1:8002:8002'],
  healthcheck: { start_interval: '2s' },
  stop_grace_period: '45s',
  shm_size: '1gb',
  ulimits: { memlock: -1, stack: 64 * 1024 * 1024 },
  cap_drop: ['ALL'],
  security_opt: ['no-new-privileges:true'],
  restart: 'unless-stopped',
};

test('triton: one GPU', () => {
  expect(services['triton']).toEqual({
    ...SHARED,
    deploy: { resources: { reservations: { devices: [{ driver: 'nvidia', count: 1, capabilities: ['gpu'] }] } } },
  });
});

test('triton-cpu: the same without a GPU, only when asked for, under the same host name', () => {
  expect(services['triton-cpu']).toEqual({
    ...SHARED,
    profiles: ['cpu'],
    networks: { default: { aliases: ['triton'] } },
  });
});

test('compose.yaml has no other services', () => {
  expect(Object.keys(services)).toEqual(['triton', 'triton-cpu']);
});

test('the mounted folder is in every checkout, because Docker would create it for root alone', () => {
  expect(existsSync(join(paths.root, 'build', '.gitignore'))).toBe(true);
});

describe('compose.yaml and the Dockerfile agree', () => {
  const dockerfile = readDockerfile();
  const value = (name: string): string => dockerfile.find((one) => one.name === name)?.value ?? '';

  test('the target is one of its stages', () => {
    expect(dockerfile.some((one) => one.name === 'FROM' && one.value.endsWith(` AS ${SHARED.build.target}`))).toBe(
      true,
    );
  });

  test('the image has the health check', () => {
    expect(value('HEALTHCHECK')).toContain('/v2/health/ready');
  });

  test('the memory file system holds the S3 models and belongs to the user', () => {
    const folder = value('ENV').replace('TRITON_AWS_MOUNT_DIRECTORY=', '');
    const [uid, gid] = value('USER').split(':');
    expect(SHARED.tmpfs).toEqual([`${folder}:mode=0700,uid=${uid},gid=${gid}`]);
  });

  test('Docker waits longer than the server does for open requests', () => {
    const seconds = Number(/--exit-timeout-secs=(\d+)/.exec(value('ENTRYPOINT'))?.[1]);
    expect(Number.parseInt(SHARED.stop_grace_period, 10)).toBeGreaterThanOrEqual(seconds + 10);
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

  test('S3 by environment', () => {
    const { services: read } = config({ MODEL_REPOSITORY: 's3://models/prod', AWS_DEFAULT_REGION: 'eu-central-1' });
    expect(read['triton']?.['command']).toEqual(['--model-repository=s3://models/prod']);
    expect(read['triton']?.['environment']).toMatchObject({ AWS_DEFAULT_REGION: 'eu-central-1' });
  });

  test('the profile cpu has no GPU in it', () => {
    const { services: read } = config({}, '--profile', 'cpu');
    expect(Object.keys(read).sort()).toEqual(['triton', 'triton-cpu']);
    expect(read['triton-cpu']?.['deploy']).toBeUndefined();
  });
});
