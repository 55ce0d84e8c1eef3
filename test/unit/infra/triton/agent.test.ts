import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AGENT_IMAGE, hasDigest } from '../../../../infra/triton/image';
import { agentProgram, configMapFiles, findSizeFault } from '../../../../infra/triton/agent/program';
import { paths } from '../../../../src/core/paths';
import { LABELS, render } from '../../../support/render';

interface Container {
  args: string[];
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
  spec: { progressDeadlineSeconds: number; template: { spec: Pod } };
}

async function pod(more: Parameters<typeof render>[0] = {}): Promise<{
  all: Awaited<ReturnType<typeof render>>;
  agent: Container;
  triton: Container;
  volumes: Pod['volumes'];
  deadline: number;
}> {
  const all = await render(more);
  const { progressDeadlineSeconds: deadline, template } = (all.only('Deployment') as unknown as Deployment).spec;
  const { initContainers: [agent] = [], containers, volumes } = template.spec;
  expect(agent).toBeDefined();
  return { all, agent: agent as Container, triton: containers[0], volumes, deadline };
}

test('the program of the agent has none of the S3 commands of the AWS SDK', () => {
  const program = agentProgram()['agent.cjs'];
  expect(program).not.toMatch(/ListObjectsV2|CompleteMultipartUpload|DeleteObjects/);
  expect(program).toContain('x-amz-content-sha256');
});

test('the container of the agent is a native sidecar without probes', async () => {
  const { agent } = await pod();
  expect(agent).toEqual({
    name: 'agent',
    image: AGENT_IMAGE,
    imagePullPolicy: 'IfNotPresent',
    restartPolicy: 'Always',
    command: ['/bin/sh', '/opt/agent/supervise.sh'],
    args: [
      'node',
      '--max-old-space-size=256',
      '--max-semi-space-size=2',
      '/opt/agent/agent.cjs',
      '--bucket',
      's3://models-prod/models',
      '--directory',
      '/var/cache/triton',
      '--disk-bytes',
      String(20 * 1024 ** 3 - 64 * 1024 ** 2),
      '--gpus',
      '1',
      '--load-timeout',
      '600',
      '--leave-seconds',
      '30',
    ],
    env: [
      { name: 'HOME', value: '/' },
      { name: 'AWS_REGION', value: 'eu-central-1' },
      { name: 'AWS_EC2_METADATA_DISABLED', value: 'true' },
      { name: 'AWS_ROLE_ARN', value: 'arn:aws:iam::123456789012:role/triton' },
      { name: 'AWS_WEB_IDENTITY_TOKEN_FILE', value: '/var/run/secrets/aws/token' },
    ],
    ports: [{ name: 'agent', containerPort: 8091 }],
    resources: {
      requests: { cpu: '250m', memory: '256Mi', 'ephemeral-storage': '128Mi' },
      limits: { cpu: '4', memory: '512Mi', 'ephemeral-storage': '128Mi' },
    },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [
      { name: 'agent', mountPath: '/opt/agent', readOnly: true },
      { name: 'scratch', mountPath: '/var/cache/triton' },
      { name: 'aws-token', mountPath: '/var/run/secrets/aws', readOnly: true },
    ],
  });
  const args = async (change: Parameters<typeof pod>[0]): Promise<string> => (await pod(change)).agent.args.join(' ');
  expect(await args({ startSeconds: 1920 })).toContain('--load-timeout 960 ');
  expect(await args({ gpusPerPod: 0 })).toContain('--gpus 0 ');
  // Until the probe has failed three times, and clients have noticed; a publisher waits for no more than five minutes.
  expect(await args({ drainSeconds: 40 })).toContain('--leave-seconds 55');
  expect(await args({ drainSeconds: 3600 })).toContain('--leave-seconds 180');
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

test('the token is only valid for AWS', async () => {
  const { volumes } = await pod();
  expect(volumes.find(({ name }) => name === 'aws-token')).toEqual({
    name: 'aws-token',
    projected: {
      sources: [{ serviceAccountToken: { audience: 'sts.amazonaws.com', expirationSeconds: 3600, path: 'token' } }],
    },
  });
});

describe('the program', () => {
  test('is in an immutable ConfigMap', async () => {
    const { all, volumes } = await pod();
    const map = all.only('ConfigMap', 'triton-agent');
    expect(map).toEqual({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      // Without a name, so that Pulumi gives each content another one.
      metadata: { namespace: 'triton', labels: LABELS },
      ...configMapFiles(),
      immutable: true,
    });
    expect(volumes).toContainEqual({ name: 'agent', configMap: { name: 'triton-agent-a1b2c3d' } });
  });

  test('is far below the limit of Kubernetes for a ConfigMap; otherwise the fault names its largest parts', () => {
    expect(findSizeFault()).toBeUndefined();
    expect(findSizeFault(1000)).toMatch(
      /^the program of the agent takes \d+ bytes .*: (?=.*this package \d+)(?=.*@smithy\/core \d+).*\. Import less of them/,
    );
  });

  test('runs in an image with the digest of its content and the version in .node-version', () => {
    const version = readFileSync(join(paths.root, '.node-version'), 'utf8').trim();
    expect(AGENT_IMAGE).toContain(`/node:${version}.`);
    expect(hasDigest(AGENT_IMAGE)).toBe(true);
  });

  test('runs in another image if there is one in the arguments', async () => {
    const { agent } = await pod({ agent: { image: 'registry.example/node:24.1.0' } });
    expect(agent).toMatchObject({ image: 'registry.example/node:24.1.0', imagePullPolicy: 'Always' });
    await expect(pod({ agent: { image: 'node:latest' } })).rejects.toThrow(/agent\.image: is "node:latest"/);
  });
});

test('a pod has the time to download while the image is pulled, and to load', async () => {
  // A node 300, the agent's image 30, counting as ready 10; the one before ends 15 + 30 + 15.
  const around = 300 + 30 + 10 + 60;
  // Triton's image 300 and its start 120, longer than the download of 300 s; loading 300.
  expect((await pod()).deadline).toBe(around + 420 + 300);
  expect((await pod({ startSeconds: 2000 })).deadline).toBe(around + 1000 + 1000);
});

test('the network policy admits only Prometheus to the ports of metrics', async () => {
  const { all } = await pod();
  const { ingress } = all.only('NetworkPolicy', 'triton')['spec'] as { ingress: { ports: { port: number }[] }[] };
  expect(ingress.map(({ ports }) => ports.map(({ port }) => port))).toEqual([
    [8000, 8001],
    [8002, 8091],
  ]);
});
