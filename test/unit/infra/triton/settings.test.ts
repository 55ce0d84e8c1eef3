import { readSettings } from '../../../../infra/settings';
import { getConfig } from '../../../support/registered-stack';
import { getProblems } from '../settings-problems';

describe('readSettings of the replicas', () => {
  test.each<[string, Record<string, unknown>, RegExp[]]>([
    [
      'minReplicas above maxReplicas',
      { autoscaling: { kind: 'keda', minReplicas: 3, maxReplicas: 2 } },
      [/^autoscaling\.minReplicas: is 3; allowed: at most maxReplicas, 2$/],
    ],
    [
      'autoscaling without kind and maxReplicas',
      { autoscaling: { minReplicas: 1 } },
      [/^autoscaling\.kind: is missing; allowed: keda, custom-metrics/, /^autoscaling\.maxReplicas: is missing/],
    ],
    [
      'a load balancer without clients',
      { exposure: 'internal-load-balancer' },
      [/^clientCidrs: is empty; allowed: at least one, such as 10.0.0.0\/16$/],
    ],
    ['an ingress without settings', { exposure: 'ingress' }, [/^ingress: is missing, but exposure is ingress/]],
    [
      'an ingress without TLS',
      { exposure: 'ingress', ingress: { host: 'a.example.com' } },
      [/^ingress: has 0 certificates/],
    ],
    [
      'an ingress on the internet without authentication',
      {
        exposure: 'ingress',
        ingress: {
          host: 'a.example.com',
          certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
          scheme: 'internet-facing',
          annotations: { 'alb.ingress.kubernetes.io/ip-address-type': 'dualstack' },
        },
      },
      [
        /^ingress\.annotations: has no authentication, but the ingress is internet-facing; allowed: one of alb\.ingress\.kubernetes\.io\/mutual-authentication, /,
      ],
    ],
  ])('reports %s', (_, values, said) => {
    expect(getProblems(values)).toEqual(said.map((text) => expect.stringMatching(text) as unknown));
  });

  test('reports values that TritonServer rejects, under the names of the stack file', () => {
    const ingress = {
      host: 'https://a.example.com',
      tlsSecretName: 'tls',
    };
    expect(
      getProblems({
        namespace: 'My_Models',
        monitoringNamespace: 'Prom Stack',
        clientNamespaces: ['Web'],
        image: 'triton:latest',
        resources: { cpu: 3, cpuLimit: 1, sharedMemoryGiB: 8 },
        startup: { downloadSeconds: 1, loadSeconds: 1, warmUpSeconds: 1 },
        rollout: { maxUnavailable: 2 },
        autoscaling: { kind: 'custom-metrics', minReplicas: 2, maxReplicas: 1 },
        egressCidrs: ['anywhere'],
        exposure: 'ingress',
        ingress,
        clientCidrs: ['10.0.0.0/33'],
        loadBalancerCidrs: ['vpc'],
        extraArguments: ['--http-port=80'],
        environment: { HOME: '/root' },
        // Reported together with the problems of other parts.
        availabilityZones: ['us-east-1a'],
      }).map((text) => text.split(': ')[0]),
    ).toEqual([
      'availabilityZones',
      'namespace',
      'monitoringNamespace',
      'clientNamespaces',
      'image',
      'resources.cpuLimit',
      'resources.sharedMemoryGiB',
      'startup',
      'rollout.maxUnavailable',
      'autoscaling.minReplicas',
      'autoscaling.kind',
      'egressCidrs',
      'clientCidrs',
      'loadBalancerCidrs',
      'ingress.host',
      'ingress.annotations',
      'clientCidrs',
      'extraArguments',
      'environment',
    ]);
  });

  test('applies the limits of the component to numbers', () => {
    expect(
      getProblems({
        shutdown: { drainSeconds: 0, exitTimeoutSeconds: 3601 },
        autoscaling: { kind: 'keda', minReplicas: 1, maxReplicas: 2, scaleDownAfterSeconds: 7200 },
        monitoring: { scrapeSeconds: 5 },
      }),
    ).toEqual([
      'shutdown.drainSeconds: is 0; allowed: a whole number from 1 to 3600',
      'shutdown.exitTimeoutSeconds: is 3601; allowed: a whole number from 0 to 3600',
      'autoscaling.scaleDownAfterSeconds: is 7200; allowed: a whole number from 0 to 3600',
      'monitoring.scrapeSeconds: is 5; allowed: a whole number from 10 to 300',
    ]);
  });

  test('passes on the class of a load balancer', () => {
    const values = { exposure: 'internal-load-balancer', clientCidrs: ['10.0.0.0/8'] };
    expect(getProblems(values)).toEqual([]);
    const named = readSettings(getConfig('staging', { ...values, loadBalancerClass: 'service.k8s.aws/nlb' }));
    expect(named.triton.exposure).toEqual({
      kind: 'internal-load-balancer',
      clientCidrs: ['10.0.0.0/8'],
      loadBalancerCidrs: ['10.0.0.0/19', '10.0.32.0/19', '10.0.64.0/19'],
      loadBalancerClass: 'service.k8s.aws/nlb',
    });
  });

  test('fills in class and addresses of an ingress in a created network and cluster', () => {
    const ingress = {
      host: 'a.example.com',
      certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
    };
    expect(readSettings(getConfig('prod', { exposure: 'ingress', ingress })).triton.exposure).toEqual({
      kind: 'ingress',
      host: 'a.example.com',
      tls: { kind: 'acm', certificateArn: ingress.certificateArn },
      controllerCidrs: ['10.1.0.0/19', '10.1.32.0/19', '10.1.64.0/19'],
      createAutoModeClass: true,
    });
  });

  const AT_A_CLASS = {
    host: 'a.example.com',
    certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
  };

  test.each([
    ['of another class', { ingress: { ...AT_A_CLASS, className: 'nginx' } }],
    [
      'of an existing cluster',
      {
        existingCluster: { context: 'a', oidcProviderArn: 'arn:aws:iam::123456789012:oidc-provider/a' },
        loadBalancerCidrs: ['10.9.0.0/16'],
        gpuNodePools: [],
      },
    ],
  ])('creates no class for an ingress %s', (_, values) => {
    const given = { exposure: 'ingress', ingress: AT_A_CLASS, ...values };
    expect(readSettings(getConfig('prod', given)).triton.exposure).toMatchObject({ createAutoModeClass: false });
  });

  test('reads empty mappings as missing, as in Pulumi.yaml', () => {
    const { triton } = readSettings(
      getConfig('staging', { monitoring: {}, autoscaling: {}, resources: {}, ingress: {}, image: '' }),
    );
    expect([triton.monitoring, triton.autoscaling, triton.image]).toEqual([undefined, undefined, undefined]);
  });

  test('passes egressPorts and egressCidrs to the NetworkPolicy, and leaves the defaults to TritonServer', () => {
    const network = (values: Record<string, unknown>) => readSettings(getConfig('staging', values)).triton.network;
    const egress = { egressCidrs: ['10.0.0.0/8'], egressPorts: [443, 4317] };
    expect(network(egress)).toMatchObject(egress);
    expect(network({})).toMatchObject({ egressCidrs: undefined, egressPorts: undefined });
  });
});
