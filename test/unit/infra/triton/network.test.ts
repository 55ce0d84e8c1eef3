import type { ExposureArgs } from '../../../../infra/triton/args';
import { LABELS, SELECTOR, render } from '../../../support/render';

const SERVING = [
  { protocol: 'TCP', port: 8000 },
  { protocol: 'TCP', port: 8001 },
];
const HTTP = [{ protocol: 'TCP', port: 8000 }];
const METRICS = [8002, 8091].map((port) => ({ protocol: 'TCP', port }));
const named = (name: string): object => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } },
});

type Spec = { ingress: object[]; egress: object[] };
const policy = async (more?: Parameters<typeof render>[0]): Promise<Spec> =>
  (await render(more)).only('NetworkPolicy', 'triton')['spec'] as Spec;

const INGRESS: ExposureArgs = {
  kind: 'ingress',
  host: 'triton.example.com',
  controllerCidrs: ['10.0.0.0/16'],
  certificateArn: 'arn:aws:acm:eu-central-1:123456789012:certificate/1',
};

test('the Service exposes three ports of the pods of this component', async () => {
  const { only } = await render();
  expect(only('Service', 'triton')).toEqual({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: 'triton',
      namespace: 'triton',
      labels: LABELS,
      annotations: { 'pulumi.com/skipAwait': 'true' },
    },
    spec: {
      type: 'ClusterIP',
      selector: SELECTOR,
      ports: [
        { name: 'http', port: 8000, targetPort: 'http', appProtocol: 'http' },
        { name: 'grpc', port: 8001, targetPort: 'grpc', appProtocol: 'kubernetes.io/h2c' },
        { name: 'metrics', port: 8002, targetPort: 'metrics', appProtocol: 'http' },
      ],
    },
  });
});

test('the headless Service resolves to the pods, for gRPC only', async () => {
  const { only } = await render();
  expect(only('Service', 'triton-headless')).toEqual({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: 'triton-headless',
      namespace: 'triton',
      labels: LABELS,
      annotations: { 'pulumi.com/skipAwait': 'true' },
    },
    spec: {
      type: 'ClusterIP',
      clusterIP: 'None',
      selector: SELECTOR,
      ports: [{ name: 'grpc', port: 8001, targetPort: 'grpc', appProtocol: 'kubernetes.io/h2c' }],
    },
  });
});

describe('the NetworkPolicy', () => {
  test('allows by default its own namespace, Prometheus, DNS and AWS, but not the metadata service', async () => {
    expect(await policy()).toEqual({
      podSelector: { matchLabels: SELECTOR },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        { from: [{ podSelector: {} }], ports: SERVING },
        { from: [named('monitoring')], ports: METRICS },
      ],
      egress: [
        {
          ports: [
            { protocol: 'UDP', port: 53 },
            { protocol: 'TCP', port: 53 },
          ],
        },
        {
          to: [{ ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.0.0/16'] } }],
          ports: [{ protocol: 'TCP', port: 443 }],
        },
      ],
    });
  });

  test('denies all connections of other pods in a created namespace', async () => {
    const { only } = await render();
    expect(only('NetworkPolicy', 'triton-default-deny')).toEqual({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'triton-default-deny', namespace: 'triton', labels: LABELS },
      spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
    });
  });

  test('allows clientNamespaces', async () => {
    const { ingress } = await policy({ clientNamespaces: ['web', 'batch'], monitoring: { namespace: 'prom' } });
    expect(ingress).toEqual([
      { from: [{ podSelector: {} }, named('web'), named('batch')], ports: SERVING },
      { from: [named('prom')], ports: METRICS },
    ]);
  });

  test.each([
    ['http://minio.storage.svc:9000', 9000],
    ['https://s3.example.com', 443],
    ['http://s3.example.com', 80],
  ])('allows egress to %s on port %i', async (endpointUrl, port) => {
    const { egress } = await policy({ endpointUrl });
    expect(egress[1]).toEqual({
      to: [{ ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.0.0/16'] } }],
      ports: [{ protocol: 'TCP', port }],
    });
  });

  test.each([['0.0.0.0/0'], ['128.0.0.0/1'], ['168.0.0.0/5']])('allows no link-local address in %s', async (cidr) => {
    const { egress } = await policy({ egressCidrs: ['10.0.0.0/8', cidr] });
    expect(egress[1]).toMatchObject({
      to: [{ ipBlock: { cidr: '10.0.0.0/8' } }, { ipBlock: { cidr, except: ['169.254.0.0/16'] } }],
    });
  });

  test('allows egress to egressCidrs only', async () => {
    const { egress } = await policy({
      egressCidrs: ['10.0.0.0/8', '52.0.0.0/8'],
    });
    expect(egress[1]).toEqual({
      to: [{ ipBlock: { cidr: '10.0.0.0/8' } }, { ipBlock: { cidr: '52.0.0.0/8' } }],
      ports: [{ protocol: 'TCP', port: 443 }],
    });
  });
});

describe('the rule for the collector of traces', () => {
  const egressTo = async (otlpEndpoint: string): Promise<object[]> =>
    (await policy({ tracing: { otlpEndpoint }, egressCidrs: ['10.0.0.0/8'] })).egress;

  test.each([
    ['http://collector.monitoring.svc:4318', 4318],
    ['http://collector.monitoring.svc.cluster.local:4318/otlp', 4318],
    ['https://collector.monitoring.svc', 443],
  ])('allows the port of %s in the namespace of the Service', async (url, port) => {
    const egress = await egressTo(url);
    expect(egress).toHaveLength(3);
    expect(egress[2]).toEqual({ to: [named('monitoring')], ports: [{ protocol: 'TCP', port }] });
  });

  test.each([
    ['http://10.0.0.9:4318', 4318],
    ['https://otlp.example.com/otlp', 443],
  ])('allows the port of %s in egressCidrs', async (url, port) => {
    expect((await egressTo(url))[2]).toEqual({
      to: [{ ipBlock: { cidr: '10.0.0.0/8' } }],
      ports: [{ protocol: 'TCP', port }],
    });
  });
});

describe('an internal load balancer', () => {
  const exposure: ExposureArgs = {
    kind: 'internal-load-balancer',
    clientCidrs: ['10.1.0.0/16'],
    controllerCidrs: ['10.0.0.0/16'],
  };

  test('has its own Service without metrics, with pods as targets', async () => {
    const { only } = await render({ exposure, drainSeconds: 20 });
    const prefix = 'service.beta.kubernetes.io/aws-load-balancer';
    expect(only('Service', 'triton-internal')).toEqual({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: {
        namespace: 'triton',
        labels: LABELS,
        annotations: {
          [`${prefix}-scheme`]: 'internal',
          [`${prefix}-nlb-target-type`]: 'ip',
          [`${prefix}-target-group-attributes`]:
            'preserve_client_ip.enabled=true,deregistration_delay.timeout_seconds=20',
          [`${prefix}-healthcheck-protocol`]: 'HTTP',
          [`${prefix}-healthcheck-port`]: '8000',
          [`${prefix}-healthcheck-path`]: '/v2/health/ready',
          [`${prefix}-healthcheck-interval`]: '5',
        },
      },
      spec: {
        type: 'LoadBalancer',
        loadBalancerClass: 'eks.amazonaws.com/nlb',
        loadBalancerSourceRanges: ['10.1.0.0/16'],
        allocateLoadBalancerNodePorts: false,
        selector: SELECTOR,
        ports: [
          { name: 'http', port: 8000, targetPort: 'http', appProtocol: 'http' },
          { name: 'grpc', port: 8001, targetPort: 'grpc', appProtocol: 'kubernetes.io/h2c' },
        ],
      },
    });
  });

  test('has the tags in an annotation', async () => {
    const { only } = await render({ exposure, loadBalancerTags: { project: 'triton', 'cost center': 'a=b' } });
    expect(only('Service', 'triton-internal')['metadata']).toMatchObject({
      annotations: {
        'service.beta.kubernetes.io/aws-load-balancer-additional-resource-tags': 'project=triton,cost center=a=b',
      },
    });
  });

  test('allows clients and health checks to connect', async () => {
    expect((await policy({ exposure })).ingress).toEqual([
      { from: [{ podSelector: {} }], ports: SERVING },
      { from: [{ ipBlock: { cidr: '10.1.0.0/16' } }], ports: SERVING },
      { from: [{ ipBlock: { cidr: '10.0.0.0/16' } }], ports: HTTP },
      { from: [named('monitoring')], ports: METRICS },
    ]);
  });

  test('has the timeouts of the Deployment', async () => {
    for (const [more, type, name, rollout, end] of [
      [exposure, 'kubernetes:core/v1:Service', 'triton-internal', '2450s', '765s'],
      [INGRESS, 'kubernetes:networking.k8s.io/v1:Ingress', 'triton', '2270s', '675s'],
    ] as const) {
      const { objects } = await render({ exposure: more });
      const timeouts = objects.find((one) => one.type === type && one.name === name)?.timeouts;
      expect(timeouts).toEqual({ create: rollout, update: rollout, delete: end });
    }
  });

  test('uses loadBalancerClass, and exports the address that the controller reports', async () => {
    const { only, outputs } = await render({ exposure: { ...exposure, loadBalancerClass: 'service.k8s.aws/nlb' } });
    expect(only('Service', 'triton-internal')['spec']).toMatchObject({ loadBalancerClass: 'service.k8s.aws/nlb' });
    // Nothing is applied in this test, so no controller reports an address.
    expect(outputs.externalUrl).toBeUndefined();
  });
});

describe('an ingress', () => {
  const alb = 'alb.ingress.kubernetes.io';
  const COMMON = {
    [`${alb}/scheme`]: 'internal',
    [`${alb}/target-type`]: 'ip',
    [`${alb}/listen-ports`]: '[{"HTTPS":443}]',
    [`${alb}/ssl-policy`]: 'ELBSecurityPolicy-TLS13-1-2-2021-06',
    [`${alb}/certificate-arn`]: 'arn:aws:acm:eu-central-1:123456789012:certificate/1',
    [`${alb}/healthcheck-path`]: '/v2/health/ready',
    [`${alb}/target-group-attributes`]: 'deregistration_delay.timeout_seconds=30',
    [`${alb}/load-balancer-attributes`]: 'idle_timeout.timeout_seconds=300',
  };
  const service = { name: 'triton', port: { name: 'http' } };
  const annotations = (manifest: Record<string, unknown>): unknown =>
    (manifest['metadata'] as { annotations: unknown }).annotations;

  test('forwards inference but not model control', async () => {
    const { only, outputs, kinds } = await render({ exposure: INGRESS });
    expect(only('Ingress')).toEqual({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'Ingress',
      metadata: {
        name: 'triton',
        namespace: 'triton',
        labels: LABELS,
        annotations: COMMON,
      },
      spec: {
        ingressClassName: 'alb',
        rules: [
          {
            host: 'triton.example.com',
            http: {
              paths: [
                { path: '/v2', pathType: 'Exact', backend: { service } },
                { path: '/v2/health', pathType: 'Prefix', backend: { service } },
                { path: '/v2/models', pathType: 'Prefix', backend: { service } },
              ],
            },
          },
        ],
      },
    });
    expect(outputs.externalUrl).toBe('https://triton.example.com');
    expect(kinds()).not.toContain('IngressClass');
    expect((await policy({ exposure: INGRESS })).ingress).toEqual([
      { from: [{ podSelector: {} }], ports: SERVING },
      { from: [{ ipBlock: { cidr: '10.0.0.0/16' } }], ports: HTTP },
      { from: [named('monitoring')], ports: METRICS },
    ]);
  });

  test('has the tags in an annotation, or in the parameters of the class of Auto Mode', async () => {
    const loadBalancerTags = { project: 'triton', stack: 'prod' };
    const own = await render({ exposure: INGRESS, loadBalancerTags });
    expect(annotations(own.only('Ingress'))).toMatchObject({ [`${alb}/tags`]: 'project=triton,stack=prod' });
    const { only } = await render({ exposure: INGRESS, createIngressClass: true, loadBalancerTags });
    expect(annotations(only('Ingress'))).not.toHaveProperty([`${alb}/tags`]);
    expect(only('IngressClassParams', 'triton-ingress-class')['spec']).toEqual({
      scheme: 'internal',
      tags: [
        { key: 'project', value: 'triton' },
        { key: 'stack', value: 'prod' },
      ],
    });
  });

  test('has further annotations, which replace all but the scheme', async () => {
    const { only } = await render({
      exposure: {
        ...INGRESS,
        scheme: 'internet-facing',
        clientCidrs: ['192.0.2.0/24', '198.51.100.0/24'],
        annotations: {
          [`${alb}/jwt-validation`]: '{}',
          [`${alb}/healthcheck-path`]: '/v2/health/live',
          [`${alb}/scheme`]: 'internal',
        },
      },
    });
    expect(annotations(only('Ingress'))).toEqual({
      ...COMMON,
      [`${alb}/scheme`]: 'internet-facing',
      [`${alb}/inbound-cidrs`]: '192.0.2.0/24,198.51.100.0/24',
      [`${alb}/healthcheck-path`]: '/v2/health/live',
      [`${alb}/jwt-validation`]: '{}',
    });
  });

  test('sets the annotations and the TLS Secret of another controller', async () => {
    const { only } = await render({
      exposure: {
        ...INGRESS,
        className: 'traefik',
        certificateArn: undefined,
        tlsSecretName: 'triton-tls',
        annotations: { 'traefik.ingress.kubernetes.io/router.middlewares': 'auth-jwt@kubernetescrd' },
      },
    });
    expect(annotations(only('Ingress'))).toEqual({
      'traefik.ingress.kubernetes.io/router.middlewares': 'auth-jwt@kubernetescrd',
    });
    expect(only('Ingress')['spec']).toMatchObject({
      ingressClassName: 'traefik',
      tls: [{ hosts: ['triton.example.com'], secretName: 'triton-tls' }],
    });
  });

  test('creates the IngressClass of EKS Auto Mode', async () => {
    const { only } = await render({ exposure: { ...INGRESS, className: 'serving' }, createIngressClass: true });
    expect(only('IngressClassParams')).toEqual({
      apiVersion: 'eks.amazonaws.com/v1',
      kind: 'IngressClassParams',
      metadata: { name: 'serving', labels: LABELS },
      spec: { scheme: 'internal' },
    });
    expect(only('IngressClass')).toEqual({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'IngressClass',
      metadata: { name: 'serving', labels: LABELS },
      spec: {
        controller: 'eks.amazonaws.com/alb',
        parameters: { apiGroup: 'eks.amazonaws.com', kind: 'IngressClassParams', name: 'serving' },
      },
    });
    expect(only('Ingress')['spec']).toMatchObject({ ingressClassName: 'serving' });
  });
});
