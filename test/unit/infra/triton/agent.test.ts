import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AGENT_IMAGE, hasDigest } from '../../../../infra/triton/image';
import { agentProgram, findSizeFault } from '../../../../infra/triton/agent/program';
import { paths } from '../../../../src/core/paths';
import { LABELS, render } from '../../../support/render';

interface Container {
  env: { name: string }[];
  volumeMounts: { name: string }[];
}

interface Pod {
  initContainers: [agent: Container];
  containers: [triton: Container];
  volumes: { name: string }[];
}

test('the program of the agent has none of the S3 commands of the AWS SDK', () => {
  const program = agentProgram()['agent.cjs'];
  expect(program).not.toMatch(/ListObjectsV2/);
  expect(program).toContain('x-amz-content-sha256');
});

test.each([
  ['a role', { roleArn: 'arn:aws:iam::123456789012:role/triton' }, ['AWS_ROLE_ARN']],
  ['static keys', { accessKeyId: 'id', secretAccessKey: 'key' }, ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']],
] as const)('with %s, only the container of the agent has credentials', async (_, credentials, variables) => {
  const { only } = await render({
    credentials,
    environment: { OTEL_SERVICE_NAME: 'triton' },
    endpointUrl: 'http://minio.storage.svc:9000',
  });
  const { template } = only('Deployment')['spec'] as { template: { spec: Pod } };
  const { initContainers, containers, volumes } = template.spec;
  const [[agent], [triton]] = [initContainers, containers];
  expect(agent.env.map(({ name }) => name)).toEqual(expect.arrayContaining([...variables, 'AWS_ENDPOINT_URL_S3']));
  expect(triton.env.map(({ name }) => name)).toEqual([
    ...['HOME', 'USER', 'AOTI_RUNTIME_CHECK_INPUTS', 'OMP_WAIT_POLICY', 'GLIBC_TUNABLES', 'OTEL_SERVICE_NAME'],
  ]);
  const mounted = triton.volumeMounts.map(({ name }) => name);
  const secret = volumes.filter((volume) => !('emptyDir' in volume)).map(({ name }) => name);
  expect(secret).toEqual('roleArn' in credentials ? ['agent', 'aws-token'] : ['agent']);
  expect(mounted.filter((name) => secret.includes(name))).toEqual([]);
  // Without annotations, because EKS gives a token to each container of a service account with a role.
  expect(only('ServiceAccount')).toMatchObject({
    metadata: { name: 'triton', namespace: 'triton', labels: LABELS },
  });
  expect(only('ServiceAccount')['metadata']).not.toHaveProperty('annotations');
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
