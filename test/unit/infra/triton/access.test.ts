import type { ExposureArgs } from '../../../../infra/triton/args';
import { LABELS, render } from '../../../support/render';

test('TritonServer with defaults creates exactly these objects', async () => {
  const { kinds, outputs, objects } = await render();
  expect(kinds()).toEqual([
    'ConfigMap',
    'Deployment',
    'Namespace',
    'NetworkPolicy',
    'NetworkPolicy',
    'PodDisruptionBudget',
    'Role',
    'RoleBinding',
    'Service',
    'Service',
    'ServiceAccount',
    'TritonServer',
  ]);
  expect(outputs).toEqual({
    namespace: 'triton',
    podSelector: 'app.kubernetes.io/name=triton,app.kubernetes.io/instance=triton',
    serviceUrl: 'http://triton.triton.svc:8000',
    externalUrl: undefined,
  });
  const children = objects.filter(({ type }) => type !== 'triton-serving:index:TritonServer');
  expect(new Set(children.map(({ parent }) => parent))).toEqual(new Set(['triton-serving:index:TritonServer']));
});

test('TritonServer names its objects after the component', async () => {
  const { objects, outputs } = await render({ namespace: { name: 'serving' } }, 'faces');
  expect(outputs).toMatchObject({
    namespace: 'serving',
    podSelector: 'app.kubernetes.io/name=triton,app.kubernetes.io/instance=faces',
    serviceUrl: 'http://faces.serving.svc:8000',
  });
  const metadata = objects
    .filter(({ type }) => type.startsWith('kubernetes:') && !type.endsWith(':Namespace'))
    .map(({ manifest }) => manifest['metadata'] as { name?: string; namespace: string });
  expect(new Set(metadata.map(({ namespace }) => namespace))).toEqual(new Set(['serving']));
  // Pulumi gives the ConfigMap of the agent a new name when its content changes.
  expect(new Set(metadata.map(({ name }) => name))).toEqual(
    new Set(['faces', 'faces-default-deny', 'faces-headless', 'faces-publisher', undefined]),
  );
});

describe('the namespace', () => {
  test('enforces the Pod Security Standard restricted', async () => {
    const { only } = await render();
    expect(only('Namespace')).toEqual({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: {
        name: 'triton',
        labels: {
          ...LABELS,
          'pod-security.kubernetes.io/enforce': 'restricted',
          'pod-security.kubernetes.io/enforce-version': 'latest',
          'pod-security.kubernetes.io/audit': 'restricted',
          'pod-security.kubernetes.io/audit-version': 'latest',
          'pod-security.kubernetes.io/warn': 'restricted',
          'pod-security.kubernetes.io/warn-version': 'latest',
        },
      },
    });
  });

  const BALANCED: ExposureArgs = {
    kind: 'internal-load-balancer',
    clientCidrs: ['10.1.0.0/16'],
    controllerCidrs: ['10.0.0.0/16'],
  };
  const INGRESS: ExposureArgs = {
    kind: 'ingress',
    host: 'triton.example.com',
    controllerCidrs: ['10.0.0.0/16'],
    certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
  };
  const OWN: ExposureArgs = {
    ...INGRESS,
    certificateArn: undefined,
    tlsSecretName: 'tls',
    annotations: { auth: 'basic' },
  };
  const [AUTO_MODE, CONTROLLER] = ['eks.amazonaws.com', 'elbv2.k8s.aws'];

  test.each<[string, ExposureArgs, string | undefined, number, boolean]>([
    ['no load balancer', { kind: 'cluster' }, undefined, 15, false],
    ['a load balancer of Auto Mode', BALANCED, AUTO_MODE, 120, false],
    [
      'a load balancer of another class',
      { ...BALANCED, loadBalancerClass: 'service.k8s.aws/nlb' },
      CONTROLLER,
      120,
      false,
    ],
    ['an ingress of Auto Mode', INGRESS, AUTO_MODE, 30, true],
    ['an ingress of another class', INGRESS, CONTROLLER, 30, false],
    ['an ingress with annotations of its user', OWN, undefined, 30, false],
  ])(
    'with %s has the label for its readiness gate, and pods drain as long',
    async (_, exposure, group, seconds, createIngressClass) => {
      const { only } = await render({ exposure, createIngressClass });
      const { labels } = only('Namespace')['metadata'] as { labels: Record<string, string> };
      const gates = Object.entries(labels).filter(([key]) => key.includes('readiness-gate'));
      expect(gates).toEqual(group === undefined ? [] : [[`${group}/pod-readiness-gate-inject`, 'enabled']]);
      expect(JSON.stringify(only('Deployment'))).toContain(`"preStop":{"sleep":{"seconds":${seconds}}}`);
    },
  );

  test('leaves an existing namespace and its other pods unchanged', async () => {
    const { kinds, outputs, objects } = await render({ namespace: { name: 'shared', create: false } });
    expect(kinds()).not.toContain('Namespace');
    expect(objects.filter(({ type }) => type.endsWith(':NetworkPolicy')).map(({ name }) => name)).toEqual(['triton']);
    expect(outputs.namespace).toBe('shared');
  });
});

test('static keys are in a Secret whose name changes with its content', async () => {
  const { only } = await render({
    credentials: { accessKeyId: 'id', secretAccessKey: 'key' },
  });
  expect(only('Secret', 'triton-credentials')).toEqual({
    apiVersion: 'v1',
    kind: 'Secret',
    // No name: Pulumi makes up a new one for new content.
    metadata: { namespace: 'triton', labels: LABELS },
    stringData: { secret: { accessKeyId: 'id', secretAccessKey: 'key' } },
  });
});

test('the group of publishers may only list pods and forward ports in the namespace', async () => {
  const { only } = await render();
  const metadata = { name: 'triton-publisher', namespace: 'triton', labels: LABELS };
  expect(only('Role')).toEqual({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata,
    rules: [
      { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
      { apiGroups: [''], resources: ['pods/portforward'], verbs: ['get', 'create'] },
    ],
  });
  expect(only('RoleBinding')).toEqual({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'triton-publisher' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'triton-publishers' }],
  });
});
