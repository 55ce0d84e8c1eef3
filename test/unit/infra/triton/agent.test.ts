import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AGENT_IMAGE, hasDigest } from '../../../../infra/triton/image';
import { agentProgram, findSizeFault } from '../../../../infra/triton/agent/program';
import { paths } from '../../../../src/core/paths';
import { LABELS, render } from '../../../support/render';

interface Container {
  env: { name: string }[];
  volumeMounts: { name: string }[];
  [field: string]: unknown;
}

interface Pod {
  initContainers?: [Container];
  containers: [Container];
  volumes: { name: string }[];
}

interface Deployment {
  spec: { template: { spec: Pod } };
}

async function pod(more: Parameters<typeof render>[0] = {}): Promise<{
  all: Awaited<ReturnType<typeof render>>;
  agent: Container;
  triton: Container;
  volumes: Pod['volumes'];
}> {
  const all = await render(more);
  const { template } = (all.only('Deployment') as unknown as Deployment).spec;
  const { initContainers: [agent] = [], containers, volumes } = template.spec;
  expect(agent).toBeDefined();
  return { all, agent: agent as Container, triton: containers[0], volumes };
}

test('the program of the agent has none of the S3 commands of the AWS SDK', () => {
  const program = agentProgram()['agent.cjs'];
  expect(program).not.toMatch(/ListObjectsV2/);
  expect(program).toContain('x-amz-content-sha256');
});

describe.each([
  ['a role', { roleArn: 'arn:aws:iam::123456789012:role/triton' }, ['AWS_ROLE_ARN']],
  ['static keys', { accessKeyId: 'id', secretAccessKey: 'key' }, ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']],
] as const)('with %s', (_, credentials, variables) => {
  test('only the container of the agent has credentials', async () => {
    const { agent, triton, volumes, all } = await pod({
      credentials,
      environment: { OTEL_SERVICE_NAME: 'triton' },
      endpointUrl: 'http://minio.storage.svc:9000',
    });
    expect(agent.env.map(({ name }) => name)).toEqual(expect.arrayContaining([...variables, 'AWS_ENDPOINT_URL_S3']));
    expect(triton.env.map(({ name }) => name)).toEqual([
      ...['HOME', 'USER', 'OMP_WAIT_POLICY', 'GLIBC_TUNABLES', 'OTEL_SERVICE_NAME'],
    ]);
    const mounted = triton.volumeMounts.map(({ name }) => name);
    const secret = volumes.filter((volume) => !('emptyDir' in volume)).map(({ name }) => name);
    expect(secret).toEqual('roleArn' in credentials ? ['agent', 'aws-token'] : ['agent']);
    expect(mounted.filter((name) => secret.includes(name))).toEqual([]);
    // Without annotations, because EKS gives a token to each container of a service account with a role.
    expect(all.only('ServiceAccount')).toMatchObject({
      metadata: { name: 'triton', namespace: 'triton', labels: LABELS },
    });
    expect(all.only('ServiceAccount')['metadata']).not.toHaveProperty('annotations');
  });
});

test('the agent reads S3 through the proxy of the stack, and gets no other variable', async () => {
  const { agent, triton } = await pod({
    environment: { NO_PROXY: '10.0.0.0/8', OTEL_SERVICE_NAME: 'triton' },
    secretEnvironment: { HTTPS_PROXY: 'http://user:password@proxy:3128', HF_TOKEN: 'token' },
  });
  const own = agent.env.slice(-2);
  expect(own).toEqual([
    { name: 'NO_PROXY', value: '10.0.0.0/8' },
    { name: 'HTTPS_PROXY', valueFrom: { secretKeyRef: { name: expect.any(String) as string, key: 'HTTPS_PROXY' } } },
  ]);
  expect(triton.env).toEqual(expect.arrayContaining(own));
  const names = agent.env.map(({ name }) => name);
  expect(names).not.toContain('OTEL_SERVICE_NAME');
  expect(names).not.toContain('HF_TOKEN');
});

describe('the program', () => {
  test('is far below the limit of Kubernetes for a ConfigMap', () => {
    expect(findSizeFault()).toBeUndefined();
    expect(findSizeFault(1000)).toMatch(
      /^the program of the agent takes \d+ bytes .*, more than 1000: .*\. Import less/,
    );
  });

  test('runs in an image with the digest of its content and the version in .node-version', () => {
    const version = readFileSync(join(paths.root, '.node-version'), 'utf8').trim();
    expect(AGENT_IMAGE).toContain(`/node:${version}.`);
    expect(hasDigest(AGENT_IMAGE)).toBe(true);
  });
});
